"""Layers on fixed features, differentiated in closed form by NumPy."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch as th
from jaxtyping import Float
from stable_baselines3.common.torch_layers import create_mlp
from torch import nn
from torch.nn import functional as F

from sas_agents._fast import column_sums
from sas_agents.maths._estimators import damped_least_squares, q_bar
from sas_agents.models._inputs import Encoded, Inputs, as_array
from sas_agents.models._model import Model, Tangent
from sas_gym._types import Array, NDArray

# How strongly a least squares fit holds on to its start: as if this many samples of
# mean size had confirmed it. A parameter without samples keeps its value.
PRIOR_SAMPLES = 1.0
# Steps of a fit.
FIT_STEPS = 2


class Activation(NamedTuple):
    """An activation function, and its slope as a function of its value."""

    apply: Callable[..., Array]
    slope: Callable[[Array], Array]


ACTIVATIONS: dict[type[nn.Module], Activation] = {
    nn.Tanh: Activation(np.tanh, lambda h: 1 - h * h),
    nn.ReLU: Activation(lambda h, out: np.maximum(h, 0, out=out), lambda h: h > 0),
}


class Layer(NamedTuple):
    """A layer's part of a vector or tensor of all parameters, or of one like them."""

    weight: Any
    """One row per feature, one column per output."""
    bias: Any
    """One number per output, or None."""

    def apply(self, inputs: Inputs) -> Float[NDArray[Any], "B O"]:
        """Return the layer's linear function of its inputs."""
        product: NDArray[Any] = inputs.apply(self.weight)
        if self.bias is not None:
            product += self.bias
        return product


class Mlp(Model):
    """Any number of hidden layers, also none: the paper's linear policy.

    The parameters are one vector. Layers are views of it, made at each use, so that
    they hold after copying, loading and moving.

    Args:
        num_features: Number of features.
        net_arch: Sizes of the hidden layers.
        activation_fn: Their activation function, one of `ACTIVATIONS`.
        num_outputs: Number of outputs; for rows of features per action, of outputs
            of each action.
        bias: Whether the layers have biases.
        pools: Whether the last layer takes the means over all actions of inputs with
            rows per action, beside their context.
        num_context: Number of features in the context.
    """

    def __init__(
        self,
        num_features: int,
        net_arch: list[int],
        activation_fn: type[nn.Module],
        num_outputs: int,
        bias: bool,
        *,
        pools: bool = False,
        num_context: int = 0,
    ) -> None:
        super().__init__()
        self._activation, self._has_bias = activation_fn, bias
        self.pools = pools
        self._shapes = list(pairwise([num_features, *net_arch, num_outputs]))
        if pools and net_arch:
            self._shapes[-1] = net_arch[-1] + num_context, num_outputs
        self.is_linear = not net_arch
        size = sum((rows + bias) * columns for rows, columns in self._shapes)
        self.vector = nn.Parameter(th.zeros(size))
        # Hidden layers start as torch's. The last one starts at 0: a policy starts
        # uniform, and values start at 0.
        made = create_mlp(num_features, -1, net_arch, activation_fn, with_bias=bias)
        linear = (layer for layer in made if isinstance(layer, nn.Linear))
        for ours, theirs in zip(self.layers(), linear, strict=False):
            ours.weight[:] = as_array(theirs.weight).T
            if ours.bias is not None:
                ours.bias[:] = as_array(theirs.bias)

    @property
    def theta(self) -> Float[NDArray[Any], " P"]:
        """All parameters in one vector, which on the CPU shares torch's memory."""
        return as_array(self.vector)

    def set_theta(self, values: Float[NDArray[Any], " P"]) -> None:
        """Replace all parameters."""
        self.vector.data = th.from_numpy(values).to(self.device)

    def set_gradient(self, gradient: Float[NDArray[Any], " P"]) -> None:
        """Set the gradient that an optimiser reads."""
        self.vector.grad = th.from_numpy(gradient).to(self.device)

    @property
    def device(self) -> th.device:
        """Where the parameters are."""
        return self.vector.device

    def scale_outputs(self, factor: float) -> None:
        """Multiply the outputs by a factor, by way of the last layer's parameters."""
        theta = self.theta.copy()
        weight, bias = self.layers(theta)[-1]
        weight *= factor
        if bias is not None:
            bias *= factor
        self.set_theta(theta)

    def layers(self, vector: Any = None) -> list[Layer]:
        """Return the layers as views of the parameters, or of a vector like them."""
        vector = self.theta if vector is None else vector
        layers, end = [], 0
        for rows, columns in self._shapes:
            start, end = end, end + rows * columns
            weight, bias = vector[start:end].reshape(rows, columns), None
            if self._has_bias:
                start, end = end, end + columns
                bias = vector[start:end]
            layers.append(Layer(weight, bias))
        return layers

    def outputs(self, inputs: Inputs) -> Float[NDArray[Any], "B A"]:
        """Return one row of outputs per sample."""
        return self.function()(inputs)

    def function(self) -> Callable[[Inputs], NDArray[Any]]:
        """Return `outputs` for many calls, between which the parameters stay."""
        *hidden, last = self.layers()
        activate = self.activation.apply

        def outputs(inputs: Inputs) -> NDArray[Any]:
            for layer in hidden:
                values = layer.apply(inputs)
                inputs = inputs.hidden(activate(values, out=values))
            if self.pools:
                inputs = inputs.pool()
            return inputs.arrange(last.apply(inputs))

        return outputs

    def tangent(self, inputs: Inputs) -> Tangent:
        """Return the outputs with their derivatives; on a GPU they are torch's."""
        if self.device.type != "cpu":
            return super().tangent(inputs)
        return MlpTangent(self, inputs)

    @property
    def activation(self) -> Activation:
        """The activation function of the hidden layers."""
        return ACTIVATIONS[self._activation]

    def forward(self, inputs: Any) -> th.Tensor:
        """Return one row of outputs per sample.

        Args:
            inputs: Rows of features, indices of a 1, or a dict of `rows` per action and
                the `context`.
        """
        values, has_rows = inputs, isinstance(inputs, dict)
        *hidden, last = self.layers(self.vector)
        for layer in hidden:
            values = self._activation()(_linear(values, layer))
        if self.pools:
            rows = values["rows"] if values is inputs else values
            values = th.cat([rows.mean(dim=1), inputs["context"]], dim=1)
        outputs = _linear(values, last)
        return outputs[..., 0] if has_rows and not self.pools else outputs


