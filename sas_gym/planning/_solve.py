"""One way to solve every problem that can be solved."""

from typing import overload

from sas_gym.planning._bellman import Solution
from sas_gym.planning._dynamic_programming import plan
from sas_gym.planning._lasting import LastingSolution, solve_lasting
from sas_gym.planning._problem import Problem, ProblemLike
from sas_gym.tasks._tabular import TabularSASMDP
from sas_gym.tasks._task import TaskSolution


@overload
def solve(problem: TabularSASMDP) -> Solution: ...
@overload
def solve(problem: ProblemLike) -> Solution | LastingSolution | TaskSolution: ...
def solve(problem: ProblemLike) -> Solution | LastingSolution | TaskSolution:
    """Find the optimal return and policy, up to the horizon or time limit if any.

    Args:
        problem: A `TabularSASMDP`; or another task, an environment of `sas_gym` or its
            id, which must have a tabular form or a solver of its own.

    Returns:
        A solution with `mean_return` and `policy`: a `TaskSolution` of the task's own
        solver if it has one; a `LastingSolution` where outcomes last; else a
        `Solution`.

    Raises:
        ValueError: If there is no way to solve the problem.
    """
    found = Problem(problem)
    if isinstance(problem, TabularSASMDP):
        return _planned(problem)
    own = found.own_solution()
    return _planned(found.required_tabular()) if own is None else own


def _planned(mdp: TabularSASMDP) -> Solution | LastingSolution:
    return plan(mdp) if mdp.action_sets.is_sas_mdp else solve_lasting(mdp)
