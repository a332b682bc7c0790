"""Training speed of the agents, as ratios measured side by side in one run.

python tests/benchmarks/agents.py
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch as th
from sb3_contrib import MaskablePPO
from side_by_side import Comparison, print_comparisons
from stable_baselines3 import DQN
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env as sb3_make_vec_env

from sas_agents import SASPG, SASQ, make_vec_env
from sas_gym import RepairAction

ENV_ID = "SAS/SanFrancisco-v0"
NUM_TURNS = 3
STEPS_PER_TURN = 4096
PPO_ROLLOUT_STEPS = 2048
# DQN's defaults, but learning starts earlier.
DQN_SETTINGS: dict[str, Any] = {
    "batch_size": 32,
    "train_freq": 4,
    "gradient_steps": 1,
    "learning_starts": 1000,
    "seed": 0,
    "device": "cpu",
}


def saspg(num_envs: int) -> SASPG:
    """Make our policy gradient with its defaults."""
    env = make_vec_env(ENV_ID, num_envs, seed=0)
    return SASPG("LinearPolicy", env, seed=0, device="cpu")


def maskable_ppo(num_envs: int) -> MaskablePPO:
    """Make sb3-contrib's masked PPO with a linear policy and its other defaults."""
    return MaskablePPO(
        "MultiInputPolicy",
        sb3_make_vec_env(ENV_ID, num_envs, seed=0),
        n_steps=PPO_ROLLOUT_STEPS // num_envs,
        batch_size=512,
        policy_kwargs={"net_arch": []},
        seed=0,
        device="cpu",
    )


def sasq(num_envs: int) -> SASQ:
    """Make our Q-learning with DQN's settings."""
    return SASQ("MlpPolicy", make_vec_env(ENV_ID, num_envs, seed=0), **DQN_SETTINGS)


def dqn(num_envs: int) -> DQN:
    """Make DQN on the same observations; its unavailable actions are repaired."""
    env = sb3_make_vec_env(ENV_ID, num_envs, seed=0, wrapper_class=RepairAction)
    return DQN("MultiInputPolicy", env, **DQN_SETTINGS)


def training_speed(model: BaseAlgorithm) -> float:
    """Measure training steps per second over one turn."""
    before, start = model.num_timesteps, time.perf_counter()
    model.learn(STEPS_PER_TURN, reset_num_timesteps=False)
    return (model.num_timesteps - before) / (time.perf_counter() - start)


def comparisons() -> Iterator[Comparison]:
    """Yield each agent of ours with its peer."""
    pairs: tuple[tuple[Callable[[int], Any], Callable[[int], Any], int, float], ...] = (
        (saspg, maskable_ppo, 64, 10.0),
        (saspg, maskable_ppo, 1, 4.0),
        (sasq, dqn, 64, 1.0),
        (sasq, dqn, 1, 1.0),
    )
    for make_ours, make_peer, num_envs, wanted in pairs:
        ours, peer = make_ours(num_envs), make_peer(num_envs)
        yield Comparison(
            f"{type(ours).__name__} / {type(peer).__name__}, num_envs={num_envs}",
            partial(training_speed, ours),
            partial(training_speed, peer),
            wanted,
        )


def main() -> None:
    """Print a table."""
    th.set_num_threads(1)
    print_comparisons(comparisons(), NUM_TURNS)


if __name__ == "__main__":
    main()
