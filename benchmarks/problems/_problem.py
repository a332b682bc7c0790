"""The class behind the problems: an observation in one of two forms."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from numpy.typing import NDArray

Observation = dict[str, NDArray[Any]]
"""Arrays of float32, and the mask where it is part of the observation."""
Info = dict[str, Any]
Step = tuple[Observation, float, bool, bool, Info]
Mask = NDArray[np.int8]

FEATURES = "action_features"


def box(low: float, high: float, *shape: int) -> Box:
    """Return a space of float32 numbers between two bounds."""
    return Box(low, high, shape, dtype=np.float32)


def numbers(values: Any) -> NDArray[np.float32]:
    """Return numbers in the type of the observation spaces."""
    return np.asarray(values, dtype=np.float32)


class Problem(gym.Env[Any, Any]):
    """An environment that observes flat arrays, or rows of features per action.

    A subclass draws random numbers by `self.np_random.integers` alone, so that a test
    can enumerate every outcome of a small instance.

    Args:
        flat: Spaces of the observation without rows of features.
        context: Spaces of the observation with rows of features, without the rows.
        features: Name and bounds of every column of the rows.
        num_actions: Number of actions.
        action_features: Whether observations hold rows of features per action.
        mask_in_observation: Whether observations hold the mask.
    """

    def __init__(
        self,
        flat: dict[str, Box],
        context: dict[str, Box],
        features: dict[str, tuple[float, float]],
        num_actions: int,
        action_features: bool,
        mask_in_observation: bool = False,
    ) -> None:
        self.action_space = Discrete(num_actions)
        self.has_rows = action_features
        spaces: dict[str, gym.Space[Any]] = dict(context if action_features else flat)
        if action_features:
            low, high = numbers(list(features.values())).T
            shape = (num_actions, 1)
            spaces[FEATURES] = Box(np.tile(low, shape), np.tile(high, shape))
        if mask_in_observation:
            spaces["action_mask"] = MultiBinary(num_actions)
        self.observation_space = Dict(spaces)

    def rule(self, observation: Observation, mask: Mask) -> int:
        """Return the action of the hand-written rule, from a flat observation."""
        raise NotImplementedError

    def _flat(self) -> Observation:
        """Return the observation without rows of features."""
        raise NotImplementedError

    def _context(self) -> Observation:
        """Return the observation with rows of features, without the rows."""
        raise NotImplementedError

    def _columns(self) -> list[NDArray[Any]]:
        """Return the columns of the rows of features, each of shape (actions,)."""
        raise NotImplementedError

    def _observation(self) -> Observation:
        if not self.has_rows:
            return self._flat()
        rows = np.stack(self._columns(), axis=1, dtype=np.float32, casting="unsafe")
        return {**self._context(), FEATURES: rows}

    def _check(self, action: int, mask: NDArray[Any]) -> int:
        if not mask[action]:
            raise ValueError(
                f"{type(self).__name__}: action {action} is not available; choose one "
                f"of {np.flatnonzero(mask).tolist()}"
            )
        return int(action)
