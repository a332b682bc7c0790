"""Number the combinations of actions that consist of several choices."""

import math
from functools import reduce
from typing import Any

import gymnasium as gym
import numpy as np

from sas_gym._finite_actions import FiniteActions
from sas_gym._mask_source import MaskName, MaskSource
from sas_gym._types import Mask
from sas_gym._wrappers import MaskWrapper, StepReturn
from sas_gym.masks import check_masks

MAX_COMBINATIONS = 2**20
"""Most actions that `FlattenActions` numbers: each has an output of a network."""


class FlattenActions(MaskWrapper):
    """Number the combinations of MultiDiscrete or MultiBinary actions.

    The actions become Discrete, and a joint mask fits, which says of every combination
    whether it is available. A joint mask has the shape of the choices, `(3, 4)` for
    `MultiDiscrete([3, 4])`. With a mask of one entry per choice, of which there are 7,
    a combination is available if all its choices are. Without a mask all are.

    Args:
        env: The environment.
        mask: Where its mask is, if in another place than `observation["action_mask"]`,
            `info["action_mask"]` or `action_masks()`; see `MaskInObservation`.

    Example:
        >>> class Switches(gym.Env):
        ...     observation_space = gym.spaces.Discrete(1)
        ...     action_space = gym.spaces.MultiDiscrete([3, 4])
        >>> FlattenActions(Switches()).action_space
        Discrete(12)
    """

    def __init__(self, env: gym.Env[Any, Any], *, mask: MaskName | None = None) -> None:
        self._choices = FiniteActions(env.action_space)
        self._shape = tuple(self._choices.sizes)
        num_actions = math.prod(self._shape)
        if num_actions > MAX_COMBINATIONS:
            raise ValueError(
                f"{env.action_space} has {num_actions:,} combinations, more than "
                f"{MAX_COMBINATIONS:,}: keep its dimensions, which MaskedPPO takes"
            )
        in_observation = MaskSource(env, mask).is_in_observation
        super().__init__(env, mask, in_observation=in_observation, sizes=[num_actions])
        self.action_space = gym.spaces.Discrete(num_actions)

    def step(self, action: Any) -> StepReturn:
        """Take the combination of an action's number."""
        choices = np.array(np.unravel_index(int(action), self._shape))
        return super().step(self._choices.action(choices))

    def _found_mask(
        self, observation: Any, info: dict[str, Any], final: bool | None = None
    ) -> Mask:
        mask = self._inner_mask(observation, info, final)
        if mask is not None:
            return mask
        if self._mask is None:
            self._source.warn_of_other_names(observation, info)
        return np.ones(math.prod(self._shape), dtype=bool)

    def _checked(self, values: Any, source: str, final: bool) -> Mask:
        array = np.asarray(values)
        if array.shape == (sum(self._shape),):
            each = check_masks(array, self._shape, source, final=final)
            parts = np.split(each, np.cumsum(self._shape[:-1]))
            array = reduce(np.logical_and.outer, parts)
        if array.shape == self._shape:
            array = array.ravel()
        return super()._checked(array, source, final)
