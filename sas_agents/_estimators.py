"""The paper's mathematics as pure functions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch as th
from jaxtyping import Float, Int

from sas_agents._masked_ops import exponential
from sas_gym._types import NDArray


def entropy(
    probs: Float[th.Tensor, "B A"], log_probs: Float[th.Tensor, "B A"]
) -> Float[th.Tensor, " B"]:
    """Entropy over the available actions.

    Args:
        probs: The policy.
        log_probs: Its log, finite everywhere.
    """
    return -(probs * log_probs).sum(dim=-1)


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
    reward: Float[NDArray[Any], " B"],
    not_done: Float[NDArray[Any], " B"],
    discount: Float[NDArray[Any], " B"] | float,
    next_q: Float[NDArray[Any], " B"],
) -> Float[NDArray[Any], " B"]:
    """Target of SAS-Q: the reward and the best *available* value that follows.

    Args:
        reward: Rewards.
        not_done: 1 where the episode continues, 0 where it has ended.
        discount: The discount, one for all or one per sample.
        next_q: Values of the best available actions.
    """
    target: NDArray[Any] = reward + discount * not_done * next_q
    return target


def mean_kl(
    old_probs: Float[th.Tensor, "B A"],
    old_log_probs: Float[th.Tensor, "B A"],
    log_probs: Float[th.Tensor, "B A"],
) -> Float[th.Tensor, ""]:
    """Mean KL divergence of a policy from an older one, given the action sets.

    Args:
        old_probs: The older policy.
        old_log_probs: Its log, finite everywhere.
        log_probs: The log of the new one, finite everywhere.
    """
    return (old_probs * (old_log_probs - log_probs)).sum() / len(old_probs)


def clipped_gradient(
    log_probs: Float[th.Tensor, "B A"],
    old_log_probs: Float[th.Tensor, "B A"],
    actions: Int[th.Tensor, " B"],
    advantage: Float[th.Tensor, " B"],
    clip_range: float | None,
) -> Float[th.Tensor, "B A"]:
    """Gradient, with respect to the logits, of min(ratio A, clip(ratio) A).

    The ratio is that of the new to the old probability of the action taken. Where it is
    1, the gradient is that of log pi times the advantage A; elsewhere it is weighted by
    importance, and 0 where the policy has already moved as far as it may (Schulman et
    al., 2017).

    Args:
        log_probs: Log of the policy.
        old_log_probs: Log of the policy that played.
        actions: Actions taken.
        advantage: Their advantages.
        clip_range: How far the ratio may be from 1; None for any distance.
    """
    taken = actions[:, None]
    ratio = (log_probs.gather(1, taken) - old_log_probs.gather(1, taken)).exp()
    weight = ratio * advantage[:, None]
    if clip_range is not None:
        is_beyond = (ratio - 1) * advantage.sign()[:, None] > clip_range
        weight = weight.masked_fill(is_beyond, 0.0)
    gradient = -weight * exponential(log_probs)
    return gradient.scatter_add_(1, taken, weight)


def root_mean_square(values: Float[th.Tensor, "..."]) -> float:
    """Root of the mean square."""
    return float(values.double().square().mean().sqrt())


def unit_scale(values: Float[th.Tensor, " B"]) -> Float[th.Tensor, " B"]:
    """Divide values by their root mean square, if that is not 0.

    Nothing is added to it: so a factor that is a power of two changes no bit.
    """
    return values / (root_mean_square(values) or 1.0)


def running_scale(scale: float, size: float, rate: float) -> float:
    """Running root mean square: let a scale, 0 at the start, follow sizes.

    Args:
        scale: The scale so far.
        size: Root mean square of the new values.
        rate: Share of the scale's square that they replace.
    """
    if scale == 0.0:
        return size
    return float(np.sqrt((1 - rate) * scale**2 + rate * size**2))


def conjugate_gradients(
    product: Callable[[th.Tensor], th.Tensor],
    target: Float[th.Tensor, "..."],
    num_steps: int,
    diagonal: Float[th.Tensor, "..."] | None = None,
) -> Float[th.Tensor, "..."]:
    """Solve product(x) = target, for a positive semi-definite matrix.

    Args:
        product: Multiplies the matrix with a vector, which may have any shape.
        target: The right-hand side.
        num_steps: Largest number of products.
        diagonal: The matrix's diagonal, by which the steps are scaled if it is given: a
            diagonal matrix then takes one step.
    """

    def scaled(vector: th.Tensor) -> th.Tensor:
        return vector if diagonal is None else vector / diagonal

    solution, residual = th.zeros_like(target), target
    direction = scaled(residual)
    size = (residual * direction).sum()
    enough = 1e-10 * size
    for _ in range(num_steps):
        if size <= enough:
            break
        image = product(direction)
        step = size / (direction * image).sum()
        solution, residual = solution + step * direction, residual - step * image
        rest = scaled(residual)
        before, size = size, (residual * rest).sum()
        direction = rest + size / before * direction
    return solution
