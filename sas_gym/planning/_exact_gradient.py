"""Exact objective, gradient and Fisher matrix of a masked-softmax policy.

Everything is a sum over states, sets and actions, and done as one: for small SAS-MDPs.
"""

from dataclasses import dataclass

import numpy as np

from sas_gym.action_sets import Floats, Mask
from sas_gym.planning._action_probs import mean_value
from sas_gym.planning._bellman import (
    action_values,
    evaluate_choice,
    policy_transitions,
    zero_terminal,
)
from sas_gym.planning._enumeration import enumerate_sets
from sas_gym.planning._tabular import TabularSASMDP

# Of the largest eigenvalue of a Fisher matrix: one below this is 0.
_SINGULAR = 1e-10


@dataclass(frozen=True)
class Enumeration:
    """A masked-softmax policy on a SAS-MDP, written out case by case.

    The axes are T steps (a single one for an infinite horizon), S states, K sets,
    A actions and D parameters.
    """

    weights: Floats
    """Sum over time of gamma^t times the chance of each case, [T, S, K, A]."""
    score: Floats
    """Gradient of log pi by the parameters, [S, K, A, D]."""
    probs: Floats
    """The policy pi, [S, K, A]."""
    q_values: Floats
    """Value of each action, [T, S, A]; 0 where a state lacks it."""
    objective: float
    """Mean return J, discounted."""


def enumerate_policy(
    mdp: TabularSASMDP, theta: Floats, features: Floats | None = None
) -> Enumeration:
    """Write out the policy that is softmax in phi(s)^T theta over the available set.

    Args:
        mdp: A small SAS-MDP, with a horizon or without.
        theta: Parameters, [F, A].
        features: Features phi of each state, [S, F]; one-hot by default.
    """
    phi = np.eye(mdp.num_states) if features is None else features
    masks, set_chances = enumerate_sets(mdp.action_sets, mdp.possible_actions)
    probs = masked_softmax((phi @ theta)[:, None], masks)
    choice = (set_chances[..., None] * probs).sum(axis=1)
    occupancy, q, objective = _rollout(mdp, choice)
    cases = set_chances[..., None] * probs
    # d log pi(a) / d theta[f, b] = phi_f (1[a = b] - pi(b)).
    by_scores = np.eye(mdp.num_actions) - probs[:, :, None]
    score = phi[:, None, None, :, None] * by_scores[..., None, :]
    return Enumeration(
        occupancy[:, :, None, None] * cases,
        score.reshape(*probs.shape, -1),
        probs,
        np.where(mdp.possible_actions, q, 0.0),
        objective,
    )


def masked_softmax(scores: Floats, masks: Mask) -> Floats:
    """Softmax over what is available, exactly 0 elsewhere; scores, masks [..., A]."""
    scores = np.where(masks, scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    probs: Floats = powers / powers.sum(axis=-1, keepdims=True)
    return probs


def policy_gradient(cases: Enumeration) -> Floats:
    """Gradient of J by Lemma 1 of Chandak et al. (2020), [D]."""
    weighted = (cases.weights * cases.q_values[:, :, None]).sum(axis=0)
    gradient: Floats = np.einsum("ska,skad->d", weighted, cases.score)
    return gradient


def fisher_matrix(cases: Enumeration) -> Floats:
    """Fisher matrix by Property 1 of Chandak et al. (2020), [D, D]."""
    weights = cases.weights.sum(axis=0)
    score = cases.score.reshape(weights.size, -1)
    fisher: Floats = (score * weights.reshape(-1, 1)).T @ score
    return fisher


def natural_gradient(cases: Enumeration) -> Floats:
    """Shortest of the natural gradients, [D].

    The Fisher matrix is singular: to raise all scores of a state changes no policy. The
    natural gradients are the solutions w of F w = grad J, and this one has no part in
    the null space of F.
    """
    inverse = np.linalg.pinv(fisher_matrix(cases), rcond=_SINGULAR, hermitian=True)
    return inverse @ policy_gradient(cases)


def _rollout(mdp: TabularSASMDP, choice: Floats) -> tuple[Floats, Floats, float]:
    """Return the discounted occupancy [T, S], action values [T, S, A], and J."""
    mu = mdp.initial_distribution
    moves = mdp.gamma * policy_transitions(mdp, choice).toarray()
    if mdp.horizon is None:
        values = evaluate_choice(mdp, choice)
        system = np.eye(mdp.num_states) - moves.T
        occupancy = zero_terminal(mdp, np.linalg.solve(system, mu))
        return occupancy[None], action_values(mdp, values)[None], float(mu @ values)
    occupancies, q_values = [mu], []
    for _ in range(mdp.horizon - 1):
        occupancies.append(zero_terminal(mdp, moves.T @ occupancies[-1]))
    values = np.zeros(mdp.num_states)
    for _ in range(mdp.horizon):
        q_values.append(action_values(mdp, values))
        values = zero_terminal(mdp, mean_value(choice, q_values[-1]))
    return np.array(occupancies), np.array(q_values[::-1]), float(mu @ values)
