"""What the agents reach with their defaults: every domain, three seeds.

    python tests/benchmarks/learning.py

The policy gradients are evaluated as stochastic policies, SASQ greedily.
"""

from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv

from sas_agents import SASNPG, SASPG, SASQ, VecMaskInObservation, make_vec_env
from sas_gym import Recommender, episode_returns
from sas_gym.planning import normalized_score, optimal_return, random_return

SEEDS = 0, 1, 2
NUM_ENVS = 64
NUM_EVALUATIONS = 1000
# Training steps. The Bay Area has longer episodes, and states of more unequal value.
DOMAINS = {
    "SAS/SanFrancisco-v0": 300_000,
    "SAS/Maze-v0": 300_000,
    "SAS/Recommender-v0": 300_000,
    "SAS/BayArea-v0": 1_500_000,
}


def trained(agent: Any, env_id: str, num_steps: int, seed: int) -> Any:
    """Return an agent with default arguments after training."""
    env = make_vec_env(env_id, NUM_ENVS, seed=seed)
    return agent("LinearPolicy", env, seed=seed).learn(num_steps)


def unseen_env(env_id: str, seed: int) -> VecEnv:
    """Return environments whose episodes were not trained on."""
    return make_vec_env(env_id, NUM_ENVS, seed=1000 + seed)


def mean_return(model: Any, env: VecEnv, deterministic: bool) -> float:
    """Return the mean return of an agent."""
    mean, _ = evaluate_policy(model, env, NUM_EVALUATIONS, deterministic=deterministic)
    return float(np.mean(mean))


def domain_return(agent: Any, env_id: str, seed: int) -> float:
    """Train on a domain and evaluate the agent the way it acts."""
    model = trained(agent, env_id, DOMAINS[env_id], seed)
    return mean_return(model, unseen_env(env_id, seed), deterministic=agent is SASQ)


def taxi_return(agent: Any, num_steps: int) -> float:
    """Train on Gymnasium's Taxi, whose masks are in its infos; evaluate greedily."""
    model = trained(agent, "Taxi-v4", num_steps, seed=0)
    env = VecMaskInObservation(unseen_env("Taxi-v4", seed=0))
    return mean_return(model, env, deterministic=True)


def myopic_return() -> float:
    """Return what a policy earns that knows the recommender but does not look ahead."""
    task = Recommender()
    env = gym.make_vec("SAS/Recommender-v0", num_envs=1000)

    def policy(obs: Any, mask: Any) -> Any:
        profit = task.expected_profit(obs["observation"])
        return np.where(mask == 1, profit, -1.0).argmax(axis=1)

    return float(episode_returns(env, policy, 10_000, seed=0).mean())


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
            means = [domain_return(agent, env_id, seed) for seed in SEEDS]
            returns = " ".join(f"{mean:9.3f}" for mean in means)
            scores = " ".join(f"{normalized_score(env, mean):6.1%}" for mean in means)
            print(f"  {agent.__name__:7} {returns}   normalized {scores}")
    print(f"recommender, myopic policy that knows the model: {myopic_return():.3f}")
    for agent, num_steps in ((SASPG, 1_200_000), (SASQ, 300_000)):
        taxi = taxi_return(agent, num_steps)
        print(f"Taxi, {agent.__name__}, {num_steps:,} steps: {taxi:.2f}")


if __name__ == "__main__":
    main()
