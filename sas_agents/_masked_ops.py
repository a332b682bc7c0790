"""Softmax, sampling and masking over the available actions, as pure functions."""

from typing import Any

import numpy as np
import torch as th
from jaxtyping import Float, Int, Shaped
from numpy.random import Generator

from sas_gym._types import NDArray

# Far below every logit, and far enough from the end of single precision.
_UNAVAILABLE = -1e38


def mask_out(
    values: Float[th.Tensor, "B A"], action_mask: Shaped[th.Tensor, "B A"]
) -> Float[th.Tensor, "B A"]:
    """Set the logits or action values of unavailable actions to minus infinity."""
    return values.masked_fill(action_mask == 0, -th.inf)


def mask_bias(action_mask: Shaped[th.Tensor, "B A"]) -> Float[th.Tensor, "B A"]:
    """Return what removes unavailable actions when it is added to the logits.

    The exponential of their log probability is 0, as that of minus infinity is; but it
    is finite, and needs no care in products with 0. To add it takes a third of the time
    of `mask_out`.
    """
    return th.where(action_mask == 0, _UNAVAILABLE, 0.0)


def masked_log_probs(
    logits: Float[th.Tensor, "B A"], action_mask: Shaped[th.Tensor, "B A"]
) -> Float[th.Tensor, "B A"]:
    """Log of the softmax over the available actions; minus infinity elsewhere.

    The shift that keeps it from overflowing is the maximum over the available actions:
    by that over all of them, whatever is available could underflow to 0 / 0.
    """
    return mask_out(logits, action_mask).log_softmax(dim=-1)


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
    noise = rng.gumbel(size=logits.shape)
    best: NDArray[np.intp] = np.where(action_mask, logits + noise, -np.inf).argmax(
        axis=1
    )
    return best
