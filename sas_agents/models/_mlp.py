"""Layers on fixed features, differentiated in closed form by NumPy."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import torch as th
from jaxtyping import Float
from stable_baselines3.common.torch_layers import create_mlp
from torch import nn
from torch.nn import functional as F

from sas_agents._fast import column_sums, row_dots
from sas_agents.maths._estimators import conjugate_gradients
from sas_agents.models._model import Encoded, Model, Tangent, as_array
from sas_gym._types import Array, NDArray

# How strongly a least squares fit holds on to its start: as if this many samples of
# mean size had confirmed it. A parameter without samples keeps its value.
PRIOR_SAMPLES = 1.0
# Steps of a fit.
FIT_STEPS = 2


class Inputs(ABC):
    """A batch of samples, as the first layer of an `Mlp` takes them.

    A layer multiplies each sample with a matrix `weight`. The gradient of the matrix is
    the sum of the samples' outer products: a sample's features times its error, the
    gradient with respect to its output.

    Args:
        values: One row per sample.
    """

    num_rows: int = 1
    """Rows of outputs per sample."""

    def __init__(self, values: NDArray[Any]) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> Self:
        return self.__class__(self.values[index])

    def tensors(self, device: th.device) -> Any:
        """Return the argument of a model's `forward`."""
        return th.as_tensor(self.values, device=device)

    @abstractmethod
    def apply(
        self, weight: Float[NDArray[Any], "F O"], bias: NDArray[Any] | None = None
    ) -> Float[NDArray[Any], "B O"]:
        """Multiply each sample with a matrix, and add a bias."""

    @abstractmethod
    def sum_outer(
        self, errors: Float[NDArray[Any], "B O"]
    ) -> Float[NDArray[Any], "F O"]:
        """Return the sum of the samples' outer products."""

    @abstractmethod
    def sum_squares(
        self, errors: Float[NDArray[Any], "B O"]
    ) -> Float[NDArray[Any], "F O"]:
        """Return the sum of the samples' outer products, each squared."""

    @abstractmethod
    def squared_norms(
        self, errors: Float[NDArray[Any], "B O"], has_bias: bool
    ) -> Float[NDArray[Any], " B"]:
        """Return the squared norm of each sample's outer product.

        Args:
            errors: One row per sample.
            has_bias: Whether each sample has one more feature, which is 1.
        """

    def hidden(self, values: Float[NDArray[Any], "B O"]) -> "Inputs":
        """Return the values of a hidden layer as inputs of the next one."""
        return Dense(values)

    @property
    def measured(self) -> slice:
        """The samples whose single gradients are measured."""
        return slice(None)

    @property
    def activations(self) -> NDArray[Any]:
        """The values of the hidden layer that these inputs come from."""
        values: NDArray[Any] = self.values
        return values

    def push(self, change: NDArray[Any]) -> NDArray[Any]:
        """Return the change of these inputs that follows from one of `activations`."""
        return change

    def pull(self, errors: NDArray[Any]) -> NDArray[Any]:
        """Return the errors of `activations` that follow from those of these inputs."""
        return errors

    def totals(self, errors: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of the errors of each sample."""
        return errors

    def pool(self) -> "Inputs":
        """Return the means over actions of inputs that have rows per action."""
        return self


class Dense(Inputs):
    """Rows of features, in single precision."""

    def apply(
        self, weight: Float[NDArray[Any], "F O"], bias: NDArray[Any] | None = None
    ) -> Float[NDArray[Any], "B O"]:
        """Multiply each sample with a matrix, and add a bias."""
        product: NDArray[Any] = self.values @ weight
        if bias is not None:
            product += bias
        return product

    def sum_outer(
        self, errors: Float[NDArray[Any], "B O"]
    ) -> Float[NDArray[Any], "F O"]:
        """Return the sum of the samples' outer products."""
        product: NDArray[Any] = self.values.T @ errors
        return product

    def sum_squares(
        self, errors: Float[NDArray[Any], "B O"]
    ) -> Float[NDArray[Any], "F O"]:
        """Return the sum of the samples' outer products, each squared."""
        product: NDArray[Any] = (self.values**2).T @ errors**2
        return product

    def squared_norms(
        self, errors: Float[NDArray[Any], "B O"], has_bias: bool
    ) -> Float[NDArray[Any], " B"]:
        """Return the squared norm of each sample's outer product."""
        sizes = row_dots(self.values, self.values) + np.float32(has_bias)
        return row_dots(errors, errors) * sizes


class Indices(Inputs):
    """One-hot features.

    Args:
        values: The index of each sample's 1.
        size: Number of features.
    """

    def __init__(self, values: NDArray[Any], size: int) -> None:
        self.values, self.size = values, size

    def __getitem__(self, index: Any) -> Self:
        return self.__class__(self.values[index], self.size)

    def apply(
        self, weight: Float[NDArray[Any], "F O"], bias: NDArray[Any] | None = None
    ) -> Float[NDArray[Any], "B O"]:
        """Pick the row of each sample, and add a bias."""
        rows = weight.take(self.values, axis=0)
        if bias is not None:
            rows += bias
        return rows

    def sum_outer(
        self, errors: Float[NDArray[Any], "B O"]
    ) -> Float[NDArray[Any], "F O"]:
        """Sum the errors by index."""
        index = th.from_numpy(self.values)
        sums = th.zeros(self.size, errors.shape[1])
        result: NDArray[Any] = sums.index_add_(0, index, th.from_numpy(errors)).numpy()
        return result

    def sum_squares(
        self, errors: Float[NDArray[Any], "B O"]
    ) -> Float[NDArray[Any], "F O"]:
        """Sum the squared errors by index."""
        return self.sum_outer(errors**2)

    def squared_norms(
        self, errors: Float[NDArray[Any], "B O"], has_bias: bool
    ) -> Float[NDArray[Any], " B"]:
        """Return the squared norm of each sample's outer product."""
        return row_dots(errors, errors) * np.float32(1 + has_bias)


class Activation(NamedTuple):
    """An activation function, and its slope as a function of its value."""

    apply: Callable[..., Array]
    slope: Callable[[Array], Array]


def _slope_of_tanh(values: Array) -> Array:
    return 1 - values * values


def _relu(inputs: Array, out: Array) -> Array:
    return np.maximum(inputs, 0, out=out)


def _slope_of_relu(values: Array) -> Array:
    return values > 0


ACTIVATIONS: dict[type[nn.Module], Activation] = {
    nn.Tanh: Activation(np.tanh, _slope_of_tanh),
    nn.ReLU: Activation(_relu, _slope_of_relu),
}


class Layer(NamedTuple):
    """A layer's part of a vector or tensor of all parameters, or of one like them."""

    weight: Any
    """One row per feature, one column per output."""
    bias: Any
    """One number per output, or None."""


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
        self.activation, self._has_bias = ACTIVATIONS[activation_fn], bias
        self._activation_fn = activation_fn
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
        theta: NDArray[Any] = self.vector.numpy(force=True)
        return theta

    def set_theta(self, values: Float[NDArray[Any], " P"]) -> None:
        """Replace all parameters."""
        self.vector.data = th.from_numpy(values).to(self.vector.device)

    def set_gradient(self, gradient: Float[NDArray[Any], " P"]) -> None:
        """Set the gradient that an optimiser reads."""
        self.vector.grad = th.from_numpy(gradient).to(self.vector.device)

    @property
    def device(self) -> th.device:
        """Where the parameters are."""
        return self.vector.device

    def scale_outputs(self, factor: float) -> None:
        """Multiply the outputs by a factor, by way of the last layer's parameters."""
        weight, bias = self.layers(self.vector.detach())[-1]
        weight *= factor
        if bias is not None:
            bias *= factor

    def layers(self, vector: Any = None) -> list[Layer]:
        """Return the layers as views of the parameters, or of a vector like them."""
        if vector is None:
            vector = self.vector.numpy(force=True)
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

        def function(inputs: Inputs) -> NDArray[Any]:
            for layer in hidden:
                values = inputs.apply(*layer)
                inputs = inputs.hidden(activate(values, out=values))
            if self.pools:
                inputs = inputs.pool()
            outputs = inputs.apply(*last)
            return outputs.reshape(-1, inputs.num_rows * outputs.shape[1])

        return function

    def tangent(self, inputs: Inputs) -> Tangent:
        """Return the outputs with their derivatives; on a GPU they are torch's."""
        if not self.vector.is_cpu:
            return super().tangent(inputs)
        return MlpTangent(self, inputs)

    def forward(self, inputs: Any) -> th.Tensor:
        """Return one row of outputs per sample.

        Args:
            inputs: Rows of features, indices of a 1, or a dict of `rows` per action and
                the `context`.
        """
        values, has_rows = inputs, isinstance(inputs, dict)
        *hidden, last = self.layers(self.vector)
        for layer in hidden:
            values = self._activation_fn()(_linear(values, layer))
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


Steps = list[tuple[Layer, tuple[Inputs, Array]]]


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
            values = self._taken[-1].apply(*layer)
            self._activation.apply(values, out=values)
            self._taken.append(inputs.hidden(values))
        if model.pools:
            self._taken[-1] = self._taken[-1].pool()

    @property
    def outputs(self) -> Float[NDArray[Any], "B A"]:
        """One row per sample, computed at each access."""
        last = self._taken[-1]
        outputs = last.apply(*self._layers[-1])
        return outputs.reshape(-1, last.num_rows * outputs.shape[1])

    def jvp(self, direction: Float[NDArray[Any], " P"]) -> Float[NDArray[Any], "B A"]:
        """Return the outputs' derivative along a direction of the parameters."""
        first, *steps = self._model.layers(direction)
        change = self._taken[0].apply(*first)
        for taken, layer, step in zip(
            self._taken[1:], self._layers[1:], steps, strict=True
        ):
            change *= self._activation.slope(taken.activations)
            change = taken.push(change) @ layer.weight + taken.apply(*step)
        return change.reshape(-1, self._taken[-1].num_rows * change.shape[1])

    def vjp(self, rows: Float[NDArray[Any], "B A"]) -> Float[NDArray[Any], " P"]:
        """Return the gradient of the sum of outputs times rows."""
        parts: list[NDArray[Any]] = []
        for (_, bias), (taken, errors) in self._backwards(rows):
            if bias is not None:
                parts.append(column_sums(errors))
            parts.append(taken.sum_outer(errors).reshape(-1))
        return np.concatenate(parts[::-1])

    def norms(
        self, rows: Float[NDArray[Any], "B A"]
    ) -> tuple[Float[NDArray[Any], " M"], slice]:
        """Return the norms of samples' gradients; not of all, where rows are many."""
        part = self._taken[0].measured
        if (part.step or 1) > 1:
            some = MlpTangent(self._model, self._inputs[part])
            return some.norms(rows[part])[0], part
        squares = np.zeros(len(rows), rows.dtype)
        for (_, bias), (taken, errors) in self._backwards(rows):
            squares += taken.squared_norms(errors, bias is not None)
        return np.sqrt(squares), slice(None)

    def squares(self, rows: Float[NDArray[Any], "B A"]) -> Float[NDArray[Any], " P"]:
        """Return the sum of the samples' gradients, each squared."""
        parts: list[NDArray[Any]] = []
        for (_, bias), (taken, errors) in self._backwards(rows):
            if bias is not None:
                parts.append(column_sums(np.square(taken.totals(errors))))
            parts.append(taken.sum_squares(errors).reshape(-1))
        return np.concatenate(parts[::-1])

    def _backwards(self, rows: NDArray[Any]) -> Steps:
        """Return each layer, its inputs and the errors of its outputs, backwards."""
        errors = rows.reshape(-1, self._layers[-1].weight.shape[1])
        steps = [(self._layers[-1], (self._taken[-1], errors))]
        for i in range(len(self._layers) - 1, 0, -1):
            taken = self._taken[i]
            errors = taken.pull(errors @ self._layers[i].weight.T)
            errors *= self._activation.slope(taken.activations)
            steps.append((self._layers[i - 1], (self._taken[i - 1], errors)))
        return steps


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
    prior = PRIOR_SAMPLES * float(squares.sum()) / len(errors)

    def product(direction: Array) -> Array:
        change = row_dots(tangent.jvp(direction), weights)
        return tangent.vjp(weights * change[:, None]) + prior * direction

    target = tangent.vjp(weights * errors[:, None])
    change = conjugate_gradients(product, target, FIT_STEPS, squares + prior)
    model.set_theta(model.theta + change)
