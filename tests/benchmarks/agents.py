"""Training speed of the agents, as ratios measured side by side in one run.

python tests/benchmarks/agents.py
"""

import statistics
import time
from collections.abc import Callable

import torch as th
from sb3_contrib import MaskablePPO
from stable_baselines3 import DQN
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env as sb3_make_vec_env

from sas_agents import SASPG, SASQ, make_vec_env
from sas_gym import RepairAction

ENV_ID = "SAS/SanFrancisco-v0"
ROUNDS = 3
PPO_BATCH = 2048


def saspg(num_envs: int) -> SASPG:
    """Make our policy gradient with its defaults."""
    env = make_vec_env(ENV_ID, num_envs, seed=0)
    return SASPG("LinearPolicy", env, seed=0, device="cpu")


def maskable_ppo(num_envs: int) -> MaskablePPO:
    """Make sb3-contrib's masked PPO with a linear policy and its other defaults."""
    return MaskablePPO(
        "MultiInputPolicy",
        sb3_make_vec_env(ENV_ID, num_envs, seed=0),
        n_steps=PPO_BATCH // num_envs,
        batch_size=512,
        policy_kwargs={"net_arch": []},
        seed=0,
        device="cpu",
    )


def dqn_settings() -> dict[str, object]:
    """Return what SASQ and DQN have in common here: DQN's defaults, earlier."""
    return {"learning_starts": 1000, "seed": 0, "device": "cpu"}


def sasq(num_envs: int) -> SASQ:
    """Make our Q-learning with DQN's settings."""
    return SASQ(
        "MlpPolicy",
        make_vec_env(ENV_ID, num_envs, seed=0),
        **{"batch_size": 32, "train_freq": 4, "gradient_steps": 1} | dqn_settings(),
    )


def dqn(num_envs: int) -> DQN:
    """Make DQN on the same observations; what it may not do is repaired."""
    env = sb3_make_vec_env(ENV_ID, num_envs, seed=0, wrapper_class=RepairAction)
    return DQN("MultiInputPolicy", env, **dqn_settings())


def speed(model: BaseAlgorithm, num_steps: int) -> float:
    """Measure training steps a second."""
    before, start = model.num_timesteps, time.perf_counter()
    model.learn(num_steps, reset_num_timesteps=False)
    return (model.num_timesteps - before) / (time.perf_counter() - start)


def compare(
    make_ours: Callable[[int], BaseAlgorithm],
    make_peer: Callable[[int], BaseAlgorithm],
    num_envs: int,
    num_steps: int,
) -> tuple[float, float]:
    """Return our median speed and the median ratio to the peer's, turn by turn."""
    ours, peer = make_ours(num_envs), make_peer(num_envs)
    turns = [
        (speed(ours, num_steps), speed(peer, num_steps)) for _ in range(ROUNDS + 1)
    ]
    ratio = statistics.median(our / their for our, their in turns[1:])
    return statistics.median(our for our, _ in turns[1:]), ratio


def main() -> None:
    """Print a table."""
    th.set_num_threads(1)
    print(f"{'comparison':44} {'steps / s':>10} {'ratio':>7} {'wanted':>7}")
    for name, ours, peer, num_envs, wanted in (
        ("SASPG / MaskablePPO, 64 lanes", saspg, maskable_ppo, 64, 10.0),
        ("SASPG / MaskablePPO, 1 lane", saspg, maskable_ppo, 1, 4.0),
        ("SASQ / DQN, 64 lanes", sasq, dqn, 64, 1.0),
        ("SASQ / DQN, 1 lane", sasq, dqn, 1, 1.0),
    ):
        per_second, ratio = compare(ours, peer, num_envs, 4096)
        print(f"{name:44} {per_second:10,.0f} {ratio:7.2f} {wanted:7.1f}")


if __name__ == "__main__":
    main()
