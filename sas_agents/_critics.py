"""Fits of the critics: least squares for linear ones, gradient steps for networks.

Both critics predict a return by a weighted sum of their outputs: v(s) by its only one,
q-bar(s, alpha) by those of q(s, .), weighted with the policy's probabilities.
"""

from typing import Any

import torch as th
from jaxtyping import Float

from sas_agents._estimators import conjugate_gradients, q_bar
from sas_agents._policies import Network, apply_weight, weight_gradient
from sas_agents._scores import squared_norms

# How strongly a fit holds on to what it started from: as if so many samples of mean
# size had confirmed it. It is all that a parameter without samples has.
PRIOR_SAMPLES = 1.0
# Steps of a fit. Four made no difference to what the agents learned.
FIT_STEPS = 2


@th.no_grad()
def fit_least_squares(
    critic: Network,
    inputs: th.Tensor,
    weights: Float[th.Tensor, "B A"],
    targets: Float[th.Tensor, " B"],
) -> None:
    """Move a linear critic to the least squares fit, held back by where it was.

    It needs no rate and follows a new policy within a rollout or two, where gradient
    steps, one-hot features above all, need hundreds.

    Args:
        critic: A linear map of the features, without a bias.
        inputs: Encoded observations.
        weights: Weight of each output in a prediction.
        targets: What to predict.
    """
    weight = critic.output_layer.weight
    num_features = critic.output_layer.in_features
    squares = weights**2
    prior = PRIOR_SAMPLES * (squared_norms(inputs) * squares.sum(dim=1)).mean()

    def transposed(errors: th.Tensor) -> th.Tensor:
        return weight_gradient(inputs, errors[:, None] * weights, num_features)

    def product(direction: th.Tensor) -> th.Tensor:
        change = q_bar(apply_weight(inputs, direction), weights)
        return transposed(change) + prior * direction

    diagonal = weight_gradient(inputs, squares, num_features, square=True) + prior
    error = targets - q_bar(apply_weight(inputs, weight), weights)
    weight += conjugate_gradients(product, transposed(error), FIT_STEPS, diagonal)


def gradient_step(
    critic: Network,
    optimizer: th.optim.Optimizer,
    inputs: Any,
    weights: Float[th.Tensor, "B A"],
    targets: Float[th.Tensor, " B"],
) -> None:
    """Take a step on half the mean squared error, the weights held fixed.

    Args:
        critic: The critic.
        optimizer: Its optimiser.
        inputs: Encoded observations, a tensor or a dict of them.
        weights: Weight of each output in a prediction.
        targets: What to predict.
    """
    outputs = critic.differentiable(inputs)
    error = (q_bar(outputs.detach(), weights) - targets) / len(targets)
    critic.backward(inputs, outputs, error[:, None] * weights)
    optimizer.step()


def rescale(critic: Network, factor: float) -> None:
    """Multiply the outputs of a critic, by way of its last layer, which is linear."""
    for parameter in critic.output_layer.parameters():
        parameter.data *= factor
