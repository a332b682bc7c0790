"""The paper's mathematics as pure functions."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from sas_agents._fast import row_dots
from sas_gym._types import NDArray


def mean_entropy(
    logits: Float[NDArray[Any], "B A"],
    probs: Float[NDArray[Any], "B A"],
    log_totals: Float[NDArray[Any], " B"],
) -> float:
    """Mean entropy over the available actions.

    Args:
        logits: The logits.
        probs: Their softmax over the available actions.
        log_totals: The log of what it divides by.
    """
    return float((log_totals - q_bar(logits, probs)).mean())


def q_bar(
    q_values: Float[NDArray[Any], "B A"], probs: Float[NDArray[Any], "B A"]
) -> Float[NDArray[Any], " B"]:
    """Mean action value under the policy, given the action set."""
    return row_dots(q_values, probs)


def advantages(
    returns: Float[NDArray[Any], " B"],
    baselines: Float[NDArray[Any], "B L"],
    weights: Float[NDArray[Any], " L"],
) -> Float[NDArray[Any], " B"]:
    """Returns plus the weighted baselines."""
    total: NDArray[Any] = returns + baselines @ weights
    return total


def baseline_weights(
    score_norm: Float[NDArray[Any], " B"],
    returns: Float[NDArray[Any], " B"],
    baselines: Float[NDArray[Any], "B L"],
    ridge: float,
) -> Float[NDArray[np.float64], " L"]:
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
    gram = (weighted.T @ baselines).astype(np.float64)
    cross = (weighted.T @ returns).astype(np.float64)
    gram += (ridge * gram.trace() / len(gram) + np.finfo(np.float64).tiny) * np.eye(
        len(gram)
    )
    return -np.linalg.solve(gram, cross)


def gradient_variance(
    score_norm: Float[NDArray[Any], " B"],
    advantage: Float[NDArray[Any], " B"],
    mean_gradient_norm: float,
) -> float:
    """Total variance of a sample's gradient estimate, score * advantage.

    Args:
        score_norm: Norm of each sample's score.
        advantage: What it is multiplied with.
        mean_gradient_norm: Norm of the mean estimate.
    """
    return root_mean_square(score_norm * advantage) ** 2 - mean_gradient_norm**2


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


def root_mean_square(values: Float[NDArray[Any], "..."]) -> float:
    """Root of the mean square."""
    flat = values.reshape(-1).astype(np.float64)
    return float(np.sqrt(np.vdot(flat, flat) / flat.size))


def unit_scale(values: Float[NDArray[Any], " B"]) -> Float[NDArray[Any], " B"]:
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
    product: Callable[[NDArray[Any]], NDArray[Any]],
    target: Float[NDArray[Any], "..."],
    num_steps: int,
    diagonal: Float[NDArray[Any], "..."] | float = 1.0,
) -> Float[NDArray[Any], "..."]:
    """Solve product(x) = target, for a positive semi-definite matrix.

    Args:
        product: Multiplies the matrix with a vector, which may have any shape.
        target: The right-hand side.
        num_steps: Largest number of products.
        diagonal: The matrix's diagonal, by which the steps are scaled: then a diagonal
            matrix takes one step. Where it is 0 the solution is 0.
    """
    diagonal = np.where(diagonal > 0, diagonal, np.inf).astype(target.dtype)
    solution, residual = np.zeros_like(target), target
    direction = residual / diagonal
    size = np.vdot(residual, direction)
    enough = 1e-10 * size
    for _ in range(num_steps):
        if size <= enough:
            break
        image = product(direction)
        step = size / np.vdot(direction, image)
        solution, residual = solution + step * direction, residual - step * image
        rest = residual / diagonal
        before, size = size, np.vdot(residual, rest)
        direction = rest + size / before * direction
    return solution
