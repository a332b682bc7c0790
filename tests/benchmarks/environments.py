"""Speed of the environments, as ratios measured side by side in one run.

python tests/benchmarks/environments.py
"""

import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from side_by_side import Comparison, SpeedMeter, print_comparisons

from sas_gym import SPECS
from sas_gym.tasks._san_francisco import ROADS

NUM_TURNS = 15
SECONDS_PER_TURN = 0.1
SAN_FRANCISCO = "SAS/SanFrancisco-v0"


class HandWrittenMap(gym.Env[Any, Any]):
    """The San Francisco map as one would write it by hand, as a scalar loop."""

    action_space = gym.spaces.Discrete(5)
    observation_space = gym.spaces.Dict(
        observation=gym.spaces.Discrete(28), action_mask=gym.spaces.MultiBinary(5)
    )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start anywhere but at the goal."""
        super().reset(seed=seed)
        if seed is not None:
            self.rng = random.Random(seed)
        self.node = self.rng.randrange(1, 28)
        self.steps = 0
        return self.observe()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Drive down a road."""
        if not self.mask[action]:
            raise ValueError(f"action {action} is unavailable")
        head = ROADS[self.node][action]
        reward = -0.1 - (head == self.node) + 10.0 * (head == 0)
        self.node = head
        self.steps += 1
        obs, info = self.observe()
        return obs, reward, head == 0, self.steps >= 30, info

    def observe(self) -> tuple[Any, dict[str, Any]]:
        """Draw the action set, again if empty; return observation and info."""
        degree = len(ROADS[self.node])
        mask = np.zeros(5, dtype=np.int8)
        while not mask.any():
            for road in range(degree):
                mask[road] = self.rng.random() < 0.8
        self.mask = mask
        obs = {"observation": np.int64(self.node), "action_mask": mask}
        return obs, {"action_mask": mask.copy()}


def step_single(env: gym.Env[Any, Any]) -> Callable[[], int]:
    """Return a function that takes one step by the first available action."""
    _, info = env.reset(seed=0)

    def step() -> int:
        nonlocal info
        _, _, terminated, truncated, info = env.step(info["action_mask"].argmax())
        if terminated or truncated:
            _, info = env.reset()
        return 1

    return step


def step_vector(env_id: str, num_envs: int, mode: str) -> Callable[[], int]:
    """Return a function that takes one step in each environment, and counts them."""
    options = {"autoreset_mode": AutoresetMode.SAME_STEP} if mode == "sync" else {}
    env = gym.make_vec(env_id, num_envs, vectorization_mode=mode, vector_kwargs=options)
    _, infos = env.reset(seed=0)

    def step() -> int:
        nonlocal infos
        *_, infos = env.step(infos["action_mask"].argmax(axis=1))
        return num_envs

    return step


def speed(step: Callable[[], int]) -> float:
    """Measure steps per second over one turn."""
    num_steps, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < SECONDS_PER_TURN:
        num_steps += step()
    return num_steps / passed


def ours(env_id: str, num_envs: int) -> SpeedMeter:
    """Return a meter of our vector environment."""
    return partial(speed, step_vector(env_id, num_envs, "vector_entry_point"))


def comparisons() -> Iterator[Comparison]:
    """Yield ours with its peer, task by task."""
    for spec in SPECS:
        yield Comparison(
            f"{spec.id}: num_envs=64 / SyncVectorEnv",
            ours(spec.id, 64),
            partial(speed, step_vector(spec.id, 64, "sync")),
            wanted=20.0,
        )
    yield Comparison(
        f"{SAN_FRANCISCO}: num_envs=4096 / num_envs=64",
        ours(SAN_FRANCISCO, 4096),
        ours(SAN_FRANCISCO, 64),
        wanted=5.0,
    )
    yield Comparison(
        f"{SAN_FRANCISCO}: single / written by hand",
        partial(speed, step_single(gym.make(SAN_FRANCISCO))),
        partial(speed, step_single(HandWrittenMap())),
        wanted=0.5,
    )


def main() -> None:
    """Print a table."""
    print_comparisons(comparisons(), NUM_TURNS)


if __name__ == "__main__":
    main()
