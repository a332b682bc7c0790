"""What the agents reach with their defaults: every domain, three seeds.

    python tests/benchmarks/learning.py

The policy gradients are evaluated as the stochastic policies they are, SASQ greedily.
"""

from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from stable_baselines3.common.evaluation import evaluate_policy

from sas_agents import SASNPG, SASPG, SASQ, VecMaskInObservation, make_vec_env
from sas_gym import Recommender
from sas_gym._evaluation import episode_returns
from sas_gym.planning import normalized_score, optimal_return, random_return

SEEDS = 0, 1, 2
NUM_EVALUATIONS = 1000
# Steps to learn from. The Bay Area's episodes are longer, and its states more unequal.
DOMAINS = {
    "SAS/SanFrancisco-v0": 300_000,
    "SAS/Maze-v0": 300_000,
    "SAS/Recommender-v0": 300_000,
    "SAS/BayArea-v0": 1_500_000,
}


def mean_return(env_id: str, agent: Any, seed: int) -> float:
    """Train an agent and return the mean return of what it has learned."""
    env = make_vec_env(env_id, 64, seed=seed)
    model = agent("LinearPolicy", env, seed=seed).learn(DOMAINS[env_id])
    test_env = make_vec_env(env_id, 64, seed=1000 + seed)
    return evaluate_policy(
        model, test_env, NUM_EVALUATIONS, deterministic=agent is SASQ
    )[0]


def myopic_return() -> float:
    """Return what a policy earns that knows the recommender but not to look ahead."""
    task = Recommender()
    env = gym.make_vec("SAS/Recommender-v0", num_envs=1000)

    def policy(obs: Any, mask: Any) -> Any:
        profit = task.expected_profit(obs["observation"])
        return np.where(mask == 1, profit, -1.0).argmax(axis=1)

    return episode_returns(env, policy, 10_000, seed=0).mean()


def taxi_return(agent: Any, num_steps: int) -> float:
    """Train on Gymnasium's Taxi, whose masks are in its infos; evaluate greedily."""
    env = make_vec_env("Taxi-v4", 64, seed=0)
    model = agent("LinearPolicy", env, seed=0).learn(num_steps)
    test_env = VecMaskInObservation(make_vec_env("Taxi-v4", 64, seed=1000))
    return evaluate_policy(model, test_env, NUM_EVALUATIONS)[0]


def main() -> None:
    """Print a table."""
    th.set_num_threads(1)
    for env_id, num_steps in DOMAINS.items():
        env = gym.make(env_id)
        print(
            f"{env_id}, {num_steps:,} steps: optimum {optimal_return(env):.3f}, random "
            f"{random_return(env):.3f}"
        )
        for agent in (SASPG, SASNPG, SASQ):
            means = [mean_return(env_id, agent, seed) for seed in SEEDS]
            scores = normalized_score(env, means)
            returns = " ".join(f"{mean:9.3f}" for mean in means)
            print(f"  {agent.__name__:7} {returns}   scores {scores.round(4).tolist()}")
    print(f"recommender, myopic policy that knows the model: {myopic_return():.3f}")
    for agent, num_steps in ((SASPG, 1_200_000), (SASQ, 300_000)):
        taxi = taxi_return(agent, num_steps)
        print(f"Taxi, {agent.__name__}, {num_steps:,} steps: {taxi:.2f}")


if __name__ == "__main__":
    main()
