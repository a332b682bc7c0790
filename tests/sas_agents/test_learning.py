"""The agents learn with their defaults: fixed seeds, thresholds with a margin.

`tests/benchmarks/learning.py` has the whole table, with three seeds.
"""

import gymnasium as gym
import pytest
import torch as th
from stable_baselines3.common.evaluation import evaluate_policy

from sas_agents import SASNPG, SASPG, SASQ, make_vec_env
from sas_gym.planning import normalized_score

MAP = "SAS/SanFrancisco-v0"


def learned(agent, policy="LinearPolicy", num_steps=60_000, env_id=MAP, **options):
    """Train an agent with 64 lanes; return its score, 0 for random and 1 for best."""
    th.set_num_threads(1)
    model = agent(policy, make_vec_env(env_id, 64, seed=0), seed=0, **options)
    model.learn(num_steps)
    test_env = make_vec_env(env_id, 64, seed=1)
    mean, _ = evaluate_policy(model, test_env, 1000, deterministic=agent is SASQ)
    return normalized_score(gym.make(env_id), mean)


@pytest.mark.parametrize("agent", [SASPG, SASNPG, SASQ])
def test_each_agent_learns_the_map(agent):
    """The scores are 0.99 and more; random play has 0."""
    assert learned(agent) > 0.96


@pytest.mark.parametrize("agent", [SASPG, SASNPG])
def test_the_policy_gradients_learn_the_maze(agent):
    assert learned(agent, num_steps=120_000, env_id="SAS/Maze-v0") > 0.97


@pytest.mark.parametrize("agent", [SASPG, SASNPG, SASQ])
def test_each_agent_learns_the_map_with_a_network(agent):
    options = {"policy_kwargs": {"net_arch": [32]}}
    assert learned(agent, "MlpPolicy", num_steps=60_000, **options) > 0.5


def test_only_the_papers_baselines_make_a_difference_to_the_noise():
    """The measured variance of the gradient falls when the baselines are fitted."""
    env = make_vec_env(MAP, 64, seed=0)
    model = SASPG("LinearPolicy", env, seed=0).learn(40_000)
    logged = model.logger.name_to_value
    without = logged["train/gradient_variance_without_baselines"]
    assert logged["train/gradient_variance"] < 0.5 * without
