"""The form of a rule, and the list of a task's rules."""

from collections.abc import Callable, Mapping, Sequence
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sas_gym._types import Floats
from sas_gym.masks import MASK_KEY, check_masks
from sas_gym.tasks._task import Task

Preferences = Callable[[Any], Floats]
"""From N observations, without masks, to what each action is ranked by, [N, A]."""


class Rule:
    """Takes the available action with the largest preference.

    Of equally preferred actions it takes the one with the lower number.

    Args:
        name: Name of the rule.
        preferences: A function of N observations without masks that returns one row of
            preferences per observation, [N, A], or one row for all, [A].

    Example:
        >>> last = Rule("last", lambda observation: np.arange(3))
        >>> last(np.array([7, 8]), np.array([[1, 1, 0], [0, 1, 1]]))
        array([1, 2])
    """

    def __init__(self, name: str, preferences: Preferences) -> None:
        self.name = name
        self._preferences = preferences

    def __repr__(self) -> str:
        return f"Rule({self.name!r})"

    def __call__(self, observation: Any, action_mask: NDArray[Any]) -> NDArray[np.intp]:
        """Choose one available action per row of the masks.

        Args:
            observation: Batched observations, with or without masks.
            action_mask: The action masks, [N, A].
        """
        mask = check_masks(action_mask, np.shape(action_mask)[-1])
        if isinstance(observation, Mapping) and "observation" in observation:
            observation = observation["observation"]
        preferences = np.broadcast_to(self._preferences(observation), mask.shape)
        # The least finite number, so that an action of preference -inf can be taken.
        least = np.finfo(np.float64).min
        ranked = np.where(mask, np.maximum(preferences, least), -np.inf)
        chosen: NDArray[np.intp] = ranked.argmax(axis=1)
        return chosen

    def predict(
        self,
        observation: Mapping[str, Any],
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = True,
    ) -> tuple[NDArray[Any], tuple[NDArray[Any], ...] | None]:
        """Choose actions, as `predict` of Stable-Baselines3 does.

        Args:
            observation: Observations with the key `action_mask`, single or batched.
            state: Ignored: a rule has no memory.
            episode_start: Ignored.
            deterministic: Ignored: a rule is deterministic.

        Returns:
            The actions, and `None` as there is no memory.
        """
        mask = np.asarray(observation[MASK_KEY])
        if mask.ndim > 1:
            return self(observation, mask), None
        batch = {key: np.asarray(value)[None] for key, value in observation.items()}
        return self(batch, mask[None])[0], None


@singledispatch
def rules_of(
    task: Task,  # noqa: ARG001  # for the functions that are registered
) -> Sequence[Rule]:
    """Return the rules for a task: none for a task of a class that is not known.

    `rules_of.register` adds the rules of another class.

    Args:
        task: The task.
    """
    return ()
