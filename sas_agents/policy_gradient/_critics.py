"""Fits of the critics: least squares for linear ones, gradient steps for networks.

Both critics predict a return by a weighted sum of their outputs: v(s) by its only one,
q-bar(s, alpha) by those of q(s, .), weighted with the policy's probabilities.
"""

from typing import Any

import numpy as np
import torch as th
from jaxtyping import Float

from sas_agents.maths._estimators import conjugate_gradients, q_bar
from sas_agents.maths._masked_ops import row_sums
from sas_agents.models._networks import (
    LinearNetwork,
    Network,
    apply_weight,
    multiplied_out,
    squared,
    squared_norms,
    weight_gradient,
)
from sas_agents.models._optimizers import take_step
from sas_gym._types import Array, NDArray

# How strongly a fit holds on to what it started from: as if so many samples of mean
# size had confirmed it. It is all that a parameter without samples has.
PRIOR_SAMPLES = 1.0
# Steps of a fit.
FIT_STEPS = 2


def fit_least_squares(
    critic: LinearNetwork,
    inputs: NDArray[Any],
    weights: Float[NDArray[Any], "B A"],
    errors: Float[NDArray[Any], " B"],
) -> None:
    """Move a linear critic to the least squares fit, held back by where it was.

    It needs no rate and follows a new policy within a rollout or two, where gradient
    steps, one-hot features above all, need hundreds.

    Args:
        critic: A linear map of the features.
        inputs: Encoded observations.
        weights: Weight of each output in a prediction.
        errors: What to predict minus what is predicted so far.
    """
    num_features = critic.parameter.shape[1]
    features = multiplied_out(inputs, num_features)  # once for all sums
    squares, ones = weights**2, np.ones_like(errors)
    sizes = squared_norms(inputs) * row_sums(squares)
    prior = PRIOR_SAMPLES * float(sizes.mean())

    def transposed(outputs: Array) -> Array:
        return weight_gradient(features, weights, outputs, num_features)

    def product(direction: Array) -> Array:
        change = q_bar(apply_weight(inputs, direction), weights)
        return transposed(change) + prior * direction

    diagonal = weight_gradient(squared(features), squares, ones, num_features) + prior
    change = conjugate_gradients(product, transposed(errors), FIT_STEPS, diagonal)
    critic.set_weight(critic.weight + change)


def gradient_step(
    critic: Network,
    optimizer: th.optim.Optimizer,
    inputs: Any,
    weights: Float[NDArray[Any], "B A"],
    targets: Float[NDArray[Any], " B"],
) -> None:
    """Take a step on half the mean squared error, the weights held fixed.

    Args:
        critic: The critic.
        optimizer: Its optimiser.
        inputs: Encoded observations.
        weights: Weight of each output in a prediction.
        targets: What to predict.
    """
    outputs, backward = critic.differentiable(inputs)
    error = (q_bar(outputs, weights) - targets) / len(targets)
    backward(weights, error)
    take_step(optimizer)


def rescale(critic: Network, factor: float) -> None:
    """Multiply the outputs of a critic, by way of its last layer, which is linear."""
    if isinstance(critic, LinearNetwork):
        critic.set_weight(critic.weight * factor)
        return
    for parameter in critic.output_layer.parameters():
        parameter.data *= factor
