"""Softmax, sampling and masking over the available actions, as pure functions."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch as th
from jaxtyping import Float, Int, Shaped
from numpy.random import Generator

from sas_gym._types import NDArray

# Far below every logit, and far enough from the end of single precision.
_UNAVAILABLE = np.float32(-1e38)
# A best value beyond this comes from weights that have diverged.
_LARGEST_VALUE = 1e38
# As an array, as NumPy takes longer over a number.
_NEVER = np.array(-np.inf)
# Numbers that Gumbel noise is drawn for at once.
_NOISE_AT_ONCE = 2048
# Rows at least this long are multiplied one by one: for 100 actions that takes two
# thirds of the time, and needs no array for the products.
_LONG_ROW = 64
# Logits up to this have exponentials that are far from the ends of single precision.
_LARGE = 60.0


def mask_out(
    values: Float[th.Tensor, "B A"], action_mask: Shaped[th.Tensor, "B A"]
) -> Float[th.Tensor, "B A"]:
    """Set the logits or action values of unavailable actions to minus infinity.

    For 100 actions the sum, with 1 - 1/1 or 1 - 1/0, takes a sixth of the time of
    `masked_fill`.
    """
    return values + (1 - action_mask.to(values.dtype).reciprocal())


def available_values(
    values: Float[th.Tensor, "B A"], action_mask: Shaped[th.Tensor, "B A"]
) -> Float[th.Tensor, "B A"]:
    """Return the logits or values of available actions, and minus infinity elsewhere.

    Raises:
        ValueError: If the best value of a row is NaN, infinite or beyond 1e38, or if
            a row has no available action.
    """
    available = values.where(action_mask == 1, -th.inf)
    if not (available.amax(dim=1).abs() <= _LARGEST_VALUE).all():
        raise ValueError(
            "the logits or values of the available actions are not finite (NaN, "
            "infinite or beyond 1e38), or no action is available: check the "
            "observations, the weights and the masks, or train again with a lower "
            "learning_rate"
        )
    return available


def masked_log_probs(
    logits: Float[th.Tensor, "B A"], action_mask: Shaped[th.Tensor, "B A"]
) -> Float[th.Tensor, "B A"]:
    """Log of the softmax over the available actions; minus infinity elsewhere.

    The shift that keeps it from overflowing is the maximum over the available actions:
    by that over all of them, whatever is available could underflow to 0 / 0.
    """
    return mask_out(logits, action_mask).log_softmax(dim=1)


def chosen_log_probs(
    log_probs: Float[th.Tensor, "B A"], actions: Int[th.Tensor, " B"]
) -> Float[th.Tensor, " B"]:
    """Log probability of the action that was taken in each row."""
    return log_probs.gather(1, actions[:, None])[:, 0]


def sample(probs: Float[th.Tensor, "B A"], rng: Generator) -> Int[th.Tensor, " B"]:
    """Draw one action per row of probabilities.

    The shortest of exponential waiting times with these rates is drawn, so that an
    action of probability 0 never is.
    """
    drawn = rng.standard_exponential(tuple(probs.shape))
    waiting = th.as_tensor(drawn, dtype=probs.dtype, device=probs.device)
    return (probs / waiting.clamp_min(th.finfo(probs.dtype).tiny)).argmax(dim=-1)


def mask_bias(
    action_mask: Shaped[NDArray[Any], "B A"],
) -> Float[NDArray[np.float32], "B A"]:
    """Return what removes unavailable actions when it is added to logits or values.

    It is finite, so that it needs no care in products with 0. For 100 actions the sum
    takes a sixth of the time of `np.where`.
    """
    bias: NDArray[np.float32]
    bias = (1 - action_mask.astype(np.int8, copy=False)) * _UNAVAILABLE
    return bias


def row_sums(values: Float[NDArray[Any], "B A"]) -> Float[NDArray[Any], " B"]:
    """Sum each row, by a matrix product: `sum` takes 5 to 13 times as long."""
    sums: NDArray[Any] = values.dot(np.ones(values.shape[1], values.dtype))
    return sums


def row_dots(
    one: Float[NDArray[Any], "B A"], other: Float[NDArray[Any], "B A"]
) -> Float[NDArray[Any], " B"]:
    """Return the inner product of each pair of rows.

    For few actions `vecdot` and `einsum` take two to three times as long.
    """
    if one.shape[1] >= _LONG_ROW:
        dots: NDArray[Any] = np.vecdot(one, other)
        return dots
    return row_sums(one * other)


def weighted_exponentials(
    weights: Shaped[NDArray[Any], "B A"], logits: Float[NDArray[Any], "B A"]
) -> tuple[Float[NDArray[Any], "B A"], Float[NDArray[Any], " B"], NDArray[Any]]:
    """Return weights * exp(logits), the sums of its rows, and the logs of these sums.

    Rows with logits that are large are returned divided by a common factor, which only
    the logs contain: that of the largest logit whose weight is not 0. By the largest of
    all, whatever is available could underflow to 0 / 0.

    Args:
        weights: The action sets, or an earlier policy.
        logits: The logits of all actions.
    """
    shift = np.zeros(1, dtype=logits.dtype)
    if not all_below(logits, _LARGE):
        available = np.where(weights > 0, logits, -np.inf)
        shift = available.max(axis=1).astype(logits.dtype, copy=False)
        logits = available - shift[:, None]
    exponentials = np.exp(logits)
    exponentials *= weights
    totals = row_sums(exponentials)
    return exponentials, totals, shift + np.log(totals)


def all_below(values: Float[NDArray[Any], "B A"], bound: float) -> bool:
    """Return whether the size of every value is below a bound; that of NaN is not.

    It takes a tenth of the time of the largest of each row.
    """
    # No value is larger than the norm of all, which takes a third of the time.
    if np.vdot(values, values) < bound**2:
        return True
    return bool(values.max() < bound and values.min() > -bound)


def masked_softmax(
    logits: Float[NDArray[Any], "B A"], action_mask: Shaped[NDArray[Any], "B A"]
) -> tuple[Float[NDArray[Any], "B A"], Float[NDArray[Any], " B"]]:
    """Return the softmax over the available actions, and the log of what it divides by.

    The latter is that of the sum of their exponentials.
    """
    probs, totals, log_totals = weighted_exponentials(action_mask, logits)
    probs /= totals[:, None]
    return probs, log_totals


def gumbel_noise(
    shape: tuple[int, ...], rng: Generator
) -> Iterator[Float[NDArray[np.float64], "N A"]]:
    """Yield independent Gumbel noise, one array per step.

    Small arrays are drawn many at once, as NumPy's overhead is per call.
    """
    num_steps = max(_NOISE_AT_ONCE // math.prod(shape), 1)
    while True:
        # Minus the log of an exponential variable; NumPy's own takes two logs for each.
        drawn = rng.standard_exponential((num_steps, *shape))
        yield from -np.log(drawn)


def sample_softmax(
    logits: Float[NDArray[Any], "N A"],
    action_mask: Shaped[NDArray[Any], "N A"],
    noise: Float[NDArray[np.float64], "N A"],
) -> Int[NDArray[np.intp], " N"]:
    """Draw one action per row from the masked softmax of its logits.

    The largest of logits to which independent Gumbel noise is added has exactly that
    distribution.
    """
    noisy = logits.astype(noise.dtype)  # else NumPy converts them slowly
    noisy += noise
    best: NDArray[np.intp] = np.where(action_mask, noisy, _NEVER).argmax(axis=1)
    return best


def best_actions(
    values: Float[NDArray[Any], "N A"], action_mask: Shaped[NDArray[Any], "N A"]
) -> Int[NDArray[np.intp], " N"]:
    """Return the available action of the largest value in each row.

    For 100 actions NumPy's `argmax` takes a seventh of the time of torch's.
    """
    shifted = mask_bias(action_mask)
    shifted += values
    best: NDArray[np.intp] = shifted.argmax(axis=1)
    return best
