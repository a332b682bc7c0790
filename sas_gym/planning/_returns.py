"""The optimal and the random return of a problem, its best rule, and scores."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sas_gym import rules
from sas_gym._types import Floats
from sas_gym.action_sets._plain import as_plain, from_plain
from sas_gym.planning._lasting import LastingMDP
from sas_gym.planning._policy_return import policy_return
from sas_gym.planning._problem import Problem, ProblemLike
from sas_gym.planning._solve import solve
from sas_gym.rules import RandomPolicy
from sas_gym.tasks._task import Task

PATH = Path(__file__).parent.parent / "data" / "reference_returns.json"
COMMAND = "python -m sas_gym.planning.approximations"
_WORTH_OF_RULES = 0.99


class Reference(NamedTuple):
    """Known returns of a task that has no exact solution, undiscounted."""

    optimal: float
    """Best mean return of an episode."""
    optimal_error: float
    """Largest error of `optimal`."""
    random: float
    """Mean return of the random policy."""
    random_error: float
    """Standard error of `random`."""
    rule: str
    """Name of the best rule of `sas_gym.rules`."""
    rule_return: float
    """Mean return of the best rule."""
    rule_error: float
    """Standard error of `rule_return`."""


class BestRule(NamedTuple):
    """The best of the rules of `sas_gym.rules` for a problem."""

    name: str
    """Name of the rule."""
    mean_return: float
    """Mean return of the rule."""


def optimal_return(problem: ProblemLike, gamma: float = 1.0) -> float:
    """Compute the best mean return of an episode.

    The start, the action sets and the time limit of the problem count. The maze and the
    recommender have no exact solution: for them the value was computed by
    `python -m sas_gym.planning.approximations`, see `reference_return`. Where outcomes
    last, the optimum is known if the mask shows the outcome; else `informed_return` is
    an upper bound.

    Args:
        problem: A task, an environment of `sas_gym` or its id.
        gamma: Discount of the return.

    Example:
        >>> import gymnasium as gym, sas_gym
        >>> env = gym.make("SAS/SanFrancisco-v0", availability=0.2)
        >>> round(optimal_return(env), 3)
        3.967
    """
    found = Problem(problem)
    if gamma == 1 and (solution := found.own_solution()) is not None:
        return solution.mean_return
    mdp = found.tabular(gamma)
    if mdp is None:
        return reference_return(problem, gamma).optimal
    return solve(mdp).mean_return


def informed_return(problem: ProblemLike, gamma: float = 1.0) -> float:
    """Compute the best mean return for an agent that sees the outcome.

    Where outcomes last, an agent that sees the mask alone can do no better: an upper
    bound of its best return. Where they do not last, it is the optimum.

    Args:
        problem: A task, an environment of `sas_gym` or its id.
        gamma: Discount of the return.

    Raises:
        ValueError: If the task has no tabular form, or if its outcomes cannot be listed
            or are too many.
    """
    mdp = Problem(problem).required_tabular(gamma)
    if mdp.action_sets.is_sas_mdp:
        return solve(mdp).mean_return
    lasting = LastingMDP(mdp)
    return lasting.mean_return(lasting.values(lasting.best))


def random_return(problem: ProblemLike, gamma: float = 1.0) -> float:
    """Compute the mean return of an episode of random available actions.

    Args:
        problem: A task, an environment of `sas_gym` or its id.
        gamma: Discount of the return.
    """
    if Problem(problem).tabular(gamma) is None:
        return reference_return(problem, gamma).random
    return policy_return(problem, RandomPolicy(), gamma)


def best_rule(problem: ProblemLike, gamma: float = 1.0) -> BestRule:
    """Find the best of the rules that `sas_gym.rules` has for a problem.

    Args:
        problem: A task, an environment of `sas_gym` or its id.
        gamma: Discount of the return.

    Raises:
        ValueError: If there is no rule for the task.
    """
    found = Problem(problem)
    candidates = rules.rules_of(found.task)
    if not candidates:
        raise ValueError(f"sas_gym.rules has no rule for {found.name}")
    if found.tabular(gamma) is None:
        reference = reference_return(problem, gamma)
        return BestRule(reference.rule, reference.rule_return)
    returns = [policy_return(problem, rule, gamma) for rule in candidates]
    best = int(np.argmax(returns))
    return BestRule(candidates[best].name, returns[best])


def normalized_score(
    problem: ProblemLike, returns: ArrayLike, gamma: float = 1.0
) -> Floats:
    """Scale returns so that the random policy has 0 and the optimum 1.

    Args:
        problem: A task, an environment of `sas_gym` or its id.
        returns: Mean returns of policies.
        gamma: Discount of the returns.

    Raises:
        ValueError: If no policy is better than the random one in this environment.
    """
    low, high = random_return(problem, gamma), optimal_return(problem, gamma)
    if not high > low:
        raise ValueError(
            f"the random policy is optimal in this environment, with the return {low}: "
            "scores cannot be normalized"
        )
    return (np.asarray(returns, dtype=np.float64) - low) / (high - low)


def rule_score(problem: ProblemLike, returns: ArrayLike, gamma: float = 1.0) -> Floats:
    """Scale returns so that the best simple rule has 0 and the optimum 1.

    Where random play is terrible, any sensible policy has a `normalized_score` close to
    1; this score starts at the rule instead.

    Args:
        problem: A task, an environment of `sas_gym` or its id.
        returns: Mean returns of policies.
        gamma: Discount of the returns.

    Raises:
        ValueError: If there is no rule for the task, or if the best rule comes within
            1 % of the way from random play to the optimum.
    """
    rule = best_rule(problem, gamma)
    high = optimal_return(problem, gamma)
    (share,) = normalized_score(problem, [rule.mean_return], gamma)
    if share > _WORTH_OF_RULES:
        raise ValueError(
            f"the rule {rule.name!r} has {share:.1%} of the way from random play to "
            "the optimum: nothing is left to be scored above it"
        )
    scaled = np.asarray(returns, dtype=np.float64) - rule.mean_return
    return scaled / (high - rule.mean_return)


def reference_return(problem: ProblemLike, gamma: float = 1.0) -> Reference:
    """Look up the returns of a task that has no exact solution.

    The stored rows are keyed by all arguments of the task, its action sets and the time
    limit.

    Args:
        problem: The maze or the recommender, in an environment or as an id.
        gamma: Discount, of which only 1 is known.

    Raises:
        ValueError: If the returns are not known at these settings.
    """
    found = Problem(problem)
    known = _known().get(found.name)
    if known is None:
        raise ValueError(
            f"the returns of {found.name} are not known: it is not given as arrays "
            "(define `tabular`) and is none of the approximated tasks "
            f"{sorted(_known())}"
        )
    for row in known["rows"]:
        if gamma == 1 and _is_row_of(row, found):
            return Reference(**{field: row[field] for field in Reference._fields})
    settings = [
        {"max_episode_steps": row["max_episode_steps"], **row["arguments"]}
        for row in known["rows"]
    ]
    raise ValueError(
        f"the returns of {found.name} are known undiscounted, with these arguments and "
        f"all others by default: {settings}; for other settings change and run "
        f"`{COMMAND}`"
    )


@cache
def _known() -> dict[str, Any]:
    known: dict[str, Any] = json.loads(PATH.read_text()) if PATH.exists() else {}
    return known


def _is_row_of(row: dict[str, Any], problem: Problem) -> bool:
    """Compare the settings of a stored row and of a problem."""
    if row["max_episode_steps"] != problem.max_episode_steps:
        return False
    make: Callable[..., Task] = type(problem.task)
    stored = make(**{name: from_plain(v) for name, v in row["arguments"].items()})
    own_sets = stored.action_sets.fit(stored)
    return as_plain(own_sets) == as_plain(problem.action_sets) and _same_settings(
        problem.task, stored
    )


def _same_settings(task: Task, default: Task) -> bool:
    """Compare all attributes of two tasks but the distribution of their action sets."""
    ours, theirs = vars(task), vars(default)
    return all(
        np.array_equal(ours[name], theirs[name])
        for name in theirs
        if name != "action_sets"
    )
