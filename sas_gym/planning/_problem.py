"""The problem that a user names: a task, an environment of it, or an id."""

from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorEnv

from sas_gym._wrappers import time_limit
from sas_gym.action_sets import ActionSets
from sas_gym.action_sets._plain import as_plain
from sas_gym.envs._single import SASEnv
from sas_gym.envs._vector import SASVectorEnv
from sas_gym.masks import MASK_KEY
from sas_gym.tasks._tabular import TabularSASMDP
from sas_gym.tasks._task import Task, TaskSolution

AnyEnv = gym.Env[Any, Any] | VectorEnv[Any, Any, Any]
ProblemLike = Task | AnyEnv | str
"""A task, an environment of `sas_gym` (wrapped or not, single or vector), or an id."""


class Problem:
    """A task with the action sets and the time limit under which it is played.

    Args:
        problem: A task, an environment of `sas_gym` or an id.

    Raises:
        ValueError: If it is something else.
    """

    def __init__(self, problem: ProblemLike) -> None:
        if isinstance(problem, str):
            problem = gym.make(problem)
        self.mask_in_observation = True
        self._env: SASEnv | SASVectorEnv | None = None
        self.action_sets: ActionSets
        if isinstance(problem, Task):
            self.task, self.action_sets = problem, problem.action_sets
            self.max_episode_steps = getattr(problem, "horizon", None)
            return
        inner = getattr(problem, "unwrapped", None)
        if not isinstance(inner, SASEnv | SASVectorEnv):
            raise ValueError(
                "expected a task of sas_gym, an environment of one (such as "
                "gymnasium.make returns it) or its id, such as "
                f"'SAS/SanFrancisco-v0'; got {problem!r}"
            )
        self._env = inner
        self.task = inner.task
        self.action_sets = inner.action_sets
        space = getattr(problem, "single_observation_space", problem.observation_space)
        self.mask_in_observation = MASK_KEY in getattr(space, "spaces", {})
        self.max_episode_steps = _limit(problem, inner)

    @property
    def name(self) -> str:
        """Name of the task's class."""
        return type(self.task).__name__

    def tabular(self, gamma: float | None = None) -> TabularSASMDP | None:
        """Return the problem as arrays, or `None` if its task has no such form.

        Args:
            gamma: Discount; by default the discount of the arrays, 1 unless the task
                says otherwise.
        """
        mdp = self.task.tabular()
        if mdp is None:
            return None
        changes: dict[str, Any] = {} if gamma is None else {"gamma": gamma}
        if self._env is not None:
            changes |= {
                "action_sets": self.action_sets,
                "horizon": self.max_episode_steps,
            }
        return mdp.replace(**changes)

    def own_solution(self) -> TaskSolution | None:
        """Return the solution of the task's own solver, if it holds here."""
        limit_may_cut = self.max_episode_steps is not None and not self.task.always_ends
        if limit_may_cut or self._has_other_sets:
            return None
        return self.task.solve()

    @property
    def _has_other_sets(self) -> bool:
        """Whether the action sets are not the task's own."""
        own = self.task.action_sets
        if self.task.rules_decide or self.action_sets is own:
            return False
        return bool(as_plain(own.fit(self.task)) != as_plain(self.action_sets))

    def required_tabular(self, gamma: float | None = None) -> TabularSASMDP:
        """Return the problem as arrays, or say that its task has no such form."""
        mdp = self.tabular(gamma)
        if mdp is None:
            raise ValueError(
                f"{self.name} has no tabular form: number its states (num_states) and "
                "define tabular() in its class"
            )
        return mdp


def _limit(problem: Any, inner: SASEnv | SASVectorEnv) -> int | None:
    """Return the number of steps after which an episode is truncated, if any."""
    if isinstance(inner, SASVectorEnv):
        return inner.max_episode_steps
    return time_limit(problem)
