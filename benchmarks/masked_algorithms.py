"""MaskedPPO beside MaskablePPO, and every masked algorithm in a strict environment.

    python benchmarks/masked_algorithms.py speed     steps per second, 64 copies
    python benchmarks/masked_algorithms.py quality   returns at equal settings
    python benchmarks/masked_algorithms.py soak      no unavailable action taken

Both see the same: the state without the mask, and the mask.
"""

import argparse
import io
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from our_agents import AGENTS
from sb3_contrib import MaskablePPO
from sb3_contrib.common.envs import InvalidActionEnvDiscrete
from sb3_contrib.common.maskable.evaluation import evaluate_policy as maskable_evaluate
from scipy import stats
from side_by_side import Comparison, print_comparisons
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecMonitor

from sas_agents import (
    SASQ,
    MaskedPPO,
    MaskedQRDQN,
    MaskedRecurrentPPO,
    VecMaskInObservation,
    make_vec_env,
)

NUM_ENVS = 64
NUM_TURNS = 3
STEPS_PER_TURN = 4096
NUM_EPISODES = 500
SETTINGS: dict[str, Any] = {
    "n_steps": 2048 // NUM_ENVS,
    "batch_size": 512,
    "n_epochs": 4,
    "device": "cpu",
}
# The maze, whose one reward is far, is not learned from short rollouts by either.
QUALITY_SETTINGS = SETTINGS | {
    "n_steps": 128,
    "batch_size": 1024,
    "learning_rate": 1e-3,
}
TASKS = "SAS/SanFrancisco-v0", "SAS/Maze-v0", "SAS/Recommender-v0"
QUALITY = "SAS/SanFrancisco-v0", "SAS/Maze-v0", "Taxi-v4", "InvalidActionEnv"


class MaskedTaxi(gym.Wrapper[Any, Any, Any, Any]):
    """Taxi with the method that MaskablePPO calls."""

    def action_masks(self) -> Any:
        """Return the mask of the current state."""
        taxi: Any = self.env.unwrapped
        return taxi.action_mask(taxi.s)


def bare_maker(name: str) -> Callable[[], gym.Env[Any, Any]]:
    """Return what makes an environment whose observations have no mask."""
    if name == "Taxi-v4":
        return lambda: MaskedTaxi(gym.make(name))
    if name == "InvalidActionEnv":
        return lambda: InvalidActionEnvDiscrete(dim=80, n_invalid_actions=60)
    return lambda: gym.make(name, mask_in_observation=False)


def peer_env(name: str, seed: int) -> VecEnv:
    """Return environments as sb3-contrib's users make them."""
    env = VecMonitor(DummyVecEnv([bare_maker(name)] * NUM_ENVS))
    env.seed(seed)
    return env


def our_env(name: str, seed: int) -> VecEnv:
    """Return environments as our users make them."""
    if name.startswith("SAS/"):
        return make_vec_env(name, NUM_ENVS, seed=seed)
    return VecMaskInObservation(peer_env(name, seed))


def training_speed(model: BaseAlgorithm) -> float:
    """Measure training steps per second of processor time over one turn."""
    before, start = model.num_timesteps, time.process_time()
    model.learn(STEPS_PER_TURN, reset_num_timesteps=False)
    return (model.num_timesteps - before) / (time.process_time() - start)


def speed_comparisons() -> Iterator[Comparison]:
    """Yield both algorithms on every task of ours, each in the usual environments."""
    for name in TASKS:
        ours = MaskedPPO("MlpPolicy", our_env(name, 0), seed=0, **SETTINGS)
        peer = MaskablePPO("MlpPolicy", peer_env(name, 0), seed=0, **SETTINGS)
        yield Comparison(
            f"MaskedPPO / MaskablePPO, {name}, num_envs={NUM_ENVS}",
            partial(training_speed, ours),
            partial(training_speed, peer),
            1.5,
        )


def our_return(name: str, num_steps: int, seed: int) -> float:
    """Train MaskedPPO and return its mean return in new episodes."""
    env = our_env(name, seed)
    model: MaskedPPO = MaskedPPO("MlpPolicy", env, seed=seed, **QUALITY_SETTINGS)
    model.learn(num_steps)
    env = our_env(name, 1000 + seed)
    mean, _ = evaluate_policy(model, env, NUM_EPISODES, deterministic=False)
    return float(np.mean(mean))