def _linear(values: Any, layer: Layer) -> th.Tensor:
    """Return a layer's linear function of features, indices, or rows and context."""
    weight, bias = layer
    product: th.Tensor
    if isinstance(values, dict):
        size = values["rows"].shape[2]
        shared = values["context"] @ weight[size:]
        product = values["rows"] @ weight[:size] + shared[:, None]
    elif values.is_floating_point():
        product = values @ weight
    else:
        product = F.embedding(values, weight)
    return product if bias is None else product + bias


class MlpTangent:
    """A `Tangent` of layers, by the chain rule.

    Args:
        model: The layers.
        inputs: Encoded observations.
    """

    def __init__(self, model: Mlp, inputs: Inputs) -> None:
        self._model, self._inputs = model, inputs
        self._activation = model.activation
        self._layers = model.layers()
        # The inputs of each layer.
        self._taken = [inputs]
        for layer in self._layers[:-1]:
            values = layer.apply(self._taken[-1])
            self._activation.apply(values, out=values)
            self._taken.append(inputs.hidden(values))
        if model.pools:
            self._taken[-1] = self._taken[-1].pool()

    @property
    def outputs(self) -> Float[NDArray[Any], "B A"]:
        """One row per sample, computed at each access."""
        last = self._taken[-1]
        return last.arrange(self._layers[-1].apply(last))

    def jvp(self, direction: Float[NDArray[Any], " P"]) -> Float[NDArray[Any], "B A"]:
        """Return the outputs' derivative along a direction of the parameters."""
        first, *steps = self._model.layers(direction)
        change = first.apply(self._taken[0])
        for taken, layer, step in zip(
            self._taken[1:], self._layers[1:], steps, strict=True
        ):
            change *= self._activation.slope(taken.activations)
            change = taken.push(change) @ layer.weight + step.apply(taken)
        return self._taken[-1].arrange(change)

    def vjp(self, rows: Float[NDArray[Any], "B A"]) -> Float[NDArray[Any], " P"]:
        """Return the gradient of the sum of outputs times rows."""
        gradient = np.empty_like(self._model.theta)
        parts = reversed(self._model.layers(gradient))
        for (weight, bias), (taken, errors) in zip(
            parts, self._factors(rows), strict=True
        ):
            taken.sum_outer(errors, weight)
            if bias is not None:
                bias[:] = column_sums(errors)
        return gradient

    def norms(
        self, rows: Float[NDArray[Any], "B A"]
    ) -> tuple[Float[NDArray[Any], " M"], slice]:
        """Return the norms of samples' gradients; not of all, where rows are many."""
        part = self._taken[0].measured
        if (part.step or 1) > 1:
            some = MlpTangent(self._model, self._inputs[part])
            return some.norms(rows[part])[0], part
        has_bias = self._layers[0].bias is not None
        squares = sum(
            taken.squared_norms(errors, has_bias)
            for taken, errors in self._factors(rows)
        )
        return np.sqrt(squares), slice(None)

    def squares(self, rows: Float[NDArray[Any], "B A"]) -> Float[NDArray[Any], " P"]:
        """Return the sum of the samples' gradients, each squared."""
        result = np.empty_like(self._model.theta)
        parts = reversed(self._model.layers(result))
        for (weight, bias), (taken, errors) in zip(
            parts, self._factors(rows), strict=True
        ):
            taken.sum_squares(errors, weight)
            if bias is not None:
                bias[:] = column_sums(np.square(taken.totals(errors)))
        return result

    def _factors(self, rows: NDArray[Any]) -> Iterator[tuple[Inputs, Array]]:
        """Yield the inputs of each layer and the errors of its outputs, backwards."""
        errors = self._taken[-1].errors(rows)
        yield self._taken[-1], errors
        for i in range(len(self._layers) - 1, 0, -1):
            taken = self._taken[i]
            errors = taken.pull(errors @ self._layers[i].weight.T)
            errors *= self._activation.slope(taken.activations)
            yield self._taken[i - 1], errors


def fit_least_squares(
    model: Model,
    inputs: Encoded,
    weights: Float[NDArray[Any], "B A"],
    errors: Float[NDArray[Any], " B"],
) -> None:
    """Move a linear model to the least squares fit, held back by where it was.

    The model predicts one number per sample, a weighted sum of its outputs. The fit
    needs no rate and follows a new policy within a rollout or two, where gradient
    steps, above all on one-hot features, need hundreds.

    Args:
        model: A model that is linear.
        inputs: Encoded observations.
        weights: Weight of each output in a prediction.
        errors: The targets minus the predictions.
    """
    tangent = model.tangent(inputs)
    squares = tangent.squares(weights)
    change = damped_least_squares(
        lambda direction: q_bar(tangent.jvp(direction), weights),
        lambda outputs: tangent.vjp(weights * outputs[:, None]),
        errors,
        PRIOR_SAMPLES * float(squares.sum()) / len(inputs),
        FIT_STEPS,
        diagonal=squares,
    )
    model.set_theta(model.theta + change)
