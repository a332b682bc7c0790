# ruff: noqa: ARG001, ARG005  # Arguments of the interface.
"""Algorithms as users write them, to be named in studies by `"module:name"`."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sas_agents import MaskedPPO

Callback = Callable[[int, Any], None]


def first_available(observations: Any, masks: NDArray[np.int8]) -> NDArray[np.intp]:
    """Take the available action with the lowest number."""
    first: NDArray[np.intp] = masks.argmax(axis=1)
    return first


def train(
    env: Any, steps: int, seed: int, callback: Callback, place: int = 0
) -> Callable[..., Any]:
    """Return a policy that draws its actions; half-way it has learned to rank them."""
    rng = np.random.default_rng(seed)
    env.reset()

    def drawn(observations: Any, masks: NDArray[np.int8]) -> NDArray[np.intp]:
        chosen: NDArray[np.intp] = (masks * rng.random(masks.shape)).argmax(axis=1)
        return chosen

    callback(0, drawn)
    callback(steps // 2, first_available if place == 0 else drawn)
    return first_available if place == 0 else drawn


def failing(env: Any, steps: int, seed: int, callback: Callback) -> None:
    """Fail in the middle."""
    callback(0, first_available)
    raise ArithmeticError("the policy\nhas melted")


def cheating(env: Any, steps: int, seed: int, callback: Callback) -> Any:
    """Return a policy that does not look at the mask."""
    return lambda observations, masks: np.zeros(len(masks), dtype=int)


def without_policy(env: Any, steps: int, seed: int, callback: Callback) -> None:
    """Return nothing."""


class MyPPO(MaskedPPO):
    """A class in Stable-Baselines3's style."""


class WithoutMasks:
    """A class whose `predict` takes no masks."""

    def __init__(self, policy: str, env: Any, seed: int) -> None:
        self.env = env

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[NDArray[np.intp], None]:
        """Take the first action."""
        return np.zeros(len(observation), dtype=int), None


class ReadsInfo(WithoutMasks):
    """A class that finds the masks in the infos, and takes them in `predict`."""

    def learn(self, total_timesteps: int, callback: Any) -> None:
        """Check that the masks are where they should be."""
        self.env.reset()
        masks = np.stack(self.env.env_method("action_masks"))
        _, _, _, infos = self.env.step(masks.argmax(axis=1))
        assert all("action_mask" in info for info in infos)
        assert not isinstance(self.env.observation_space, dict)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[NDArray[np.intp], None]:
        """Take the first available action."""
        return first_available(observation, action_masks), None
