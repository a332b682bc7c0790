"""The recommender with 100 to 100,000 products: cost, memory, and learning.

    python benchmarks/large_action_sets.py          the table of costs
    python benchmarks/large_action_sets.py learn    learning with 10,000 products

A policy with one output per product learns of each product by itself; one that scores
products by their features learns of all that are alike at once.
"""

import argparse
import copy
import time
from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback, EveryNTimesteps
from stable_baselines3.common.evaluation import evaluate_policy

from sas_agents import MaskedPPO, make_vec_env
from sas_gym import Recommender, SASVectorEnv, episode_returns
from sas_gym.action_sets import Independent
from sas_gym.planning.approximations._recommender import FittedPlan

NUM_PRODUCTS = 100, 1_000, 10_000, 100_000
NUM_ENVS = 16
SETTINGS: dict[str, Any] = {
    "n_steps": 16,
    "batch_size": 256,
    "n_epochs": 4,
    # Falls to 0: at a constant rate the return of so many products goes up and down.
    "learning_rate": lambda left: 3e-3 * left,
    "gamma": 1.0,
    "device": "cpu",
}
# The profit of the thirtieth product of a topic is a thousandth of that of the first.
PLANNED_PER_TOPIC = 30


def make_model(
    task: Recommender, policy: str, num_envs: int, seed: int, **settings: Any
) -> MaskedPPO:
    """Make masked PPO with one output per product, or with two towers."""
    features = {"action_features": task.product_features()}
    model: MaskedPPO = MaskedPPO(
        policy,
        make_vec_env(task, num_envs, seed=seed),
        policy_kwargs=features if policy == "TwoTowerPolicy" else {},
        seed=seed,
        **SETTINGS | settings,
    )
    return model