def peer_return(name: str, num_steps: int, seed: int) -> float:
    """Train MaskablePPO and return its mean return in new episodes."""
    env = peer_env(name, seed)
    model = MaskablePPO("MlpPolicy", env, seed=seed, **QUALITY_SETTINGS)
    model.learn(num_steps)
    env = peer_env(name, 1000 + seed)
    mean, _ = maskable_evaluate(model, env, NUM_EPISODES, deterministic=False)
    return float(np.mean(mean))


def print_quality(names: list[str], num_steps: int, num_seeds: int) -> None:
    """Print the returns of both and Welch's confidence interval of the difference."""
    print(f"{num_steps:,} steps, {num_seeds} seeds, {NUM_EPISODES} episodes each")
    for name in names:
        ours, peer = (
            np.array([function(name, num_steps, seed) for seed in range(num_seeds)])
            for function in (our_return, peer_return)
        )
        interval = stats.ttest_ind(ours, peer, equal_var=False).confidence_interval()
        print(
            f"{name:20} MaskedPPO {ours.mean():9.3f} {np.round(ours, 2)}  MaskablePPO "
            f"{peer.mean():9.3f} {np.round(peer, 2)}  difference in "
            f"[{interval.low:.3f}, {interval.high:.3f}] (95 %)",
            flush=True,
        )


def soak(algorithm: Any, num_steps: int) -> str:
    """Train, predict, save, load, go on, where an unavailable action raises."""
    lstm = "Lstm" if algorithm is MaskedRecurrentPPO else ""
    options: Any = {
        MaskedRecurrentPPO: {"n_epochs": 2, "policy_kwargs": {"lstm_hidden_size": 16}},
        # A long warm-up and much exploration: there, too, the masks must hold.
        MaskedQRDQN: {
            "buffer_size": 10_000,
            "learning_starts": num_steps // 4,
            "exploration_fraction": 1.0,
            "policy_kwargs": {"n_quantiles": 25},
        },
        SASQ: {"learning_starts": num_steps // 4, "exploration_fraction": 1.0},
    }
    env = make_vec_env("SAS/Maze-v0", 8, seed=0, env_kwargs={"availability": 0.1})
    model: Any = algorithm(
        f"Mlp{lstm}Policy", env, seed=0, **options.get(algorithm, {})
    )
    start = time.process_time()
    model.learn(num_steps)
    predicted = play(model, env, num_steps // 2)
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    loaded = algorithm.load(file, env=env, seed=1)
    predicted += play(loaded, env, num_steps // 2)
    loaded.learn(num_steps // 10, reset_num_timesteps=False)
    return (
        f"{loaded.num_timesteps:,} steps of training and {predicted:,} of prediction, "
        f"no unavailable action taken ({time.process_time() - start:.0f} s)"
    )


def play(model: Any, env: VecEnv, num_steps: int) -> int:
    """Evaluate, greedily and not, for a number of steps; return how many they were."""
    lengths: list[int] = []
    for deterministic in (True, False):
        taken = len(lengths)
        while sum(lengths[taken:]) < num_steps // 2:
            _, more = evaluate_policy(
                model,
                env,
                8,
                deterministic=deterministic,
                return_episode_rewards=True,
            )
            lengths += more  # type: ignore[arg-type]  # lists, as asked for
    return sum(lengths)


def print_soak(num_steps: int) -> None:
    """Print that no algorithm takes an unavailable action; one that is taken raises."""
    for algorithm in AGENTS.values():
        print(f"{algorithm.__name__:18} {soak(algorithm, num_steps)}", flush=True)


def main() -> None:
    """Print the table asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["speed", "quality", "soak"])
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--env", nargs="+", default=list(QUALITY))
    arguments = parser.parse_args()
    th.set_num_threads(1)
    if arguments.what == "speed":
        print_comparisons(speed_comparisons(), NUM_TURNS)
    elif arguments.what == "quality":
        print_quality(arguments.env, arguments.steps, arguments.seeds)
    else:
        print_soak(arguments.steps)


if __name__ == "__main__":
    main()
