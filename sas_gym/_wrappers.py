"""Wrappers that bring action sets to any environment with discrete actions."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import RecordConstructorArgs
from gymnasium.wrappers import TimeLimit
from numpy.typing import ArrayLike

from sas_gym._finite_actions import FiniteActions
from sas_gym._mask_source import MaskName, MaskSource
from sas_gym._types import ALL_ENVS, Ints, Mask
from sas_gym.action_sets import ActionSets
from sas_gym.action_sets._base import Sizes
from sas_gym.action_sets._independent import as_action_sets
from sas_gym.action_sets._plain import as_plain, from_plain
from sas_gym.action_sets._sampler import ActionSetSampler
from sas_gym.masks import (
    MASK_KEY,
    REPAIRED_KEY,
    OnUnavailable,
    check_masks,
    check_on_unavailable,
    discrete_actions,
    int_mask,
    mask_sizes,
    masked_space,
    repair_generator,
    unavailable_action_error,
    with_mask,
)

ResetReturn = tuple[Any, dict[str, Any]]
StepReturn = tuple[Any, Any, bool, bool, dict[str, Any]]


class MaskWrapper(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """A wrapper that keeps the current action set and returns it.

    The set is the one that the wrapped environment provides; subclasses change it.

    Args:
        env: The environment.
        mask: Where its mask is, see `MaskSource`.
        sizes: Number of entries of the mask in each dimension of the actions. By
            default the sizes of the environment's actions.
        in_observation: Whether the mask goes into the observation. A mask that comes
            from another key of the observation then moves.
        **recorded: The subclass's arguments, for the environment's spec.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        mask: MaskName | None,
        *,
        in_observation: bool,
        sizes: list[int] | None = None,
        **recorded: Any,
    ) -> None:
        RecordConstructorArgs.__init__(self, mask=mask, **recorded)
        super().__init__(env)
        self._mask_sizes = mask_sizes(env.action_space) if sizes is None else sizes
        self._source = MaskSource(env, mask)
        self._in_observation = in_observation
        self._moved_key: str | None = None
        if in_observation:
            space = env.observation_space
            if self._source.is_in_observation and self._source.key != MASK_KEY:
                self._moved_key = self._source.key
                space = gym.spaces.Dict(self._without_moved(space))
            self.observation_space = masked_space(space, sum(self._mask_sizes))
        self._mask: Mask | None = None
        self._num_steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetReturn:
        """Start an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._mask = self._found_mask(observation, info)
        return self._with_mask(observation, info)

    def step(self, action: Any) -> StepReturn:
        """Take an action."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._mask = self._found_mask(observation, info, terminated or truncated)
        observation, info = self._with_mask(observation, info)
        return observation, reward, terminated, truncated, info

    def action_masks(self) -> Mask:
        """Return which actions are available now. Reading draws nothing."""
        if self._mask is None:
            raise ResetNeeded("call reset() first: no action set has been drawn yet")
        return self._mask.copy()

    def _inner_mask(
        self, observation: Any, info: dict[str, Any], final: bool | None = None
    ) -> Mask | None:
        """Return the mask that the wrapped environment provides, if any.

        Args:
            observation: The observation that the environment returned.
            info: The info that the environment returned.
            final: Whether a step ended the episode; `None` after a reset.
        """
        if final is not None:
            self._num_steps += 1
        when = "at reset()" if final is None else f"at step {self._num_steps}"
        for place, values in self._source.places(observation, info):
            return self._checked(values, f"{place} {when}", bool(final))
        if self._source.is_named:
            raise self._source.error(observation, info)
        return None

    def _checked(self, values: Any, source: str, final: bool) -> Mask:
        """Return a mask of the environment as one of the wrapper."""
        return check_masks(
            values, self._mask_sizes, source, batch_shape=(), final=final
        )

    def _found_mask(
        self, observation: Any, info: dict[str, Any], final: bool | None = None
    ) -> Mask:
        """Return the mask of the wrapper, which must not be missing."""
        mask = self._inner_mask(observation, info, final)
        if mask is None:
            raise self._source.error(observation, info)
        return mask

    def _with_mask(self, observation: Any, info: dict[str, Any]) -> ResetReturn:
        mask = self.action_masks()
        if self._in_observation:
            if self._moved_key is not None:
                observation = self._without_moved(observation)
            observation = with_mask(observation, mask)
        return observation, {**info, MASK_KEY: int_mask(mask)}

    def _without_moved(self, entries: Any) -> dict[str, Any]:
        """Return entries of a Dict without the mask's former key."""
        return {key: entries[key] for key in entries if key != self._moved_key}


