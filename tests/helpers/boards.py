"""A board game whose legal moves are wherever a test wants them."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from sas_gym._types import NDArray

SIZE = 4


class Board(gym.Env[Any, Any]):
    """Fill the fields of a row in any order: a full field is no legal move.

    Every move pays 1, so that each legal game has the return `SIZE`; an illegal one
    raises an error. No move is legal in the final state.
    """

    action_space: Any = spaces.Discrete(SIZE)
    observation_space: Any = spaces.Dict(fields=spaces.Box(0, 1, (SIZE,)))
    metadata = {"render_modes": []}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Empty the board."""
        super().reset(seed=seed)
        self.full = np.zeros(SIZE, dtype=bool)
        if seed is not None or self.np_random.random() < 0.5:
            self.full[self.np_random.integers(SIZE)] = True
        return self.observe(), self.info()

    def step(self, action: Any) -> Any:
        """Fill a field."""
        if self.full[action]:
            raise ValueError(f"field {action} is full")
        self.full[action] = True
        return self.observe(), 1.0, bool(self.full.all()), False, self.info()

    def legal(self) -> NDArray[Any]:
        """Return the legal moves."""
        return (~self.full).astype(np.int32)

    def observe(self) -> Any:
        """Return the observation."""
        return {"fields": self.full.astype(np.float32)}

    def info(self) -> dict[str, Any]:
        """Return the info."""
        return {}


class InKey(Board):
    """The mask is an entry of the observation with a name of its own."""

    observation_space = spaces.Dict(
        fields=spaces.Box(0, 1, (SIZE,)),
        valid_mask=spaces.Box(0, 1, (SIZE,), np.int32),
    )

    def observe(self) -> Any:
        """Return the observation."""
        return super().observe() | {"valid_mask": self.legal()}


class InInfoKey(Board):
    """The mask is in the info under a name of its own."""

    def info(self) -> dict[str, Any]:
        """Return the info."""
        return {"valid_moves": self.legal()}


class InOwnMethod(Board):
    """The mask comes from a method with a name of its own."""

    def valid_action_mask(self) -> NDArray[Any]:
        """Return the legal moves."""
        return self.legal().astype(np.float64)


class InList(Board):
    """The legal moves are a list."""

    def get_available_actions(self) -> list[int]:
        """Return the legal moves."""
        return [int(move) for move in np.flatnonzero(self.legal())]


def from_list(env: Any) -> NDArray[Any]:
    """Return the mask of `InList`."""
    return np.isin(range(SIZE), env.unwrapped.get_available_actions())


NAMED: list[tuple[type[Board], Any]] = [
    (InKey, "valid_mask"),
    (InInfoKey, "valid_moves"),
    (InOwnMethod, "valid_action_mask"),
    (InList, from_list),
]
"""Boards with masks under other names, and how to name them."""
