"""Returns of the continuous tasks, computed once and shipped."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sas_gym.action_sets import ActionSets, Independent
from sas_gym.envs._single import SASEnv
from sas_gym.envs._vector import SASVectorEnv
from sas_gym.tasks._task import Task

PATH = Path(__file__).parent.parent / "data" / "reference_returns.json"
COMMAND = "python -m sas_gym.planning.approximations"


class Reference(NamedTuple):
    """What is known of a task that has no exact solution, undiscounted."""

    optimal: float
    """Best mean return of an episode."""
    optimal_error: float
    """How far off that may be."""
    random: float
    """Mean return of random play."""
    random_error: float
    """Standard error of that."""


def reference_return(
    env: SASEnv | SASVectorEnv, time_limit: int | None, gamma: float = 1.0
) -> Reference:
    """Look up the returns of a continuous task.

    Args:
        env: The maze or the recommender, with any availability of the grid for all
            actions and everything else by default.
        time_limit: Number of steps after which an episode is truncated.
        gamma: Discount, of which only 1 is known.

    Raises:
        ValueError: If the returns are not known at these settings.
    """
    task, name = env.task, type(env.task).__name__
    known = _known().get(name)
    if known is None:
        raise ValueError(
            f"the optimum of {name} is not known: only a task that gives itself as "
            f"arrays (`tabular`) is solved exactly, and only {sorted(_known())} "
            f"were approximated"
        )
    availability = _single_availability(env.action_sets)
    row = known["returns"].get(str(availability))
    make: Callable[..., Task] = type(task)
    same = (
        row is not None
        and gamma == 1
        and time_limit == known["max_episode_steps"]
        and _same_settings(task, make(availability))
    )
    if not same:
        raise ValueError(
            f"the optimum of {name} is known undiscounted, at the availabilities "
            f"{sorted(known['returns'])}, truncated after {known['max_episode_steps']} "
            f"steps, with all other arguments by default; for other settings change "
            f"and run `{COMMAND}`"
        )
    return Reference(**{field: row[field] for field in Reference._fields})


@cache
def _known() -> dict[str, Any]:
    known: dict[str, Any] = json.loads(PATH.read_text()) if PATH.exists() else {}
    return known


def _single_availability(law: ActionSets) -> float | None:
    """Return the one probability of all actions, or `None` if they differ."""
    if not isinstance(law, Independent):
        return None
    distinct = np.unique(law.availability)
    return float(distinct[0]) if len(distinct) == 1 else None


def _same_settings(task: Task, default: Task) -> bool:
    """Compare all that two tasks hold but the law of their action sets."""
    ours, theirs = vars(task), vars(default)
    return all(
        np.array_equal(ours[name], theirs[name])
        for name in theirs
        if name != "action_sets"
    )