def seconds_per_step(task: Recommender, policy: str) -> tuple[float, float, float]:
    """Return the processor time of environment, acting and learning, per step."""
    model = make_model(task, policy, NUM_ENVS, 0, n_steps=4, batch_size=64, n_epochs=1)
    model.learn(1)
    num_steps = max(100_000 // task.num_actions, 3)
    env: Any = model.env
    obs = env.reset()
    start = time.process_time()
    for _ in range(num_steps):
        obs = env.step(obs["action_mask"].argmax(axis=1))[0]
    environment = (time.process_time() - start) / num_steps / NUM_ENVS
    tensors = {key: th.as_tensor(values) for key, values in obs.items()}
    start = time.process_time()
    for _ in range(num_steps):
        with th.no_grad():
            model.policy(tensors)
    acting = (time.process_time() - start) / num_steps / NUM_ENVS
    start = time.process_time()
    model.train()
    learning = (time.process_time() - start) / model.n_steps / NUM_ENVS
    return environment, acting, learning


def bytes_per_transition(task: Recommender) -> float:
    """Return what the rollout buffer keeps of one step."""
    buffer: Any = make_model(task, "TwoTowerPolicy", NUM_ENVS, 0).rollout_buffer
    arrays = [v for v in vars(buffer).values() if isinstance(v, np.ndarray)]
    size = sum(array.nbytes for array in [*arrays, *buffer.observations.values()])
    return float(size / buffer.buffer_size / NUM_ENVS)


def print_costs() -> None:
    """Print time and memory for every number of products."""
    print("microseconds per step and environment; learning is one epoch")
    header = f"{'products':>9} {'environment':>12}"
    for policy in ("MlpPolicy", "TwoTower"):
        header += f" {policy + ' acts':>16} {'learns':>8} {'parameters':>11}"
    print(header + f" {'bytes/transition':>17}")
    for num_products in NUM_PRODUCTS:
        task = Recommender(num_products=num_products)
        row = ""
        for policy in ("MlpPolicy", "TwoTowerPolicy"):
            environment, acting, learning = seconds_per_step(task, policy)
            size = sum(
                p.numel()
                for p in make_model(task, policy, NUM_ENVS, 0).policy.parameters()
            )
            row += f" {acting * 1e6:16,.1f} {learning * 1e6:8,.0f} {size:11,}"
        print(
            f"{num_products:9,} {environment * 1e6:12,.1f}{row}"
            f" {bytes_per_transition(task):17,.0f}",
            flush=True,
        )


def best_products(task: Recommender) -> tuple[Recommender, NDArray[np.intp]]:
    """Return the recommender of each topic's most profitable products, and these."""
    order = np.lexsort((-task.profit, task.topic))
    keep = np.concatenate(
        [
            order[task.topic[order] == k][:PLANNED_PER_TOPIC]
            for k in range(task.num_topics)
        ]
    )
    small = copy.copy(task)
    for name in ("topic", "complement", "profit", "appeal", "pull"):
        setattr(small, name, getattr(task, name)[keep])
    small.num_actions = len(keep)
    small.action_sets = Independent(0.8).fit(small)
    return small, keep


def far_sighted_return(task: Recommender, num_episodes: int) -> float:
    """Return what a plan earns that knows the model and looks ahead."""
    small, keep = best_products(task)
    plan = FittedPlan(small, num_contexts=400, num_features=30, seed=0)

    def policy(obs: Any, mask: Any) -> Any:
        q = plan.q_values(obs["observation"].astype(float))
        return keep[np.where(mask[:, keep] == 1, q, -np.inf).argmax(axis=1)]

    env = SASVectorEnv(task, 100)
    return float(episode_returns(env, policy, num_episodes, seed=0).mean())


class Curve(BaseCallback):
    """Keeps the mean return of the greedy policy, each time it is called."""

    def __init__(self, task: Recommender) -> None:
        super().__init__()
        self.env = make_vec_env(task, 64, seed=1000)
        self.points: list[tuple[int, float]] = []

    def _on_step(self) -> bool:
        mean, _ = evaluate_policy(self.model, self.env, 512)
        self.points.append((self.num_timesteps, float(np.mean(mean))))
        return True


def learning_curve(
    task: Recommender, policy: str, num_steps: int, seed: int
) -> list[tuple[int, float]]:
    """Train and return the mean return of the greedy policy at five points in time."""
    curve = Curve(task)
    model = make_model(task, policy, 64, seed)
    model.learn(num_steps, EveryNTimesteps(num_steps // 5, curve))
    return curve.points


def print_learning(
    num_products: int, policies: list[str], num_steps: int, num_seeds: int
) -> None:
    """Print the learning curves of the policies against the plan."""
    task = Recommender(num_products=num_products)
    plan = far_sighted_return(task, 2000)
    print(f"{num_products:,} products: the far-sighted plan earns {plan:.2f}")
    for policy in policies:
        shares = []
        for seed in range(num_seeds):
            start = time.process_time()
            curve = learning_curve(task, policy, num_steps, seed)
            shares.append(curve[-1][1] / plan)
            points = "  ".join(f"{steps:,}: {mean:.2f}" for steps, mean in curve)
            print(
                f"{policy:15} seed {seed}  {points}  ({shares[-1]:.1%} of the plan, "
                f"{time.process_time() - start:.0f} s)",
                flush=True,
            )
        print(
            f"{policy:15} {np.mean(shares):.1%} of the plan in the mean, "
            f"{min(shares):.1%} at least, over {num_seeds} seeds"
        )


def main() -> None:
    """Print the table asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="?", default="costs", choices=["costs", "learn"])
    parser.add_argument("--products", type=int, default=10_000)
    parser.add_argument("--policy", nargs="+", default=["TwoTowerPolicy", "MlpPolicy"])
    parser.add_argument("--steps", type=int, default=160_000)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    th.set_num_threads(1)
    if arguments.what == "costs":
        print_costs()
    else:
        print_learning(
            arguments.products, arguments.policy, arguments.steps, arguments.seeds
        )


if __name__ == "__main__":
    main()
