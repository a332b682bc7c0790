"""The paper's mathematics as pure functions of tensors."""

import torch as th

from sas_agents._masking import mask_out


def masked_log_probs(scores: th.Tensor, action_mask: th.Tensor) -> th.Tensor:
    """Log of the softmax over the available actions, both [B, A]; -inf elsewhere.

    The shift that keeps it from overflowing is the maximum over the available actions:
    by that over all of them, whatever is available could underflow to 0 / 0.
    """
    return mask_out(scores, action_mask).log_softmax(dim=-1)


def entropy(log_probs: th.Tensor) -> th.Tensor:
    """Entropy over the available actions, [B, A] to [B]."""
    return -(log_probs.exp() * log_probs.clamp_min(-1e30)).sum(dim=-1)


def q_bar(q: th.Tensor, probs: th.Tensor) -> th.Tensor:
    """Mean action value under the policy, q and probs [B, A] to [B]."""
    return (q * probs).sum(dim=-1)


def advantages(
    returns: th.Tensor, baselines: th.Tensor, weights: th.Tensor
) -> th.Tensor:
    """Returns [B] plus the weighted baselines [B, K], for weights [K]."""
    return returns + baselines @ weights


def baseline_weights(
    score_norm: th.Tensor, returns: th.Tensor, baselines: th.Tensor, ridge: float = 1e-6
) -> th.Tensor:
    """Weights that minimise the variance of score * (return + weights . baselines).

    They are -(E[B'B])^-1 E[B'C] of the paper's Lemma 4. As the columns of B are the
    score times a baseline, and C is the score times the return, only the score's norm
    enters: a least-squares fit of the returns on the baselines, in which a sample
    counts by the squared norm of its score.

    Args:
        score_norm: Norm of each sample's score, [B].
        returns: Return of each sample, [B].
        baselines: Baseline values of each sample, [B, K].
        ridge: Term added to the diagonal, relative to its mean, so that it can be
            inverted while the baselines are equal or zero.

    Returns:
        One weight per baseline, [K].
    """
    weighted = (score_norm**2)[:, None] * baselines
    gram = (weighted.T @ baselines).double()
    cross = (weighted.T @ returns).double()
    diagonal = ridge * gram.diagonal().mean() + th.finfo(th.float64).tiny
    gram = gram + diagonal * th.eye(len(gram), dtype=gram.dtype)
    weights: th.Tensor = -th.linalg.solve(gram, cross)
    return weights.to(returns.dtype)


def gradient_variance(
    score_norm: th.Tensor, advantage: th.Tensor, mean_gradient_norm: th.Tensor
) -> th.Tensor:
    """Total variance of a sample's gradient estimate, score * advantage.

    Args:
        score_norm: Norm of each sample's score, [B].
        advantage: What it is multiplied with, [B].
        mean_gradient_norm: Norm of the mean estimate, [].
    """
    return ((score_norm * advantage) ** 2).mean() - mean_gradient_norm**2


def td_target(
    reward: th.Tensor,
    not_done: th.Tensor,
    discount: th.Tensor | float,
    next_q: th.Tensor,
    next_q_online: th.Tensor | None = None,
) -> th.Tensor:
    """Target of SAS-Q: the reward and the best *available* value that follows.

    Args:
        reward: Rewards, [B, 1].
        not_done: 1 where the episode goes on, 0 where it has ended, [B, 1].
        discount: The discount, one number or [B, 1].
        next_q: Target network's values, minus infinity where unavailable, [B, A].
        next_q_online: Online network's values likewise, if it is to choose the action
            that the target network evaluates (double Q-learning), [B, A].
    """
    if next_q_online is None:
        best = next_q.max(dim=1, keepdim=True).values
    else:
        best = next_q.gather(1, next_q_online.argmax(dim=1, keepdim=True))
    return reward + not_done * discount * best
