"""Forms that make whole training runs at least a tenth faster than their plain twins.

All of them are here. `tests/sas_agents/test_fast.py` holds each to its plain twin.
"""

from typing import Any

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


def row_sums(values: Float[NDArray[Any], "B A"]) -> Float[NDArray[Any], " B"]:
    """Return `values.sum(axis=1)`, by a matrix product."""
    sums: NDArray[Any] = values @ np.ones(values.shape[1], values.dtype)
    return sums


def row_dots(
    one: Float[NDArray[Any], "B A"], other: Float[NDArray[Any], "B A"]
) -> Float[NDArray[Any], " B"]:
    """Return `(one * other).sum(axis=1)`."""
    if one.shape[1] >= _LONG_ROW:
        dots: NDArray[Any] = np.vecdot(one, other)
        return dots
    return row_sums(one * other)


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
    if not all_below(logits, _LARGE):
        available = np.where(weights > 0, logits, -np.inf)
        shift = available.max(axis=1).astype(logits.dtype)
        logits = available - shift[:, None]
    exponentials = np.exp(logits)
    exponentials *= weights
    totals = row_sums(exponentials)
    return exponentials, totals, shift + np.log(totals)


def all_below(values: Float[NDArray[Any], "B A"], bound: float) -> bool:
    """Return whether the size of every value is below a bound; NaN never is."""
    # No value is larger than the norm of all, which takes a third of the time.
    if np.vdot(values, values) < bound**2:
        return True
    return bool(values.max() < bound and values.min() > -bound)


def masked_softmax(
    logits: Float[NDArray[Any], "B A"], action_mask: Shaped[NDArray[Any], "B A"]
) -> tuple[Float[NDArray[Any], "B A"], Float[NDArray[Any], " B"]]:
    """Return the softmax over the available actions, and the logs of its divisors.

    A divisor is the sum of the exponentials of the available logits.
    """
    probs, totals, log_totals = weighted_exponentials(action_mask, logits)
    probs /= totals[:, None]
    return probs, log_totals


def column_sums(values: Float[NDArray[Any], "B A"]) -> Float[NDArray[Any], " A"]:
    """Return `values.sum(axis=0)`, by a matrix product."""
    sums: NDArray[Any] = np.ones(len(values), values.dtype) @ values
    return sums


def take_rows(
    array: Shaped[NDArray[Any], "S ..."], rows: Int[NDArray[Any], " B"]
) -> Shaped[NDArray[Any], "B ..."]:
    """Return `array[rows]`."""
    taken: NDArray[Any] = array.take(rows, axis=0)
    return taken


def take_steps(
    array: Shaped[NDArray[Any], "T N ..."],
    steps: Int[NDArray[Any], " B"],
    envs: Int[NDArray[Any], " B"],
) -> Shaped[NDArray[Any], "B ..."]:
    """Return `array[steps, envs]`."""
    rows = array.reshape(-1, *array.shape[2:])
    return take_rows(rows, steps * array.shape[1] + envs)


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
    adam_step(vector, optimizer.state[vector], group)


def adam_step(
    parameter: th.nn.Parameter, state: dict[str, th.Tensor], group: dict[str, Any]
) -> None:
    """Take a step of Adam (Kingma and Ba, 2015) on one parameter.

    Args:
        parameter: The parameter, with its gradient.
        state: Torch's state of the parameter: `step`, `exp_avg` and `exp_avg_sq`.
        group: Torch's settings: `lr`, `betas` and `eps`.
    """
    assert parameter.grad is not None  # or there would be no step to take
    theta, gradient = parameter.detach().numpy(), parameter.grad.numpy()
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
