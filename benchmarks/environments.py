"""Speed of the environments, as ratios measured side by side in one run.

python benchmarks/environments.py
"""

import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from by_hand import HandWrittenMap, HandWrittenMaze, HandWrittenRecommender
from gymnasium.vector import AutoresetMode
from side_by_side import Comparison, SpeedMeter, print_comparisons

from sas_gym import SPECS

NUM_TURNS = 15
SECONDS_PER_TURN = 0.1
MAZE, RECOMMENDER = "SAS/Maze-v0", "SAS/Recommender-v0"
GAME = "SAS/ShutTheBox-v0"
OURS = "vector_entry_point"
# The scalar environment of each id, and the share of its speed that ours should have.
BY_HAND: dict[str, tuple[type[gym.Env[Any, Any]], float]] = {
    "SAS/SanFrancisco-v0": (HandWrittenMap, 0.45),
    MAZE: (HandWrittenMaze, 0.25),
    RECOMMENDER: (HandWrittenRecommender, 0.25),
}


def step_single(env: gym.Env[Any, Any]) -> Callable[[], int]:
    """Return a function that takes one step by a random available action."""
    _, info = env.reset(seed=0)
    shape = (256, len(info["action_mask"]))
    preferences = itertools.cycle(np.random.default_rng(0).random(shape))

    def step() -> int:
        nonlocal info
        action = (info["action_mask"] * next(preferences)).argmax()
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            _, info = env.reset()
        return 1

    return step


def step_vector(
    env_id: str, num_envs: int, mode: str, **options: Any
) -> Callable[[], int]:
    """Return a function that takes one step in each environment, and counts them."""
    resets = {"autoreset_mode": AutoresetMode.SAME_STEP} if mode == "sync" else {}
    env = gym.make_vec(
        env_id, num_envs, vectorization_mode=mode, vector_kwargs=resets, **options
    )
    _, infos = env.reset(seed=0)

    def step() -> int:
        nonlocal infos
        *_, infos = env.step(infos["action_mask"].argmax(axis=1))
        return num_envs

    return step


def reset_vector(
    env_id: str, num_envs: int, mode: str, **options: Any
) -> Callable[[], int]:
    """Return a function that resets every environment, and counts them."""
    env = gym.make_vec(env_id, num_envs, vectorization_mode=mode, **options)
    env.reset(seed=0)

    def reset() -> int:
        env.reset()
        return num_envs

    return reset


def speed(step: Callable[[], int]) -> float:
    """Measure steps per second of processor time over one turn."""
    num_steps, start = 0, time.process_time()
    while (passed := time.process_time() - start) < SECONDS_PER_TURN:
        num_steps += step()
    return num_steps / passed


def ours(env_id: str, num_envs: int) -> SpeedMeter:
    """Return a meter of our vector environment."""
    return partial(speed, step_vector(env_id, num_envs, OURS))


def comparisons() -> Iterator[Comparison]:
    """Yield ours with its peer, task by task."""
    for spec in SPECS:
        yield Comparison(
            f"{spec.id}: num_envs=64 / SyncVectorEnv",
            ours(spec.id, 64),
            partial(speed, step_vector(spec.id, 64, "sync")),
            wanted=25.0,
        )
    for env_id, (by_hand, wanted) in BY_HAND.items():
        yield Comparison(
            f"{env_id}: single / written by hand",
            partial(speed, step_single(gym.make(env_id))),
            partial(speed, step_single(by_hand())),
            wanted,
        )
    for make in (step_vector, reset_vector):
        options = {"level": "twelve_tiles"}
        yield Comparison(
            f"{GAME}, twelve tiles: {make.__name__}, num_envs=64 / SyncVectorEnv",
            partial(speed, make(GAME, 64, OURS, **options)),
            partial(speed, make(GAME, 64, "sync", **options)),
            wanted=20.0,
        )
    yield Comparison(
        f"{MAZE}: num_envs=1024 / written by hand",
        ours(MAZE, 1024),
        partial(speed, step_single(HandWrittenMaze())),
        wanted=20.0,
    )


def main() -> None:
    """Print the table."""
    print_comparisons(comparisons(), NUM_TURNS)


if __name__ == "__main__":
    main()
