"""Random play in a `VecEnv`, and an environment with its mask in the info."""

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from sas_gym.masks import sample_actions


class MaskInInfo(gym.Wrapper[Any, Any, Any, Any]):
    """CartPole with the one action that its step number names, in the info."""

    def __init__(self, empty_at_the_end: bool = False) -> None:
        super().__init__(gym.make("CartPole-v1"))
        self.empty_at_the_end = empty_at_the_end
        self.num_steps = 0

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode."""
        self.num_steps = 0
        obs, info = self.env.reset(**kwargs)
        return obs, {**info, "action_mask": self.mask()}

    def step(self, action: Any) -> Any:
        """Take a step."""
        self.num_steps += 1
        obs, reward, terminated, truncated, info = self.env.step(action)
        mask = self.mask()
        if terminated and self.empty_at_the_end:
            mask[:] = 0
        return obs, reward, terminated, truncated, {**info, "action_mask": mask}

    def mask(self) -> Any:
        """Return the action set."""
        return np.eye(2, dtype=np.int8)[self.num_steps % 2]


def masks_of(venv: Any) -> Any:
    """Return the action sets of all environments."""
    return np.stack(venv.env_method("action_masks"))


def play(venv: Any, num_steps: int, seed: int = 0) -> Iterator[Any]:
    """Yield observations, rewards, dones and infos of random play."""
    rng = np.random.default_rng(seed)
    venv.reset()
    for _ in range(num_steps):
        obs, rewards, dones, infos = venv.step(sample_actions(masks_of(venv), rng))
        yield obs, rewards, dones, list(infos)
