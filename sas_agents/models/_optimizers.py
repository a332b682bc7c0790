"""A step of an optimiser; that of Adam on a matrix without torch's overhead."""

from typing import Any

import numpy as np
import torch as th

# Switches of Adam that change what a step is.
_SWITCHES = (
    "amsgrad",
    "maximize",
    "capturable",
    "differentiable",
    "decoupled_weight_decay",
    "weight_decay",
)


def take_step(optimizer: th.optim.Optimizer) -> None:
    """Take an optimiser's step, by the gradients that are set.

    For one small matrix on the CPU, torch's Adam takes six times as long as its four
    lines in NumPy. The moments stay in the optimiser's state, so that it can be saved
    and continued as ever; where they do not exist yet, it makes them.
    """
    group = optimizer.param_groups[0]
    parameters: list[th.nn.Parameter] = group["params"]
    is_plain = type(optimizer) is th.optim.Adam and not any(map(group.get, _SWITCHES))
    is_one = len(parameters) == len(optimizer.param_groups) == 1
    matrix = parameters[0]
    if not (is_plain and is_one and matrix in optimizer.state and not matrix.is_cuda):
        optimizer.step()
        return
    adam_step(matrix, optimizer.state[matrix], group)


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
