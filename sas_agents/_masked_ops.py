"""Softmax, sampling and masking over the available actions, as pure functions."""

import math
from typing import Any

import numpy as np
import torch as th
from jaxtyping import Float, Int, Shaped
from numpy.random import Generator

from sas_gym._types import NDArray

# Far below every logit, and far enough from the end of single precision.
_UNAVAILABLE = -1e38
_UNAVAILABLE_32 = np.float32(_UNAVAILABLE)
_LOG2_E = math.log2(math.e)
# Rows shorter than this take torch 2 to 25 times as long as columns.
_SHORT_ROW = 16


def mask_out(
    values: Float[th.Tensor, "B A"], action_mask: Shaped[th.Tensor, "B A"]
) -> Float[th.Tensor, "B A"]:
    """Set the logits or action values of unavailable actions to minus infinity.

    For 100 actions the sum, with 1 - 1/1 or 1 - 1/0, takes a sixth of the time of
    `masked_fill`.
    """
    return values + (1 - action_mask.to(values.dtype).reciprocal())


def mask_bias(action_mask: Shaped[th.Tensor, "B A"]) -> Float[th.Tensor, "B A"]:
    """Return what removes unavailable actions when it is added to the logits.

    The exponential of their log probability is 0, as that of minus infinity is; but it
    is finite, and needs no care in products with 0.
    """
    return (1 - action_mask.to(th.float32)) * _UNAVAILABLE


def masked_log_probs(
    logits: Float[th.Tensor, "B A"], action_mask: Shaped[th.Tensor, "B A"]
) -> Float[th.Tensor, "B A"]:
    """Log of the softmax over the available actions; minus infinity elsewhere.

    The shift that keeps it from overflowing is the maximum over the available actions:
    by that over all of them, whatever is available could underflow to 0 / 0.
    """
    return log_softmax(mask_out(logits, action_mask))


def is_short_row(num_actions: int) -> bool:
    """Return whether an array of one row per sample is better stored by columns."""
    return num_actions < _SHORT_ROW


def log_softmax(logits: Float[th.Tensor, "B A"]) -> Float[th.Tensor, "B A"]:
    """Log of the softmax of each row.

    That of short rows lies in memory column by column, and so does what is made of it.
    """
    if not is_short_row(logits.shape[1]):
        return logits.log_softmax(dim=1)
    return logits.T.contiguous().log_softmax(dim=0).T


def exponential(log_probs: Float[th.Tensor, "B A"]) -> Float[th.Tensor, "B A"]:
    """Return the probabilities of log probabilities; 0 for the hugely negative ones.

    By way of base 2: where it underflows, torch's `exp` takes 14 times as long.
    """
    return (log_probs * _LOG2_E).exp2()


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


def sample_softmax(
    logits: Float[NDArray[Any], "N A"],
    action_mask: Shaped[NDArray[Any], "N A"],
    rng: Generator,
) -> Int[NDArray[np.intp], " N"]:
    """Draw one action per row from the masked softmax of its logits.

    The largest of logits to which independent Gumbel noise is added has exactly that
    distribution.
    """
    # Minus the log of an exponential variable; NumPy's own takes two logs for each.
    noise = np.log(rng.standard_exponential(logits.shape))
    best: NDArray[np.intp] = np.where(action_mask, logits - noise, -np.inf).argmax(
        axis=1
    )
    return best


def best_actions(
    values: Float[NDArray[Any], "N A"], action_mask: Shaped[NDArray[Any], "N A"]
) -> Int[NDArray[np.intp], " N"]:
    """Return the available action of the largest value in each row.

    For 100 actions this sum takes a sixth of the time of `np.where`, and NumPy's
    `argmax` a seventh of that of torch's.
    """
    shifted = (1 - action_mask.astype(np.int8, copy=False)) * _UNAVAILABLE_32
    shifted += values
    best: NDArray[np.intp] = shifted.argmax(axis=1)
    return best
