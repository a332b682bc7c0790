"""Softmax, sampling and masking over the available actions, as pure functions."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch as th
from jaxtyping import Float, Int, Shaped
from numpy.random import Generator

from sas_gym._types import NDArray

# A best value beyond this comes from weights that have diverged.
_LARGEST_VALUE = 1e38
# Numbers that Gumbel noise is drawn for at once.
_NOISE_AT_ONCE = 2048


def mask_out(
    values: Float[th.Tensor, "*B A"],
    action_mask: Shaped[th.Tensor, "*#B A"],
    fill: float = -math.inf,
) -> Float[th.Tensor, "*B A"]:
    """Replace the logits or action values of unavailable actions."""
    return th.where(action_mask != 0, values, fill)


def available_values(
    values: Float[th.Tensor, "B A"], action_mask: Shaped[th.Tensor, "B A"]
) -> Float[th.Tensor, "B A"]:
    """Return the logits or values of available actions, and minus infinity elsewhere.

    Raises:
        ValueError: If the best value of a row is NaN, infinite or beyond 1e38, or if
            a row has no available action.
    """
    available = mask_out(values, action_mask)
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
    return best_actions(logits + noise, action_mask)


def best_actions(
    values: Float[NDArray[Any], "N A"], action_mask: Shaped[NDArray[Any], "N A"]
) -> Int[NDArray[np.intp], " N"]:
    """Return the available action of the largest value in each row."""
    best: NDArray[np.intp] = np.where(action_mask, values, -np.inf).argmax(axis=1)
    return best