class _RepairsActions(MaskWrapper):
    """A wrapper that can replace unavailable choices by random available ones."""

    def __init__(self, env: gym.Env[Any, Any], *args: Any, **kwargs: Any) -> None:
        self._actions = FiniteActions(env.action_space)
        self._repair_rng = np.random.default_rng()
        super().__init__(env, *args, **kwargs)

    def _seed_repairs(self, seed: int | None) -> None:
        """Restart the stream of replaced actions, if there is a seed."""
        if seed is not None:
            self._repair_rng = repair_generator(seed)

    def _repaired(self, action: Any) -> tuple[Any, bool]:
        """Return an available action, and whether it replaces the given one."""
        mask, choices = self.action_masks(), self._actions.choices(action)
        available = self._actions.available(mask, choices)
        if available.all():
            return action, False
        drawn = self._actions.draw(mask, self._repair_rng)
        return self._actions.action(np.where(available, choices, drawn)), True


class StochasticActionSets(_RepairsActions):
    """Give any environment with discrete actions stochastic action sets.

    If the environment provides an action mask of its own, the sets are drawn within it,
    and are never empty.

    Args:
        env: The environment.
        action_sets: Distribution of the action sets, or just the probability that an
            action is available. One that differs by state needs a Discrete observation.
        mask_in_observation: Whether the mask goes into the observation: as another key
            of a dict, or next to `observation` otherwise.
        on_unavailable: Effect of an unavailable action: `"raise"` raises an error,
            `"repair"` takes a random available action and sets `info["repaired"]`.
        unavailable_penalty: Cost of a replaced action, subtracted from its reward.
        mask: Where the environment has its own mask, if it has one that is not in
            `observation["action_mask"]`, `info["action_mask"]` or `action_masks()`:
            another key, the name of another method, or a function of the environment.

    Example:
        >>> env = StochasticActionSets(gym.make("CartPole-v1"), 0.7)
        >>> obs, info = env.reset(seed=3)
        >>> obs["action_mask"]
        array([0, 1], dtype=int8)
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        action_sets: ActionSets | ArrayLike = 0.8,
        *,
        mask_in_observation: bool = True,
        on_unavailable: OnUnavailable = "raise",
        unavailable_penalty: float = 0.0,
        mask: MaskName | None = None,
    ) -> None:
        num_actions = int(discrete_actions(env.action_space).n)
        super().__init__(
            env,
            mask,
            in_observation=mask_in_observation,
            action_sets=as_plain(action_sets),
            mask_in_observation=mask_in_observation,
            on_unavailable=on_unavailable,
            unavailable_penalty=unavailable_penalty,
        )
        check_on_unavailable(on_unavailable, unavailable_penalty)
        space = env.observation_space
        self._states = space if isinstance(space, gym.spaces.Discrete) else None
        num_states = None if self._states is None else int(self._states.n)
        sets = as_action_sets(from_plain(action_sets))
        fitted = sets.fit(Sizes(num_actions, num_states))
        fitted.check_states(np.zeros(1, np.int64), None, num_actions)
        self._sets = ActionSetSampler(fitted, num_actions, num_envs=1)
        self._repairs = on_unavailable == "repair"
        self._penalty = unavailable_penalty

    @property
    def action_sets(self) -> ActionSets:
        """Distribution of the action sets."""
        return self._sets.action_sets

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetReturn:
        """Start an episode, and draw its first action set."""
        observation, info = self.env.reset(seed=seed, options=options)
        is_first = self._mask is None
        if seed is not None or is_first:
            self._sets.seed(seed)
        self._seed_repairs(seed)
        inner = self._inner_mask(observation, info)
        if inner is None and is_first:
            self._source.warn_of_other_names(observation, info)
        inputs = self._distribution_inputs(observation, inner)
        self._mask = self._sets.reset_at(ALL_ENVS, *inputs)[0]
        return self._with_mask(observation, self._with_repaired(info, False))

    def step(self, action: Any) -> StepReturn:
        """Take an action that is in the current action set."""
        available, repaired = self._repaired(action)
        if repaired and not self._repairs:
            raise unavailable_action_error(action, self.action_masks())
        observation, reward, terminated, truncated, info = self.env.step(available)
        if repaired and self._penalty:
            reward = float(reward) - self._penalty
        inner = self._inner_mask(observation, info, terminated or truncated)
        inputs = self._distribution_inputs(observation, inner)
        self._mask = self._sets.advance(*inputs)[0]
        info = self._with_repaired(info, repaired)
        observation, info = self._with_mask(observation, info)
        return observation, reward, terminated, truncated, info

    def _with_repaired(self, info: dict[str, Any], repaired: bool) -> dict[str, Any]:
        """Return an info that says whether the action was replaced, if any may be."""
        return {**info, REPAIRED_KEY: repaired} if self._repairs else info

    def _distribution_inputs(
        self, observation: Any, inner: Mask | None
    ) -> tuple[Ints | None, Mask | None]:
        """Return the inputs of the distribution of the action sets."""
        number = None
        if self._states is not None:
            number = np.array([int(observation) - int(self._states.start)])
        return number, None if inner is None else inner[None]


def time_limit(env: gym.Env[Any, Any]) -> int | None:
    """Return the number of steps after which an episode is truncated, if any."""
    # Not `env.spec`: only `gymnasium.make` gives one.
    limits = []
    while isinstance(env, gym.Wrapper):
        if isinstance(env, TimeLimit):
            limits.append(env._max_episode_steps)
        env = env.env
    return min(limits, default=None)


def episodes_end(env: gym.Env[Any, Any]) -> bool:
    """Return whether a time limit is found, or a task says that it needs none."""
    task = getattr(env.unwrapped, "task", None)
    return time_limit(env) is not None or getattr(task, "always_ends", False)


class MaskInObservation(MaskWrapper):
    """Put the mask that an environment provides elsewhere into its observations.

    The mask may come from `info["action_mask"]`, as in Gymnasium's Taxi, from a method
    `action_masks()`, or from the place that `mask` names. Afterwards it is in the
    observation, in the info and in the method. The keys of a dict observation stay;
    any other observation goes under the key `observation`.

    Args:
        env: The environment.
        mask: Where the mask is, if in another place: another key of the observation
            (which is replaced) or of the info, the name of another method, or a
            function of the environment.

    Example:
        >>> bare = gym.make("SAS/SanFrancisco-v0", mask_in_observation=False)
        >>> list(MaskInObservation(bare).reset(seed=0)[0])
        ['observation', 'action_mask']
    """

    def __init__(self, env: gym.Env[Any, Any], *, mask: MaskName | None = None) -> None:
        super().__init__(env, mask, in_observation=True)


class RepairAction(_RepairsActions):
    """Replace an unavailable action by a random available one.

    So an agent without masks can serve as a baseline. An action of several dimensions
    keeps its available choices; the others are replaced. Each info has the key
    `repaired`: whether the action of the step was replaced (false after a reset).

    Args:
        env: An environment that provides its action mask: in the observation, in the
            info or by a method `action_masks()`.
        mask: Where the mask is, if in another place; see `MaskInObservation`.
    """

    def __init__(self, env: gym.Env[Any, Any], *, mask: MaskName | None = None) -> None:
        super().__init__(env, mask, in_observation=False)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetReturn:
        """Start an episode; a seed replays the repairs, too."""
        self._seed_repairs(seed)
        observation, info = super().reset(seed=seed, options=options)
        return observation, {**info, REPAIRED_KEY: False}

    def step(self, action: Any) -> StepReturn:
        """Take the action or, if it is unavailable, another one."""
        available, repaired = self._repaired(action)
        observation, reward, terminated, truncated, info = super().step(available)
        info = {**info, REPAIRED_KEY: repaired}
        return observation, reward, terminated, truncated, info
