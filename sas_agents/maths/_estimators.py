"""The paper's mathematics as pure functions."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sas_agents._fast import row_dots, weighted_exponentials
from sas_gym._types import Array, NDArray


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


class ChangedPolicy(NamedTuple):
    """A policy after a change of its logits.

    Its probabilities are not divided by their sums: for 100 actions that would take as
    long as a matrix product.
    """

    weights: Float[NDArray[Any], "B A"]
    """Probabilities up to a factor for each row."""
    totals: Float[NDArray[Any], " B"]
    """The sums of the weights."""
    kl: float
    """Mean KL divergence from the policy before, given the action sets."""


def changed_policy(
    probs: Float[NDArray[Any], "B A"], change: Float[NDArray[Any], "B A"]
) -> ChangedPolicy:
    """Return a policy whose logits have changed.

    What is unavailable stays so: its probability is 0 before and after.

    Args:
        probs: The policy before.
        change: The new logits minus the old ones.
    """
    weights, totals, log_totals = weighted_exponentials(probs, change)
    kl = float(log_totals.sum() - np.vdot(probs, change)) / len(probs)
    return ChangedPolicy(weights, totals, kl)


def clipped_gradient(
    policy: ChangedPolicy,
    old_probs: Float[NDArray[Any], "B A"],
    actions: Int[NDArray[Any], " B"],
    advantage: Float[NDArray[Any], " B"],
    clip_range: float | None,
) -> Float[NDArray[Any], "B A"]:
    """Gradient of the mean of -min(ratio A, clip(ratio) A) in the logits.

    The ratio is that of the new to the old probability of the action taken. Where it is
    1, the gradient is that of -log pi times the advantage A; elsewhere it is weighted
    by importance, and 0 where the policy has already moved as far as it may (Schulman
    et al., 2017).

    Args:
        policy: The policy.
        old_probs: The policy that played.
        actions: Actions taken.
        advantage: Their advantages.
        clip_range: How far the ratio may be from 1; None for any distance.
    """
    weights, totals, _ = policy
    cells = np.arange(len(actions)) * weights.shape[1] + actions
    ratio = weights.take(cells) / (totals * old_probs.take(cells))
    factors = ratio * advantage / len(actions)
    if clip_range is not None:
        factors *= (ratio - 1) * np.sign(advantage) <= clip_range
    gradient: NDArray[Any] = weights * (factors / totals)[:, None]
    gradient.reshape(-1)[cells] -= factors
    return gradient


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
    diagonal: Float[NDArray[Any], "..."] | None = None,
) -> Float[NDArray[Any], "..."]:
    """Solve product(x) = target, for a positive semi-definite matrix.

    Args:
        product: Multiplies the matrix with a vector, which may have any shape.
        target: The right-hand side.
        num_steps: Largest number of products.
        diagonal: The matrix's diagonal, by which the steps are scaled if it is given: a
            diagonal matrix then takes one step. Where it is 0 the solution is 0.
    """

    def scaled(vector: Array) -> Array:
        if diagonal is None:
            return vector
        quotients = np.zeros_like(vector)
        np.divide(vector, diagonal, out=quotients, where=diagonal > 0)
        return quotients

    solution, residual = np.zeros_like(target), target
    direction = scaled(residual)
    size = np.vdot(residual, direction)
    enough = 1e-10 * size
    for _ in range(num_steps):
        if size <= enough:
            break
        image = product(direction)
        step = size / np.vdot(direction, image)
        solution, residual = solution + step * direction, residual - step * image
        rest = scaled(residual)
        before, size = size, np.vdot(residual, rest)
        direction = rest + size / before * direction
    return solution


def damped_least_squares(
    multiply: Callable[[NDArray[Any]], NDArray[Any]],
    multiply_transposed: Callable[[NDArray[Any]], NDArray[Any]],
    target: Float[NDArray[Any], " B"],
    damping: float,
    num_steps: int,
    diagonal: Float[NDArray[Any], " P"] | None = None,
) -> Float[NDArray[Any], " P"]:
    """Minimise |target - J x|^2 + damping |x|^2 by conjugate gradients from 0.

    Args:
        multiply: Multiplies the matrix J with a vector.
        multiply_transposed: Multiplies its transpose with a vector.
        target: The target.
        damping: Weight of the size of x.
        num_steps: Largest number of steps.
        diagonal: The diagonal of J'J, if the steps are to be scaled by it.
    """

    def product(vector: Array) -> Array:
        return multiply_transposed(multiply(vector)) + damping * vector

    if diagonal is not None:
        diagonal = diagonal + damping
    return conjugate_gradients(
        product, multiply_transposed(target), num_steps, diagonal
    )
