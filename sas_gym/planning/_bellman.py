"""Bellman's equation of a SAS-MDP: values of actions, and of states under a choice."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import splu

from sas_gym.action_sets import Floats, Ints, Mask
from sas_gym.action_sets._base import some
from sas_gym.planning._action_probs import best_action_probs, mean_value
from sas_gym.planning._policies import DecisionListPolicy
from sas_gym.planning._tabular import TabularSASMDP


@dataclass(frozen=True)
class Solution:
    """What a planner finds.

    With a horizon T every array has a first axis more, the step: T + 1 rows of values
    (the last is 0) and T of action values.
    """

    values: Floats
    """Value of each state, [S] or [T + 1, S]."""
    q_values: Floats
    """Value of each action, [S, A] or [T, S, A]; minus infinity for a lacking one."""
    mean_return: float
    """Mean value of the start."""

    @property
    def policy(self) -> DecisionListPolicy:
        """The policy that takes the best available action."""
        return DecisionListPolicy.from_preferences(self.q_values)


def solution(mdp: TabularSASMDP, values: Floats) -> Solution:
    """Complete the values [S] of an infinite horizon to a solution."""
    mean_return = float(mdp.initial_distribution @ values)
    return Solution(values, action_values(mdp, values), mean_return)


def action_values(mdp: TabularSASMDP, values: Floats) -> Floats:
    """Return q(s, a) = r + gamma P v, [S, A]; minus infinity for a lacking action."""
    ahead = (mdp.transition_matrix @ values).reshape(mdp.reward.shape)
    return np.where(mdp.possible_actions, mdp.reward + mdp.gamma * ahead, -np.inf)


def optimal_backup(mdp: TabularSASMDP, values: Floats) -> tuple[Floats, Floats]:
    """Apply Bellman's optimality operator.

    Returns:
        The new values [S] and the chance of each action under the best choice [S, A].
    """
    q = action_values(mdp, values)
    choice = best_action_probs(mdp.action_sets, q)
    return zero_terminal(mdp, mean_value(choice, q)), choice


def evaluate_choice(mdp: TabularSASMDP, choice: Floats) -> Floats:
    """Solve v = r_pi + gamma P_pi v for the values [S] of choices [S, A]."""
    return discounted_sums(mdp, choice, (choice * mdp.reward).sum(axis=1))


def discounted_sums(mdp: TabularSASMDP, choice: Floats, gains: Floats) -> Floats:
    """Sum up what is gained in each state met from now on, discounted.

    Args:
        mdp: The SAS-MDP, whose horizon is not looked at.
        choice: Chance of each action, [S, A].
        gains: What each state gives, [S], or several such, [S, K].

    Raises:
        ValueError: If there is no discount and some state never comes to an end.
    """
    matrix = policy_transitions(mdp, choice)
    if mdp.gamma == 1:
        check_ends(mdp, matrix, "under this policy")
    system = sparse.eye_array(mdp.num_states) - mdp.gamma * matrix
    # Ordered as for a symmetric matrix: where one can go, one can mostly return.
    factors = splu(system.tocsc(), permc_spec="MMD_AT_PLUS_A")
    sums: Floats = factors.solve(zero_terminal(mdp, gains))
    return sums


def policy_transitions(mdp: TabularSASMDP, choice: Floats) -> sparse.csr_array:
    """Return the Markov chain between the states, [S, S]; out of a terminal one: 0."""
    num_states, num_actions = choice.shape
    weights = np.where(mdp.is_terminal[:, None], 0.0, choice).ravel()
    row_ends = np.arange(0, choice.size + 1, num_actions)
    average = sparse.csr_array(
        (weights, np.arange(choice.size), row_ends), shape=(num_states, choice.size)
    )
    matrix: sparse.csr_array = average @ mdp.transition_matrix
    matrix.eliminate_zeros()
    return matrix


def check_ends(mdp: TabularSASMDP, matrix: sparse.csr_array, when: str) -> None:
    """Check that a terminal state can be reached from every state.

    In a finite chain it is then reached with probability 1.
    """
    endless = np.flatnonzero(~_reaches(matrix, np.flatnonzero(mdp.is_terminal)))
    if endless.size:
        raise ValueError(
            f"without a discount every state must come to an end, but {when} no "
            f"terminal state is reached from states {some(endless)}: give gamma < 1 or "
            "a horizon"
        )


def zero_terminal(mdp: TabularSASMDP, values: Floats) -> Floats:
    """Set the values [S] or [S, K] of terminal states to 0."""
    return np.where(mdp.is_terminal, 0.0, values.T).T


def _reaches(matrix: sparse.csr_array, targets: Ints) -> Mask:
    """Return which states of a chain can reach a target, [S], by a search from them."""
    size = matrix.shape[0]
    source = np.full(len(targets), size)
    step = matrix.tocoo()
    tail = np.concatenate([step.coords[1], source])
    head = np.concatenate([step.coords[0], targets])
    backwards = sparse.csr_array(
        (np.ones(len(tail)), (tail, head)), shape=(size + 1, size + 1)
    )
    found = csgraph.breadth_first_order(backwards, size, return_predecessors=False)
    reaches = np.zeros(size + 1, dtype=bool)
    reaches[found] = True
    return reaches[:size]
