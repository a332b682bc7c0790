"""What the agents reach with their defaults.

    python benchmarks/learning.py

300,000 steps in 64 environments, with seeds that no default was chosen by: five, and
twelve for SASQ in the maze, where it used to be unstable. The means go to
`results/learning.csv` beside this file. The policy gradients are evaluated as
stochastic policies and greedily, SASQ greedily.
"""

import csv
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import networkx as nx
import numpy as np
import torch as th
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from sas_agents import SASNPG, SASPG, SASQ, make_vec_env
from sas_gym import Routing, SanFrancisco, SASVectorEnv, Task, episode_returns

FIRST_SEED = 1000
NUM_SEEDS = 5
NUM_ENVS = 64
NUM_STEPS = 300_000
NUM_EVALUATIONS = 1000
EVALUATION_SEED = 1_000_000
RESULTS = Path(__file__).parent / "results" / "learning.csv"
EVERY_AGENT = SASPG, SASNPG, SASQ
DOMAINS = {
    "map": "SAS/SanFrancisco-v0",
    "maze": "SAS/Maze-v0",
    "recommender": "SAS/Recommender-v0",
}


class Problem(NamedTuple):
    """An environment, by its id or as a task."""

    name: str
    env: str | Task
    arguments: dict[str, Any]
    unit: float = 1.0
    """What returns are divided by."""

    def training_env(self, seed: int) -> Any:
        """Make the environments to learn in."""
        return make_vec_env(self.env, NUM_ENVS, seed=seed, env_kwargs=self.arguments)

    def evaluation_env(self) -> VectorEnv[Any, Any, Any]:
        """Make the environments to be evaluated in."""
        if isinstance(self.env, Task):
            return SASVectorEnv(self.env, NUM_EVALUATIONS, **self.arguments)
        return gym.make_vec(self.env, NUM_EVALUATIONS, **self.arguments)


def grid() -> Problem:
    """Return 900 junctions of which one is the goal; the optimum is -36.8."""
    graph = nx.grid_2d_graph(30, 30)
    task = Routing.from_networkx(graph, goal=(0, 0), length=None, availability=0.7)
    return Problem("grid, 30 x 30", task, {"max_episode_steps": 200})


def scaled_map(factor: float) -> Problem:
    """Return the map with its rewards times a factor."""
    task = SanFrancisco(
        step_reward=-0.1 * factor, loop_reward=-1.0 * factor, goal_reward=10.0 * factor
    )
    limit = {"max_episode_steps": 30}
    return Problem(f"map, rewards times {factor:g}", task, limit, factor)


def choose(
    model: Any, greedy: bool, obs: Any, _: NDArray[np.int8]
) -> NDArray[np.int64]:
    """Act as a trained model does."""
    actions: NDArray[np.int64] = model.predict(obs, deterministic=greedy)[0]
    return actions


def measure(
    problem: Problem, agent: type[Any], policy: str, num_seeds: int = NUM_SEEDS
) -> list[dict[str, Any]]:
    """Train and evaluate with every seed."""
    rows = []
    for seed in range(FIRST_SEED, FIRST_SEED + num_seeds):
        model = agent(policy, problem.training_env(seed), seed=seed).learn(NUM_STEPS)
        returns = {}
        for greedy in [True] if agent is SASQ else [False, True]:
            returns[greedy] = (
                episode_returns(
                    problem.evaluation_env(),
                    partial(choose, model, greedy),
                    NUM_EVALUATIONS,
                    seed=EVALUATION_SEED,
                ).mean()
                / problem.unit
            )
        rows.append(
            {
                "problem": problem.name,
                "agent": agent.__name__,
                "policy": policy,
                "seed": seed,
                "mean_return": round(returns[agent is SASQ], 4),
                "greedy_return": round(returns[True], 4),
            }
        )
    means = [row["mean_return"] for row in rows]
    every = " ".join(f"{mean:.2f}" for mean in means)
    name = f"{problem.name:28} {agent.__name__:7} {policy:12}"
    print(f"{name} {np.mean(means):8.3f}   {every}", flush=True)
    return rows


def main() -> None:
    """Print a table, and write the file."""
    th.set_num_threads(1)
    rows = []
    problems = [
        *(Problem(name, env_id, {}) for name, env_id in DOMAINS.items()),
        *(
            Problem(f"{name}, availability 0.2", env_id, {"availability": 0.2})
            for name, env_id in DOMAINS.items()
        ),
        Problem("Bay Area", "SAS/BayArea-v0", {}),
        grid(),
        *(scaled_map(factor) for factor in (1.0, 1e-6, 1e-3, 1e3, 1e6)),
    ]
    for problem in problems:
        for agent in EVERY_AGENT:
            is_long = agent is SASQ and problem.name == "maze"
            num_seeds = 12 if is_long else NUM_SEEDS
            rows += measure(problem, agent, "LinearPolicy", num_seeds)
    for agent in EVERY_AGENT:
        rows += measure(Problem("maze", "SAS/Maze-v0", {}), agent, "MlpPolicy")
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
