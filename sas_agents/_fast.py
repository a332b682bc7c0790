"""Forms that make whole training runs at least a tenth faster than their plain twins.

All of them are here. `tests/sas_agents/test_fast.py` holds each to its plain twin.
"""

from typing import Any, NamedTuple

import numpy as np
import torch as th
from jaxtyping import Float, Int, Shaped

from sas_gym._types import NDArray

# Rows at least this long are multiplied one by one, without an array of all products.
_LONG_ROW = 64
# Logits up to this have exponentials that are far from the ends of single precision.
_LARGE = 60.0
# Switches of Adam that change the form of its step.
_SWITCHES = (
    "amsgrad",
    "maximize",
    "capturable",
    "differentiable",
    "decoupled_weight_decay",
    "weight_decay",
)


def row_dots(
    one: Float[NDArray[Any], "B A"], other: Float[NDArray[Any], "B A"]
) -> Float[NDArray[Any], " B"]:
    """Return `(one * other).sum(axis=1)`."""
    if one.shape[1] >= _LONG_ROW:
        dots: NDArray[Any] = np.vecdot(one, other)
        return dots
    sums: NDArray[Any] = (one * other) @ np.ones(one.shape[1], one.dtype)
    return sums


def weighted_exponentials(
    weights: Shaped[NDArray[Any], "B A"], logits: Float[NDArray[Any], "B A"]
) -> tuple[Float[NDArray[Any], "B A"], Float[NDArray[Any], " B"], NDArray[Any]]:
    """Return weights * exp(logits), the sums of its rows, and the logs of these sums.

    Rows with large logits are divided by a common factor, the exponential of the
    largest logit whose weight is not 0; only the logs contain it. Divided by the
    largest of all logits, the available ones could underflow to 0 / 0.

    Args:
        weights: The action sets, or an earlier policy.
        logits: The logits of all actions.
    """
    shift = np.zeros(1, dtype=logits.dtype)
    # No size is larger than the norm of all. NaN is not below anything.
    if not (np.vdot(logits, logits) < _LARGE**2 or np.abs(logits).max() < _LARGE):
        available = np.where(weights > 0, logits, -np.inf)
        shift = available.max(axis=1).astype(logits.dtype)
        logits = available - shift[:, None]
    exponentials = np.exp(logits)
    exponentials *= weights
    totals: NDArray[Any] = exponentials @ np.ones(logits.shape[1], logits.dtype)
    return exponentials, totals, shift + np.log(totals)


def masked_softmax(
    logits: Float[NDArray[Any], "B A"], action_mask: Shaped[NDArray[Any], "B A"]
) -> tuple[Float[NDArray[Any], "B A"], Float[NDArray[Any], " B"]]:
    """Return the softmax over the available actions, and the logs of its divisors.

    A divisor is the sum of the exponentials of the available logits.
    """
    probs, totals, log_totals = weighted_exponentials(action_mask, logits)
    probs /= totals[:, None]
    return probs, log_totals


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


def column_sums(values: Float[NDArray[Any], "B A"]) -> Float[NDArray[Any], " A"]:
    """Return `values.sum(axis=0)`, by a matrix product."""
    sums: NDArray[Any] = np.ones(len(values), values.dtype) @ values
    return sums


def take_steps(
    array: Shaped[NDArray[Any], "T N ..."],
    steps: Int[NDArray[Any], " B"],
    envs: Int[NDArray[Any], " B"],
) -> Shaped[NDArray[Any], "B ..."]:
    """Return `array[steps, envs]`."""
    rows = array.reshape(-1, *array.shape[2:])
    taken: NDArray[Any] = rows.take(steps * array.shape[1] + envs, axis=0)
    return taken


def take_step(optimizer: th.optim.Optimizer) -> None:
    """Do `optimizer.step()`, by NumPy where it is Adam on one vector on the CPU.

    The moments stay in the optimiser's state, which can be saved and continued as ever.
    Torch makes them in its first step.
    """
    group = optimizer.param_groups[0]
    parameters: list[th.nn.Parameter] = group["params"]
    is_plain = type(optimizer) is th.optim.Adam and not any(map(group.get, _SWITCHES))
    is_one = len(parameters) == len(optimizer.param_groups) == 1
    vector = parameters[0]
    is_on_cpu = vector.device.type == "cpu"
    if not (is_plain and is_one and vector in optimizer.state and is_on_cpu):
        optimizer.step()
        return
    # Kingma and Ba, 2015.
    state = optimizer.state[vector]
    assert vector.grad is not None  # or there would be no step to take
    theta, gradient = vector.detach().numpy(), vector.grad.numpy()
    mean, square = state["exp_avg"].numpy(), state["exp_avg_sq"].numpy()
    steps = state["step"].numpy()
    steps += 1
    count, (beta1, beta2) = float(steps), group["betas"]
    mean += (1 - beta1) * (gradient - mean)
    square += (1 - beta2) * (gradient * gradient - square)
    # Both corrected by factors of the rate and of eps, which are numbers.
    correction = (1 - beta2**count) ** 0.5
    size = np.sqrt(square)
    size += group["eps"] * correction
    np.divide(mean, size, out=size)
    size *= group["lr"] * correction / (1 - beta1**count)
    theta -= size


def keep_freed_memory() -> None:
    """Let the C library keep the memory of freed arrays for the next ones.

    glibc returns blocks larger than any that was freed before to the system, which has
    to clear every new one. So one of 32 MB, the most that counts, is freed untouched.
    """
    th.empty(2**25 - 2**16, dtype=th.uint8)
