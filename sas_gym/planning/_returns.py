"""The optimal and the random return of an environment, and normalized scores."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import ArrayLike

from sas_gym._evaluation import RandomPolicy
from sas_gym._types import Floats
from sas_gym._wrappers import time_limit
from sas_gym.action_sets import ActionSets, Independent
from sas_gym.envs._single import SASEnv
from sas_gym.envs._vector import SASVectorEnv
from sas_gym.planning._dynamic_programming import policy_evaluation, solve
from sas_gym.tasks._tabular import TabularSASMDP
from sas_gym.tasks._task import Task

AnyEnv = gym.Env[Any, Any] | VectorEnv[Any, Any, Any]

PATH = Path(__file__).parent.parent / "data" / "reference_returns.json"
COMMAND = "python -m sas_gym.planning.approximations"


class Reference(NamedTuple):
    """What is known of a task that has no exact solution, undiscounted."""

    optimal: float
    """Best mean return of an episode."""
    optimal_error: float
    """How far off that may be."""
    random: float
    """Mean return of the random policy."""
    random_error: float
    """Standard error of that."""


def optimal_return(env: AnyEnv, gamma: float = 1.0) -> float:
    """Best mean return of an episode in the environment.

    Its start and its time limit are those of the environment. The maze and the
    recommender have no exact solution: for them it is the value that was computed by
    `python -m sas_gym.planning.approximations`, see `reference_return`.

    Args:
        env: An environment of ours, single or vector, as `gymnasium.make` returns it.
        gamma: Discount of the return.

    Example:
        >>> import sas_gym
        >>> env = gym.make("SAS/SanFrancisco-v0", availability=0.2)
        >>> round(optimal_return(env), 3)
        3.967
    """
    mdp = _tabular(env, gamma)
    if mdp is None:
        return reference_return(env, gamma).optimal
    return solve(mdp).mean_return


def random_return(env: AnyEnv, gamma: float = 1.0) -> float:
    """Mean return of an episode in which a random available action is taken."""
    mdp = _tabular(env, gamma)
    if mdp is None:
        return reference_return(env, gamma).random
    return policy_evaluation(mdp, RandomPolicy()).mean_return


def normalized_score(env: AnyEnv, returns: ArrayLike, gamma: float = 1.0) -> Floats:
    """Scale returns so that the random policy has 0 and the optimum 1.

    Raises:
        ValueError: If no policy is better than the random one in this environment.
    """
    low, high = random_return(env, gamma), optimal_return(env, gamma)
    if not high > low:
        raise ValueError(
            f"the random policy is optimal in this environment, with the return {low}: "
            "scores cannot be normalized"
        )
    return (np.asarray(returns, dtype=np.float64) - low) / (high - low)


def reference_return(env: AnyEnv, gamma: float = 1.0) -> Reference:
    """Look up the returns of a continuous task.

    Args:
        env: The maze or the recommender, with one of the stored availabilities for all
            actions, and all other arguments and the time limit by default.
        gamma: Discount, of which only 1 is known.

    Raises:
        ValueError: If the returns are not known at these settings.
    """
    inner = _ours(env)
    task, name = inner.task, type(inner.task).__name__
    known = _known().get(name)
    if known is None:
        raise ValueError(
            f"the returns of {name} are not known: it is not given as arrays (define "
            f"`tabular`) and is none of the approximated tasks {sorted(_known())}"
        )
    availability = _single_availability(inner.action_sets)
    row = known["returns"].get(str(availability))
    make: Callable[..., Task] = type(task)
    same = (
        row is not None
        and gamma == 1
        and _time_limit(env) == known["max_episode_steps"]
        and _same_settings(task, make(availability))
    )
    if not same:
        raise ValueError(
            f"the returns of {name} are known undiscounted, at the availabilities "
            f"{sorted(known['returns'])}, truncated after {known['max_episode_steps']} "
            f"steps, with all other arguments by default; for other settings change "
            f"and run `{COMMAND}`"
        )
    return Reference(**{field: row[field] for field in Reference._fields})


def _tabular(env: AnyEnv, gamma: float) -> TabularSASMDP | None:
    """Return what the environment plays as arrays, or `None` if its task has none."""
    inner = _ours(env)
    mdp = inner.task.tabular()
    if mdp is None:
        return None
    return mdp.replace(
        action_sets=inner.action_sets, gamma=gamma, horizon=_time_limit(env)
    )


def _ours(env: AnyEnv) -> SASEnv | SASVectorEnv:
    # A task or an id, which users pass by mistake, is no environment.
    inner = getattr(env, "unwrapped", env)
    if not isinstance(inner, SASEnv | SASVectorEnv):
        raise ValueError(
            f"returns are known for environments of sas_gym only, not for {env}: give "
            "the task, or a TabularSASMDP, in an SASEnv"
        )
    return inner


def _time_limit(env: AnyEnv) -> int | None:
    """Return the number of steps after which an episode is truncated, if any."""
    if isinstance(env.unwrapped, SASVectorEnv):
        return env.unwrapped.max_episode_steps
    assert isinstance(env, gym.Env)  # of the two kinds, the other one
    return time_limit(env)


@cache
def _known() -> dict[str, Any]:
    known: dict[str, Any] = json.loads(PATH.read_text()) if PATH.exists() else {}
    return known


def _single_availability(action_sets: ActionSets) -> float | None:
    """Return the one probability of all actions, or `None` if they differ."""
    if not isinstance(action_sets, Independent):
        return None
    distinct = np.unique(action_sets.availability)
    return float(distinct[0]) if len(distinct) == 1 else None


def _same_settings(task: Task, default: Task) -> bool:
    """Compare all attributes of two tasks but the distribution of their action sets."""
    ours, theirs = vars(task), vars(default)
    return all(
        np.array_equal(ours[name], theirs[name])
        for name in theirs
        if name != "action_sets"
    )
