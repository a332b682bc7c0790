"""The actions of a finite space: one choice per dimension, counted from 0."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Discrete, MultiDiscrete
from numpy.random import Generator

from sas_gym._types import Ints, Mask
from sas_gym.masks import mask_sizes


class FiniteActions:
    """Translates the actions of a finite space into choices, and back.

    Args:
        space: A Discrete, MultiDiscrete or MultiBinary space.
    """

    def __init__(self, space: gym.Space[Any]) -> None:
        self.space = space
        self.sizes = mask_sizes(space)
        self._starts = np.cumsum([0, *self.sizes[:-1]])
        self._first: Any = 0
        if isinstance(space, Discrete | MultiDiscrete):
            self._first = np.atleast_1d(space.start)

    def choices(self, action: Any) -> Ints:
        """Return the choices of an action.

        Raises:
            ValueError: If the action is not in the space.
        """
        if not self.space.contains(action):
            raise ValueError(f"action {action!r} is not in {self.space}")
        choices: Ints = np.atleast_1d(action).astype(np.int64) - self._first
        return choices

    def action(self, choices: Ints) -> Any:
        """Return the action that consists of some choices."""
        action = (choices + self._first).astype(self.space.dtype)
        return action[0] if isinstance(self.space, Discrete) else action

    def available(self, mask: Mask, choices: Ints) -> Mask:
        """Return which choices a mask allows."""
        return mask[self._starts + choices]

    def draw(self, mask: Mask, rng: Generator) -> Ints:
        """Draw an available choice in each dimension, uniformly."""
        parts = np.split(mask, self._starts[1:])
        return np.array([rng.choice(np.flatnonzero(part)) for part in parts])

    def unavailable(self, mask: Mask, rng: Generator) -> Ints:
        """Draw choices of which at least one is unavailable."""
        choices = self.draw(mask, rng)
        entry = rng.choice(np.flatnonzero(~mask))
        dimension = np.searchsorted(self._starts, entry, side="right") - 1
        choices[dimension] = entry - self._starts[dimension]
        return choices
