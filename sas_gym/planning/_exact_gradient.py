"""Exact objective, gradient and Fisher matrix of a masked-softmax policy.

Everything is a sum over states, sets and actions, written out: for small SAS-MDPs.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from sas_gym._types import Floats, Mask
from sas_gym.action_sets._action_probs import mean_value
from sas_gym.action_sets._set_lists import enumerate_sets
from sas_gym.planning._bellman import (
    action_values,
    evaluate,
    policy_transitions,
    zero_terminal,
)
from sas_gym.tasks._tabular import TabularSASMDP

# Relative to the largest eigenvalue of a Fisher matrix: one below this is 0.
_SINGULAR = 1e-10


@dataclass(frozen=True)
class Enumeration:
    """A masked-softmax policy on a SAS-MDP, written out case by case.

    The axes are T steps (a single one for an infinite horizon), S states, K sets,
    A actions and D parameters.
    """

    weights: Float[Floats, "T S K A"]
    """Sum over time of gamma^t times the probability of each case."""
    score: Float[Floats, "S K A P"]
    """Gradient of log pi by the parameters."""
    probs: Float[Floats, "S K A"]
    """The policy pi."""
    q_values: Float[Floats, "T S A"]
    """Value of each action; without meaning where it is not possible (weight 0)."""
    objective: float
    """Mean return J, discounted."""


def enumerate_policy(
    mdp: TabularSASMDP,
    theta: Float[Floats, "F A"],
    features: Float[Floats, "S F"] | None = None,
) -> Enumeration:
    """Write out the policy that is softmax in phi(s)^T theta over the available set.

    Args:
        mdp: A small SAS-MDP, with a horizon or without.
        theta: Parameters.
        features: Features phi of each state; one-hot by default.
    """
    phi = np.eye(mdp.num_states) if features is None else features
    masks, set_probs = enumerate_sets(mdp.action_sets, mdp.possible_actions)
    probs = masked_softmax((phi @ theta)[:, None], masks)
    cases = set_probs[..., None] * probs
    occupancy, q, objective = _rollout(mdp, cases.sum(axis=1))
    # d log pi(a) / d theta[f, b] = phi_f (1[a = b] - pi(b)).
    by_logits = np.eye(mdp.num_actions) - probs[:, :, None]
    score = phi[:, None, None, :, None] * by_logits[..., None, :]
    return Enumeration(
        occupancy[:, :, None, None] * cases,
        score.reshape(*probs.shape, -1),
        probs,
        q,
        objective,
    )


def masked_softmax(
    logits: Float[Floats, "S 1 A"], masks: Bool[Mask, "K A"]
) -> Float[Floats, "S K A"]:
    """Softmax over the available actions, exactly 0 elsewhere."""
    masked = np.where(masks, logits, -np.inf)
    powers = np.exp(masked - masked.max(axis=-1, keepdims=True))
    probs: Floats = powers / powers.sum(axis=-1, keepdims=True)
    return probs


def policy_gradient(cases: Enumeration) -> Float[Floats, " P"]:
    """Gradient of J by Lemma 1 of Chandak et al. (2020)."""
    weighted = (cases.weights * cases.q_values[:, :, None]).sum(axis=0)
    gradient: Floats = np.einsum("ska,skad->d", weighted, cases.score)
    return gradient


def fisher_matrix(cases: Enumeration) -> Float[Floats, "P P"]:
    """Fisher matrix by Property 1 of Chandak et al. (2020)."""
    weights = cases.weights.sum(axis=0)
    score = cases.score.reshape(weights.size, -1)
    fisher: Floats = (score * weights.reshape(-1, 1)).T @ score
    return fisher


def natural_gradient(cases: Enumeration) -> Float[Floats, " P"]:
    """Shortest of the natural gradients.

    The Fisher matrix is singular: to raise all logits of a state changes no policy. The
    natural gradients are the solutions w of F w = grad J, and this one has no part in
    the null space of F.
    """
    inverse = np.linalg.pinv(fisher_matrix(cases), rcond=_SINGULAR, hermitian=True)
    return inverse @ policy_gradient(cases)


def _rollout(
    mdp: TabularSASMDP, action_probs: Float[Floats, "S A"]
) -> tuple[Float[Floats, "T S"], Float[Floats, "T S A"], float]:
    """Return the discounted occupancy, the action values, and J."""
    mu = mdp.initial_distribution
    moves = mdp.gamma * policy_transitions(mdp, action_probs).toarray()
    if mdp.horizon is None:
        values = evaluate(mdp, action_probs)
        system = np.eye(mdp.num_states) - moves.T
        occupancy = zero_terminal(mdp, np.linalg.solve(system, mu))
        return occupancy[None], action_values(mdp, values)[None], float(mu @ values)
    occupancies, q_values = [mu], []
    for _ in range(mdp.horizon - 1):
        occupancies.append(zero_terminal(mdp, moves.T @ occupancies[-1]))
    values = np.zeros(mdp.num_states)
    for _ in range(mdp.horizon):
        q_values.append(action_values(mdp, values))
        values = zero_terminal(mdp, mean_value(action_probs, q_values[-1]))
    return np.array(occupancies), np.array(q_values[::-1]), float(mu @ values)
