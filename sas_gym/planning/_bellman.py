"""Bellman's equation of a SAS-MDP: values of actions, and of states under a policy."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy import sparse
from scipy.sparse.linalg import splu

from sas_gym._types import Floats, Mask
from sas_gym.action_sets._action_probs import best_action_probs, mean_value
from sas_gym.action_sets._base import some
from sas_gym.planning._policies import DecisionListPolicy
from sas_gym.tasks._routing import can_reach
from sas_gym.tasks._tabular import TabularSASMDP
from sas_gym.tasks._task import Task


@dataclass(frozen=True)
class Solution:
    """The values and the policy that a planner finds.

    With a horizon T the values and action values have one more axis in front, the step:
    T + 1 rows of values (the last is 0) and T of action values.
    """

    values: Float[Floats, "*T1 S"]
    """Value of each state."""
    q_values: Float[Floats, "*T S A"]
    """Value of each action; minus infinity where it is not possible."""
    mean_return: float
    """Mean value of the start."""
    possible_actions: Bool[Mask, "S A"]
    """Actions that each state has."""
    task: Task | None = None
    """The task, which names states and actions."""

    @property
    def policy(self) -> DecisionListPolicy:
        """The policy that takes the best available action."""
        return DecisionListPolicy.from_preferences(
            self.q_values, self.possible_actions, self.task
        )


def solution(
    mdp: TabularSASMDP, values: Float[Floats, "*T1 S"], q: Float[Floats, "*T S A"]
) -> Solution:
    """Return values and action values as a solution, if they are finite."""
    if not np.isfinite(values).all():
        raise ValueError(
            "the values are not finite: the rewards are too large, or some policy goes "
            "on for ever; rescale the rewards, or set gamma < 1 or a horizon"
        )
    return Solution(
        values,
        np.where(mdp.possible_actions, q, -np.inf),
        # With a horizon an episode starts at the first step.
        float(mdp.initial_distribution @ (values if values.ndim == 1 else values[0])),
        mdp.possible_actions,
        mdp,
    )


def action_values(
    mdp: TabularSASMDP, values: Float[Floats, " S"]
) -> Float[Floats, "S A"]:
    """Return q(s, a) = r + gamma P v; without meaning where a is not possible in s."""
    ahead = (mdp.transition_matrix @ values).reshape(mdp.reward.shape)
    q: Floats = mdp.reward + mdp.gamma * ahead
    return q


def optimal_backup(
    mdp: TabularSASMDP, values: Float[Floats, " S"]
) -> tuple[Float[Floats, " S"], Float[Floats, "S A"]]:
    """Apply Bellman's optimality operator.

    Returns:
        The new values, and the probability of each action under the greedy policy.
    """
    q = action_values(mdp, values)
    greedy = best_action_probs(mdp.action_sets, q, mdp.possible_actions)
    return zero_terminal(mdp, mean_value(greedy, q)), greedy


def evaluate(
    mdp: TabularSASMDP, action_probs: Float[Floats, "S A"]
) -> Float[Floats, " S"]:
    """Solve v = r_pi + gamma P_pi v for the values of a policy."""
    return discounted_sums(mdp, action_probs, (action_probs * mdp.reward).sum(axis=1))


def discounted_sums(
    mdp: TabularSASMDP,
    action_probs: Float[Floats, "S A"],
    gains: Float[Floats, "S *K"],
) -> Float[Floats, "S *K"]:
    """Sum up the gains of the states visited from now on, discounted.

    Args:
        mdp: The SAS-MDP; its horizon is ignored.
        action_probs: Probability of each action.
        gains: Gain of a visit to each state: one number, or several.

    Raises:
        ValueError: If there is no discount and some state never comes to an end.
    """
    matrix = policy_transitions(mdp, action_probs)
    if mdp.gamma == 1:
        check_ends(mdp, matrix, "under this policy")
    system = sparse.eye_array(mdp.num_states) - mdp.gamma * matrix
    # Ordered as for a symmetric matrix: where one can go, one can mostly return. In
    # games one cannot, and where every move lowers the state's number nothing fills up.
    order = "NATURAL" if _lowers_the_number(matrix) else "MMD_AT_PLUS_A"
    factors = splu(system.tocsc(), permc_spec=order)
    sums: Floats = factors.solve(zero_terminal(mdp, gains))
    return sums


def _lowers_the_number(matrix: sparse.csr_array) -> bool:
    """Return whether every transition leads to a state of a lower number."""
    tail, head = matrix.nonzero()
    return bool((head < tail).all())


def policy_transitions(
    mdp: TabularSASMDP, action_probs: Float[Floats, "S A"]
) -> sparse.csr_array:
    """Return the transition matrix under a policy; 0 out of terminal states."""
    num_states, num_actions = action_probs.shape
    weights = np.where(mdp.is_terminal[:, None], 0.0, action_probs).ravel()
    row_ends = np.arange(0, action_probs.size + 1, num_actions)
    average = sparse.csr_array(
        (weights, np.arange(action_probs.size), row_ends),
        shape=(num_states, action_probs.size),
    )
    matrix: sparse.csr_array = average @ mdp.transition_matrix
    matrix.eliminate_zeros()
    return matrix


def check_ends(mdp: TabularSASMDP, matrix: sparse.csr_array, when: str) -> None:
    """Check that a terminal state can be reached from every state.

    In a finite Markov chain it is then reached with probability 1.
    """
    tail, head = matrix.nonzero()
    terminal = np.flatnonzero(mdp.is_terminal)
    endless = np.flatnonzero(~can_reach(terminal, tail, head, mdp.num_states))
    if endless.size:
        raise ValueError(
            f"without a discount every episode must end, but {when} no terminal state "
            f"is reached from states {some(endless)}: set gamma < 1 or a horizon"
        )


def zero_terminal(
    mdp: TabularSASMDP, values: Float[Floats, "S *K"]
) -> Float[Floats, "S *K"]:
    """Set the values of terminal states to 0."""
    return np.where(mdp.is_terminal, 0.0, values.T).T
