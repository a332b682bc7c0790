"""An environment that raises an error where an unavailable action is taken."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class Strict(gym.Env[Any, Any]):
    """Raises an error for an unavailable action; most are.

    Args:
        action_space: A Discrete, MultiDiscrete or MultiBinary space.
        num_steps: Length of an episode.
        observation_space: What random observations are drawn from.
    """

    def __init__(
        self,
        action_space: Any,
        num_steps: int = 7,
        observation_space: spaces.Space[Any] | None = None,
    ) -> None:
        self.action_space = action_space
        self.num_steps = num_steps
        self.observation_space = observation_space or spaces.Box(-1.0, 1.0, (3,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Start an episode."""
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.steps = 0
        return self.observation_space.sample(), {"action_mask": self._draw()}

    def step(self, action: Any) -> Any:
        """Take an action; the first one has a reward."""
        taken = np.concatenate(
            [
                np.eye(n)[int(a)]
                for n, a in zip(self._sizes(), np.ravel(action), strict=True)
            ]
        )
        if (taken > self.mask).any():
            raise ValueError(f"{action} is not in {self.mask}")
        self.steps += 1
        info = {"action_mask": self._draw()}
        ends = self.steps == self.num_steps
        return self.observation_space.sample(), float(taken[0]), False, ends, info

    def _sizes(self) -> list[int]:
        space: Any = self.action_space
        if isinstance(space, spaces.Discrete):
            return [int(space.n)]
        if isinstance(space, spaces.MultiDiscrete):
            return [int(size) for size in space.nvec]
        return [2] * int(space.n)

    def _draw(self) -> NDArray[np.int8]:
        parts = []
        for size in self._sizes():
            part = self.np_random.random(size) < 0.2
            part[self.np_random.integers(size)] = True
            parts.append(part)
        self.mask = np.concatenate(parts).astype(np.int8)
        return self.mask
