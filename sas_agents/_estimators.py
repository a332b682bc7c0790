"""The paper's mathematics as pure functions of tensors."""

import torch as th
from jaxtyping import Float


def entropy(log_probs: Float[th.Tensor, "B A"]) -> Float[th.Tensor, " B"]:
    """Entropy over the available actions."""
    return -(log_probs.exp() * log_probs.clamp_min(-1e30)).sum(dim=-1)


def q_bar(
    q_values: Float[th.Tensor, "B A"], probs: Float[th.Tensor, "B A"]
) -> Float[th.Tensor, " B"]:
    """Mean action value under the policy, given the action set."""
    return (q_values * probs).sum(dim=-1)


def advantages(
    returns: Float[th.Tensor, " B"],
    baselines: Float[th.Tensor, "B K"],
    weights: Float[th.Tensor, " K"],
) -> Float[th.Tensor, " B"]:
    """Returns plus the weighted baselines."""
    return returns + baselines @ weights


def baseline_weights(
    score_norm: Float[th.Tensor, " B"],
    returns: Float[th.Tensor, " B"],
    baselines: Float[th.Tensor, "B K"],
    ridge: float,
) -> Float[th.Tensor, " K"]:
    """The paper's lambda, which minimises the variance of the gradient estimate.

    The estimate is score * (return + weights . baselines), and the weights are
    -(E[B'B])^-1 E[B'C] of Lemma 4. As the columns of B are the score times a baseline,
    and C is the score times the return, only the score's norm enters: a least-squares
    fit of the returns on the baselines, in which a sample is weighted by the squared
    norm of its score.

    Args:
        score_norm: Norm of each sample's score.
        returns: Return of each sample.
        baselines: Baseline values of each sample.
        ridge: Term added to the diagonal, relative to its mean, so that it can be
            inverted while the baselines are equal or zero.
    """
    weighted = (score_norm**2)[:, None] * baselines
    gram = (weighted.T @ baselines).double()
    cross = (weighted.T @ returns).double()
    diagonal = ridge * gram.diagonal().mean() + th.finfo(th.float64).tiny
    gram = gram + diagonal * th.eye(len(gram), dtype=gram.dtype)
    weights: th.Tensor = -th.linalg.solve(gram, cross)
    return weights.to(returns.dtype)


def gradient_variance(
    score_norm: Float[th.Tensor, " B"],
    advantage: Float[th.Tensor, " B"],
    mean_gradient_norm: Float[th.Tensor, ""],
) -> Float[th.Tensor, ""]:
    """Total variance of a sample's gradient estimate, score * advantage.

    Args:
        score_norm: Norm of each sample's score.
        advantage: What it is multiplied with.
        mean_gradient_norm: Norm of the mean estimate.
    """
    return ((score_norm * advantage) ** 2).mean() - mean_gradient_norm**2


def td_target(
    reward: Float[th.Tensor, "B 1"],
    not_done: Float[th.Tensor, "B 1"],
    discount: Float[th.Tensor, "B 1"] | float,
    next_q: Float[th.Tensor, "B A"],
    next_q_online: Float[th.Tensor, "B A"] | None = None,
) -> Float[th.Tensor, "B 1"]:
    """Target of SAS-Q: the reward and the best *available* value that follows.

    Args:
        reward: Rewards.
        not_done: 1 where the episode continues, 0 where it has ended.
        discount: The discount, one for all or one per sample.
        next_q: Target network's values, minus infinity where unavailable.
        next_q_online: Online network's values likewise, if it is to choose the action
            that the target network evaluates (double Q-learning).
    """
    if next_q_online is None:
        best = next_q.max(dim=1, keepdim=True).values
    else:
        best = next_q.gather(1, next_q_online.argmax(dim=1, keepdim=True))
    return reward + not_done * discount * best
