"""References of returns: random play, the best simple rule, the optimum."""

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from sas_agents.study.definition._environments import make_problem
from sas_agents.study.running._envs import make_env
from sas_agents.study.running._evaluation import played_at_random
from sas_agents.study.storage._scales import Reference


def reference_returns(environment: str, arguments: Mapping[str, Any]) -> Reference:
    """Return the mean return of random play, of the best rule, and the best one.

    Where the planner does not know them, `random` is the mean of episodes that are
    played, 1,000 or, of a guest, 200; and the others are `None`.
    """
    return dict(_references(environment, json.dumps(dict(arguments))))


@cache
def _references(environment: str, arguments: str) -> Reference:
    """Return the references, which many runs of one worker have in common."""
    from sas_gym.planning import best_rule, optimal_return, random_return

    problem = make_problem(environment, json.loads(arguments))
    env = make_env(problem)
    random = _known(random_return, env)
    if random is None:
        random = played_at_random(problem, 1000 if problem.is_ours else 200)
    rule = _known(lambda env: best_rule(env).mean_return, env)
    reference = {"random": random, "rule": rule, "optimal": _known(optimal_return, env)}
    env.close()
    return reference


def _known(of: Callable[[Any], float], env: Any) -> float | None:
    """Return the planner's answer for an environment, or `None` if it has none."""
    try:
        return of(env)
    except ValueError:
        return None
