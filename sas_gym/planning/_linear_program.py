"""The linear program of a SAS-MDP, by constraint generation."""

import numpy as np
from jaxtyping import Bool, Float
from scipy import sparse
from scipy.optimize import linprog

from sas_gym._types import Floats, Mask
from sas_gym.action_sets._action_probs import uniform_action_probs
from sas_gym.planning._bellman import (
    Solution,
    action_values,
    optimal_backup,
    policy_transitions,
    solution,
)
from sas_gym.tasks._tabular import TabularSASMDP

# The tightest that HiGHS takes.
_FEASIBILITY = 1e-10

Constraints = tuple[sparse.csr_array, Floats]
"""The two sides of inequalities: a matrix and a vector."""


def linear_program(
    mdp: TabularSASMDP, tolerance: float = 1e-9, max_rounds: int = 1000
) -> Solution:
    """Find the least values that no decision list can improve.

    Minimise the sum of v subject to v(s) >= r_pi(s) + gamma P_pi(s) v for every state s
    and every ranking pi of its actions (Boutilier et al., 2018). There are |A|! of
    these per state. So the program is solved with a few of them; the ranking that
    violates its constraint most is found by sorting the action values, and its
    constraint added; until none is violated.

    Args:
        mdp: The SAS-MDP, without a horizon.
        tolerance: Largest violation of a constraint that is left.
        max_rounds: Number of rounds after which to give up.
    """
    if mdp.horizon is not None:
        raise ValueError(
            "the linear program is that of an infinite horizon: remove the horizon "
            "with `mdp.replace(horizon=None)`"
        )
    everywhere = ~mdp.is_terminal
    # Those of one policy that comes to an end already bound the values from below.
    action_probs = uniform_action_probs(mdp.action_sets, mdp.possible_actions)
    blocks = [_constraints(mdp, action_probs, everywhere)]
    for _ in range(max_rounds):
        v = _least_values(mdp, blocks)
        new, greedy = optimal_backup(mdp, v)
        violated = new - v > tolerance
        if not violated.any():
            return solution(mdp, v, action_values(mdp, v))
        blocks.append(_constraints(mdp, greedy, violated))
    raise RuntimeError(f"the linear program has not converged in {max_rounds} rounds")


def _constraints(
    mdp: TabularSASMDP, action_probs: Float[Floats, "S A"], states: Bool[Mask, " S"]
) -> Constraints:
    """Return (gamma P_pi - I) v <= -r_pi in some states."""
    left = mdp.gamma * policy_transitions(mdp, action_probs) - sparse.eye_array(
        mdp.num_states
    )
    right = -(action_probs * mdp.reward).sum(axis=1)
    return left.tocsr()[np.flatnonzero(states)], right[states]


def _least_values(mdp: TabularSASMDP, blocks: list[Constraints]) -> Float[Floats, " S"]:
    """Solve the program with the constraints so far."""
    bound = np.where(mdp.is_terminal, 0.0, np.inf)
    result = linprog(
        np.ones(mdp.num_states),
        A_ub=sparse.vstack([left for left, _ in blocks]),
        b_ub=np.concatenate([right for _, right in blocks]),
        bounds=np.stack([-bound, bound], axis=1),
        method="highs-ds",
        options={
            "primal_feasibility_tolerance": _FEASIBILITY,
            "dual_feasibility_tolerance": _FEASIBILITY,
        },
    )
    if not result.success:
        raise RuntimeError(f"HiGHS did not solve the program: {result.message}")
    values: Floats = result.x
    return values
