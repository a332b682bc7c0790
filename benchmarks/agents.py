"""Training speed of the agents, as ratios measured side by side in one run.

    python benchmarks/agents.py

Against the bound: the same environments played by the same policy, without learning.
Against peers: sb3-contrib's MaskablePPO, Stable-Baselines3's DQN at equal settings, and
SAS-PG written by hand. The agents have learned for a while when they are measured, as a
good policy ends its episodes sooner.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch as th
from reinforce_by_hand import ReinforceByHand, on_map, on_maze
from sb3_contrib import MaskablePPO
from side_by_side import Comparison, print_comparisons
from stable_baselines3 import DQN
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env as sb3_make_vec_env

from sas_agents import SASNPG, SASPG, SASQ, make_vec_env
from sas_agents.maths._masked_ops import gumbel_noise, sample_softmax
from sas_gym import RepairAction
from sas_gym.masks import MASK_KEY

MAP, MAZE, RECOMMENDER = "SAS/SanFrancisco-v0", "SAS/Maze-v0", "SAS/Recommender-v0"
NUM_TURNS = 5
PPO_ROLLOUT_STEPS = 2048
# Training steps before the first turn, and of a turn, by number of environments.
WARM_UP = {1: 4096, 64: 65_536, 1024: 262_144}
TURN = {1: 4096, 64: 16_384, 1024: 131_072}
# A peer that is many times slower gets shorter turns.
PEER_TURN = 4096
# Ratios wanted to the bound, at 64 and 1024 environments.
BOUNDS: dict[type[Any], dict[str, tuple[float, float]]] = {
    SASPG: {MAP: (0.55, 0.45), MAZE: (0.55, 0.45), RECOMMENDER: (0.5, 0.5)},
    SASNPG: {MAP: (0.45, 0.35), MAZE: (0.45, 0.35), RECOMMENDER: (0.45, 0.35)},
}
# DQN's defaults, but learning starts earlier.
DQN_SETTINGS: dict[str, Any] = {
    "batch_size": 32,
    "train_freq": 4,
    "gradient_steps": 1,
    "learning_starts": 1000,
    "tau": 1.0,
    "target_update_interval": 10_000,
    "seed": 0,
    "device": "cpu",
}


def ours(agent: type[Any], env_id: str, num_envs: int) -> Any:
    """Return an agent of ours with its defaults, after it has learned for a while."""
    env = make_vec_env(env_id, num_envs, seed=0)
    model = agent("LinearPolicy", env, seed=0, device="cpu")
    return model.learn(WARM_UP[num_envs])


def maskable_ppo(env_id: str, num_envs: int) -> MaskablePPO:
    """Make sb3-contrib's masked PPO with a linear policy and its other defaults."""
    return MaskablePPO(
        "MultiInputPolicy",
        sb3_make_vec_env(env_id, num_envs, seed=0),
        n_steps=PPO_ROLLOUT_STEPS // num_envs,
        batch_size=512,
        policy_kwargs={"net_arch": []},
        seed=0,
        device="cpu",
    )


def training_speed(model: BaseAlgorithm, num_steps: int) -> float:
    """Measure training steps per second over one turn."""
    before, start = model.num_timesteps, time.process_time()
    model.learn(num_steps, reset_num_timesteps=False)
    return (model.num_timesteps - before) / (time.process_time() - start)


def playing_speed(model: Any, num_steps: int) -> float:
    """Measure steps per second of play with a policy that does not learn."""
    env, rng = model.get_env(), np.random.default_rng(0)
    logits_of, obs = model.policy.logits_fn(), env.reset()
    noise = gumbel_noise((env.num_envs, env.action_space.n), rng)
    num_turns = num_steps // env.num_envs
    start = time.process_time()
    for _ in range(num_turns):
        actions = sample_softmax(logits_of(obs), obs[MASK_KEY], next(noise))
        obs, *_ = env.step(actions)
    model._last_obs = obs  # where the next turn of training starts
    return float(num_turns * env.num_envs / (time.process_time() - start))


def speed_by_hand(agent: ReinforceByHand, num_steps: int) -> float:
    """Measure steps per second of the algorithm written by hand."""
    before, start = agent.num_steps, time.process_time()
    while agent.num_steps < before + num_steps:
        agent.episode()
    return (agent.num_steps - before) / (time.process_time() - start)


def against_the_bound() -> Iterator[Comparison]:
    """Yield the policy gradients beside play without learning."""
    for agent, by_env in BOUNDS.items():
        for env_id, wanted in by_env.items():
            for num_envs, ratio in zip((64, 1024), wanted, strict=True):
                model = ours(agent, env_id, num_envs)
                yield Comparison(
                    f"{agent.__name__} / play, {env_id}, num_envs={num_envs}",
                    partial(training_speed, model, TURN[num_envs]),
                    partial(playing_speed, model, TURN[num_envs]),
                    ratio,
                )


def against_maskable_ppo() -> Iterator[Comparison]:
    """Yield SASPG beside sb3-contrib's masked PPO."""
    cases = (MAP, 64, 20.0), (MAZE, 64, 10.0), (RECOMMENDER, 64, 10.0), (MAP, 1, 8.0)
    for env_id, num_envs, wanted in cases:
        yield Comparison(
            f"SASPG / MaskablePPO, {env_id}, num_envs={num_envs}",
            partial(training_speed, ours(SASPG, env_id, num_envs), TURN[num_envs]),
            partial(training_speed, maskable_ppo(env_id, num_envs), PEER_TURN),
            wanted,
        )


def against_numpy() -> Iterator[Comparison]:
    """Yield SASPG with one environment beside the algorithm written by hand."""
    makers: dict[str, Callable[[], ReinforceByHand]] = {MAP: on_map, MAZE: on_maze}
    for env_id, make in makers.items():
        yield Comparison(
            f"SASPG / by hand, {env_id}, num_envs=1",
            partial(training_speed, ours(SASPG, env_id, 1), TURN[1]),
            partial(speed_by_hand, make(), TURN[1]),
            0.8,
        )


def against_dqn() -> Iterator[Comparison]:
    """Yield SASQ beside DQN on the same observations, its actions repaired."""
    for num_envs in (64, 1):
        env = make_vec_env(MAP, num_envs, seed=0)
        peer_env = sb3_make_vec_env(MAP, num_envs, seed=0, wrapper_class=RepairAction)
        # Stable-Baselines3's DQN is not double.
        sasq = SASQ("MlpPolicy", env, **DQN_SETTINGS, double_q=False)
        yield Comparison(
            f"SASQ / DQN at equal settings, {MAP}, num_envs={num_envs}",
            partial(training_speed, sasq, PEER_TURN),
            partial(
                training_speed,
                DQN("MultiInputPolicy", peer_env, **DQN_SETTINGS),
                PEER_TURN,
            ),
            1.0,
        )


def main() -> None:
    """Print a table."""
    th.set_num_threads(1)
    print("processor time, so that other work on the machine does not count")
    for comparisons in (
        against_the_bound,
        against_maskable_ppo,
        against_numpy,
        against_dqn,
    ):
        print_comparisons(comparisons(), NUM_TURNS)


if __name__ == "__main__":
    main()
