"""Compute the returns of the maze and the recommender: a few minutes on one core.

`python -m sas_gym.planning.approximations` writes the file for `reference_return`.

The maze is solved on two grids, with the noise sampled, by backward induction over its
80 steps. The finer grid gives the optimum; the error is the larger one of its
distances from the coarser grid and from the mean return of the finer grid's policy in
the maze itself. The recommender's optimum lies between a lower bound, the return of a
fitted plan, and an upper bound by information relaxation: it is taken in the middle,
and the error is half the gap between them. Two standard errors are added to either.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from sas_gym._evaluation import Policy, RandomPolicy, episode_returns
from sas_gym._types import Floats
from sas_gym.envs._vector import SASVectorEnv
from sas_gym.planning._dynamic_programming import backward_induction
from sas_gym.planning._returns import PATH, Reference
from sas_gym.planning.approximations._maze import GridPolicy, MazeGrid
from sas_gym.planning.approximations._recommender import FittedPlan, bounds
from sas_gym.rules import rules_of
from sas_gym.tasks._maze import Maze
from sas_gym.tasks._recommender import Recommender

AVAILABILITIES = (0.2, 0.4, 0.6, 0.8, 1.0)
MAZE_STEPS = 80
MAZE = {"coarse_cells": 60, "fine_cells": 120, "num_samples": 128}
# The upper bound does not move between a slack of 0.03 and one of 0.2.
RECOMMENDER = {
    "num_contexts": 2000,
    "num_features": 200,
    "num_users": 10_000,
    "num_searches": 200,
    "slack": 0.2,
}
NUM_EPISODES = 20_000
NUM_ENVS = 1000
SEED = 0
NUM_DIGITS = 4


def main() -> None:
    """Compute everything, print it line by line, and write it."""
    tables = {
        "Maze": {
            "settings": {**MAZE, "num_episodes": NUM_EPISODES},
            "rows": list(rows("Maze", MAZE_STEPS, maze_returns())),
        },
        "Recommender": {
            "settings": {**RECOMMENDER, "num_episodes": NUM_EPISODES},
            "rows": list(rows("Recommender", None, recommender_returns())),
        },
    }
    PATH.write_text(json.dumps(tables, indent=2) + "\n")


def rows(
    name: str, max_episode_steps: int | None, found: Iterator[tuple[float, Reference]]
) -> Iterator[dict[str, Any]]:
    """Print each row and yield it rounded, with the settings that it is found by.

    Args:
        name: Name of the task.
        max_episode_steps: The time limit.
        found: The availabilities and the returns.
    """
    for availability, reference in found:
        numbers = {
            field: round(value, NUM_DIGITS) if isinstance(value, float) else value
            for field, value in reference._asdict().items()
        }
        sys.stdout.write(f"{name} at {availability}: {numbers}\n")
        yield {
            "arguments": {"availability": availability},
            "max_episode_steps": max_episode_steps,
            **numbers,
        }


def maze_returns() -> Iterator[tuple[float, Reference]]:
    """Solve the maze at every availability."""
    grids = [MazeGrid(Maze(), MAZE[f"{size}_cells"]) for size in ("coarse", "fine")]
    # How the robot moves does not depend on which actuators work: sampled once.
    coarse, fine = (grid.tabular(MAZE["num_samples"], SEED) for grid in grids)
    for availability in AVAILABILITIES:
        changes = {"action_sets": availability, "horizon": MAZE_STEPS}
        rough = backward_induction(coarse.replace(**changes)).mean_return
        solution = backward_induction(fine.replace(**changes))
        optimal = solution.mean_return
        env = SASVectorEnv(Maze(availability), NUM_ENVS, max_episode_steps=MAZE_STEPS)
        played, noise = mean_return(env, GridPolicy(grids[1], solution))
        error = max(abs(optimal - rough), abs(optimal - played) + 2 * noise)
        yield availability, reference(env, optimal, error)


def recommender_returns() -> Iterator[tuple[float, Reference]]:
    """Bound the recommender at every availability."""
    size = int(RECOMMENDER["num_contexts"]), int(RECOMMENDER["num_features"])
    for availability in AVAILABILITIES:
        task = Recommender(availability)
        predicted, lower, excess = bounds(
            FittedPlan(task, *size, SEED),
            int(RECOMMENDER["num_users"]),
            int(RECOMMENDER["num_searches"]),
            RECOMMENDER["slack"],
            SEED,
        )
        highest = predicted.mean() + excess.mean()
        noise = _standard_error(lower) + _standard_error(excess)
        optimal = (lower.mean() + highest) / 2
        error = abs(highest - lower.mean()) / 2 + 2 * noise
        env = SASVectorEnv(task, NUM_ENVS)
        yield availability, reference(env, optimal, error)


def reference(env: SASVectorEnv, optimal: float, error: float) -> Reference:
    """Play at random and by the rules; return these returns with the optimum."""
    random, random_error = mean_return(env, RandomPolicy(SEED))
    played = [(rule.name, *mean_return(env, rule)) for rule in rules_of(env.task)]
    rule, rule_return, rule_error = max(played, key=lambda each: each[1])
    return Reference(
        optimal, error, random, random_error, rule, rule_return, rule_error
    )


def mean_return(env: SASVectorEnv, policy: Policy) -> tuple[float, float]:
    """Return the mean return of a policy, and its standard error."""
    returns = episode_returns(env, policy, NUM_EPISODES, SEED)
    return float(returns.mean()), _standard_error(returns)


def _standard_error(samples: Floats) -> float:
    return float(samples.std(ddof=1) / np.sqrt(len(samples)))


if __name__ == "__main__":
    main()
