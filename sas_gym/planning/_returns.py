"""The best and the random return of an environment, and scores between them."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import TimeLimit
from numpy.typing import ArrayLike, NDArray

from sas_gym._evaluation import RandomPolicy
from sas_gym.envs._single import SASEnv
from sas_gym.envs._vector import SASVectorEnv
from sas_gym.planning._dynamic_programming import policy_evaluation, solve
from sas_gym.planning._reference import reference_return
from sas_gym.planning._tabular import TabularSASMDP
from sas_gym.tasks._task import Task

AnyEnv = gym.Env[Any, Any] | VectorEnv[Any, Any, Any]


def optimal_return(env: AnyEnv, gamma: float = 1.0) -> float:
    """Best mean return of an episode as the environment plays it.

    Its start and its time limit are those of the environment. The maze and the
    recommender have no exact solution: for them it is the value that was computed by
    `python -m sas_gym.planning.approximations`, see `reference_return`.

    Args:
        env: An environment of ours, single or vector, as `gymnasium.make` gives it.
        gamma: Discount of the return.

    Example:
        >>> import sas_gym
        >>> env = gym.make("SAS/SanFrancisco-v0", availability=0.2)
        >>> round(optimal_return(env), 3)
        3.967
    """
    if _is_tabular(env):
        return solve(_as_played(env, gamma)).mean_return
    return reference_return(_ours(env), _time_limit(env), gamma).optimal


def random_return(env: AnyEnv, gamma: float = 1.0) -> float:
    """Mean return of an episode in which any available action is taken at random."""
    if _is_tabular(env):
        return policy_evaluation(_as_played(env, gamma), RandomPolicy()).mean_return
    return reference_return(_ours(env), _time_limit(env), gamma).random


def normalized_score(
    env: AnyEnv, returns: ArrayLike, gamma: float = 1.0
) -> NDArray[np.float64]:
    """Put returns on a scale on which random play has 0 and the optimum 1.

    Raises:
        ValueError: If nothing is better than random play in this environment.
    """
    low, high = random_return(env, gamma), optimal_return(env, gamma)
    if not high > low:
        raise ValueError(
            f"random play is optimal here, with the return {low}: there is no scale"
        )
    return (np.asarray(returns, dtype=np.float64) - low) / (high - low)


def _as_played(env: AnyEnv, gamma: float) -> TabularSASMDP:
    mdp = _ours(env).tabular()
    return mdp.replace(gamma=gamma, horizon=_time_limit(env))


def _is_tabular(env: AnyEnv) -> bool:
    return type(_ours(env).task).tabular is not Task.tabular


def _ours(env: AnyEnv) -> SASEnv | SASVectorEnv:
    inner = env.unwrapped
    if not isinstance(inner, SASEnv | SASVectorEnv):
        raise ValueError(
            f"the optimum is known of environments of sas_gym only, not of {env}: give "
            "the task as a TabularSASMDP, and play it by SASEnv"
        )
    return inner


def _time_limit(env: AnyEnv) -> int | None:
    """Return the number of steps after which an episode is truncated, if any."""
    if isinstance(env.unwrapped, SASVectorEnv):
        return env.unwrapped.max_episode_steps
    # Not `env.spec`: what was not made by `gymnasium.make` has none.
    limits = []
    while isinstance(env, gym.Wrapper):
        if isinstance(env, TimeLimit):
            limits.append(env._max_episode_steps)
        env = env.env
    return min(limits, default=None)
