"""The agents learn with their defaults: fixed seeds, thresholds with a margin.

`benchmarks/learning.py` has the whole table, with three seeds.
"""

import itertools
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from helpers.agents import episodic_agents, every_agent
from sb3_contrib.common.envs import InvalidActionEnvDiscrete
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

from sas_agents import SASNPG, SASPG, SASQ, VecMaskInObservation, make_vec_env
from sas_gym.planning import normalized_score

pytestmark = pytest.mark.slow

MAP = "SAS/SanFrancisco-v0"


def learned(agent, policy="LinearPolicy", num_steps=60_000, env_id=MAP, **options):
    """Train an agent in 64 environments; return its normalized score."""
    th.set_num_threads(1)
    model = agent(policy, make_vec_env(env_id, 64, seed=0), seed=0, **options)
    model.learn(num_steps)
    test_env = make_vec_env(env_id, 64, seed=1)
    mean, _ = evaluate_policy(model, test_env, 1000, deterministic=agent is SASQ)
    return normalized_score(gym.make(env_id), mean)


@every_agent
def test_map(agent):
    """They reach 0.99 of the optimal value and more; random play has 0."""
    assert learned(agent) > 0.96


@episodic_agents
def test_maze(agent):
    assert learned(agent, num_steps=120_000, env_id="SAS/Maze-v0") > 0.97


@every_agent
def test_map_with_network(agent):
    options = {"policy_kwargs": {"net_arch": [32]}}
    assert learned(agent, "MlpPolicy", num_steps=20_000, **options) > 0.8


def test_baselines_halve_gradient_variance():
    """The fitted baselines halve the variance of the gradient, at least."""
    env = make_vec_env(MAP, 64, seed=0)
    model = SASPG("LinearPolicy", env, seed=0).learn(40_000)
    logged = model.logger.name_to_value
    without = logged["train/gradient_variance_without_baselines"]
    assert logged["train/gradient_variance"] < 0.5 * without


@every_agent
@pytest.mark.parametrize(
    ("policy", "num_steps"), [("LinearPolicy", 1500), ("MlpPolicy", 2500)]
)
def test_sb3_contrib_identity_is_learned(agent, policy, num_steps):
    """The reward is 1 for naming the state, which is never masked out.

    Of the 6 actions 3 are available: random play earns a third.
    """
    np.random.seed(0)  # noqa: NPY002  # the environment draws its masks from it
    seeds = itertools.count()

    def make():
        env = InvalidActionEnvDiscrete(dim=6, n_invalid_actions=3, ep_length=10)
        env.action_space.seed(next(seeds))  # from which the states are drawn
        return env

    env = VecMonitor(DummyVecEnv([make] * 4))
    settings: dict[Any, dict[str, Any]] = {
        SASPG: {"n_steps": 25},
        SASNPG: {"n_steps": 25},
        SASQ: {"learning_starts": 100, "learning_rate": 0.02, "gradient_steps": 1},
    }
    options = settings[agent]
    if policy == "MlpPolicy":
        options["learning_rate"] = {SASPG: 5e-3, SASNPG: 0.2, SASQ: 5e-3}[agent]
    model = agent(policy, env, seed=0, gamma=0.5, **options).learn(num_steps)
    test_env = VecMaskInObservation(VecMonitor(DummyVecEnv([make])))
    mean, _ = evaluate_policy(model, test_env, n_eval_episodes=20)
    assert float(np.mean(mean)) >= 0.95 * 10
