"""Speed of the environments, as ratios measured side by side in one run.

python tests/benchmarks/environments.py
"""

import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from sas_gym import SPECS
from sas_gym.tasks._san_francisco import ROADS

ROUNDS = 15
SECONDS_A_TURN = 0.1

Stepper = Callable[[], int]
"""Takes a step and returns how many lane-steps it was."""


class ScalarMap(gym.Env[Any, Any]):
    """The San Francisco map as one would write it by hand, for one lane."""

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
        return self.tell()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Drive down a road."""
        if not self.mask[action]:
            raise ValueError(f"unavailable action {action}")
        head = ROADS[self.node][action]
        reward = -0.1 - (head == self.node) + 10.0 * (head == 0)
        self.node = head
        self.steps += 1
        obs, info = self.tell()
        return obs, reward, head == 0, self.steps >= 30, info

    def tell(self) -> tuple[Any, dict[str, Any]]:
        """Draw the action set, again if it is empty."""
        degree = len(ROADS[self.node])
        mask = np.zeros(5, dtype=np.int8)
        while not mask.any():
            for road in range(degree):
                mask[road] = self.rng.random() < 0.8
        self.mask = mask
        obs = {"observation": np.int64(self.node), "action_mask": mask}
        return obs, {"action_mask": mask.copy()}


def single(env: gym.Env[Any, Any]) -> Stepper:
    """Step one environment, always by its first available action."""
    _, info = env.reset(seed=0)

    def step() -> int:
        nonlocal info
        _, _, terminated, truncated, info = env.step(info["action_mask"].argmax())
        if terminated or truncated:
            _, info = env.reset()
        return 1

    return step


def vector(env_id: str, num_envs: int, mode: str) -> Stepper:
    """Step many lanes, always by their first available actions."""
    options = {"autoreset_mode": AutoresetMode.SAME_STEP} if mode == "sync" else {}
    env = gym.make_vec(env_id, num_envs, vectorization_mode=mode, vector_kwargs=options)
    _, infos = env.reset(seed=0)

    def step() -> int:
        nonlocal infos
        *_, infos = env.step(infos["action_mask"].argmax(axis=1))
        return num_envs

    return step


def speed(stepper: Stepper) -> float:
    """Measure steps a second over one turn."""
    steps, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < SECONDS_A_TURN:
        steps += stepper()
    return steps / passed


def compare(ours: Stepper, peer: Stepper) -> tuple[float, float]:
    """Return our median speed and the median ratio to the peer's, turn by turn."""
    turns = [(speed(ours), speed(peer)) for _ in range(ROUNDS + 1)][1:]
    ratio = statistics.median(our / their for our, their in turns)
    return statistics.median(our for our, _ in turns), ratio


def comparisons() -> Iterator[tuple[str, Stepper, Stepper, float | None]]:
    """Yield a name, ours, the peer, and the ratio that we want."""
    for task in SPECS:
        yield (
            f"{task.id}: 64 lanes / SyncVectorEnv of 64",
            vector(task.id, 64, "vector_entry_point"),
            vector(task.id, 64, "sync"),
            20.0,
        )
    san_francisco = "SAS/SanFrancisco-v0"
    yield (
        f"{san_francisco}: 4096 lanes / 64 lanes",
        vector(san_francisco, 4096, "vector_entry_point"),
        vector(san_francisco, 64, "vector_entry_point"),
        5.0,
    )
    yield (
        f"{san_francisco}: single / written by hand",
        single(gym.make(san_francisco)),
        single(ScalarMap()),
        0.5,
    )


def main() -> None:
    """Print a table."""
    print(f"{'comparison':55} {'steps / s':>12} {'ratio':>7} {'wanted':>7}")
    for name, ours, peer, wanted in comparisons():
        per_second, ratio = compare(ours, peer)
        print(f"{name:55} {per_second:12,.0f} {ratio:7.2f} {wanted:7.1f}")


if __name__ == "__main__":
    main()
