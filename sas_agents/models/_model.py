"""Models: functions of a batch of inputs, with the products of their Jacobian."""

import math
from collections.abc import Callable
from typing import Any, Protocol, Self, cast

import numpy as np
import torch as th
from jaxtyping import Float
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, create_mlp
from torch import nn
from torch.func import functional_call, jvp, vjp, vmap
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from sas_agents._fast import take_step
from sas_agents.maths._estimators import q_bar
from sas_agents.models._features import VARYING_LAYERS
from sas_gym._types import NDArray

# Samples whose gradients are held in memory at once: 256 times the parameters, 10 MB
# for the default network of 10,000.
_CHUNK = 256


class Encoded(Protocol):
    """A batch of encoded observations, the input of a model."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any) -> Self: ...

    def tensors(self, device: th.device) -> Any:
        """Return the argument of a model's `forward`."""


class Tangent(Protocol):
    """A model at its parameters and a batch: outputs, and products with the Jacobian.

    It is valid until the parameters change, and may read them at any time before that.
    """

    @property
    def outputs(self) -> Float[NDArray[Any], "B A"]:
        """One row per sample, which may be computed at each access."""

    def jvp(self, direction: Float[NDArray[Any], " P"]) -> Float[NDArray[Any], "B A"]:
        """Return the outputs' derivative along a direction of the parameters."""

    def vjp(self, rows: Float[NDArray[Any], "B A"]) -> Float[NDArray[Any], " P"]:
        """Return the gradient of the sum of outputs times rows."""

    def norms(
        self, rows: Float[NDArray[Any], "B A"]
    ) -> tuple[Float[NDArray[Any], " M"], slice]:
        """Return the norms of single samples' gradients, and which samples they are."""

    def squares(self, rows: Float[NDArray[Any], "B A"]) -> Float[NDArray[Any], " P"]:
        """Return the sum of the samples' gradients, each squared."""


class Model(nn.Module):
    """A function of inputs, differentiated by autograd.

    A subclass defines `forward`, from the tensors of encoded observations to one row of
    outputs per sample, and `scale_outputs`.
    """

    is_linear: bool = False
    """Whether the outputs are linear in the parameters."""

    @property
    def device(self) -> th.device:
        """Where the parameters are."""
        return next(self.parameters()).device

    @th.no_grad()
    def outputs(self, inputs: Any) -> Float[NDArray[Any], "B A"]:
        """Return one row of outputs per sample."""
        return as_array(self(inputs.tensors(self.device)))

    def function(self) -> Callable[[Any], NDArray[Any]]:
        """Return `outputs` for many calls, between which the parameters stay."""
        return self.outputs

    def tangent(self, inputs: Any) -> Tangent:
        """Return the outputs with their derivatives."""
        return TorchTangent(self, inputs)

    @property
    def theta(self) -> Float[NDArray[Any], " P"]:
        """All parameters in one vector."""
        return as_array(parameters_to_vector(self.parameters()))

    def set_theta(self, values: Float[NDArray[Any], " P"]) -> None:
        """Replace all parameters."""
        vector_to_parameters(th.from_numpy(values).to(self.device), self.parameters())

    def set_gradient(self, gradient: Float[NDArray[Any], " P"]) -> None:
        """Set the gradient that an optimiser reads."""
        parts = self.split(th.from_numpy(gradient).to(self.device))
        for name, parameter in self.named_parameters():
            parameter.grad = parts[name]

    def split(self, vector: th.Tensor) -> dict[str, th.Tensor]:
        """Split a vector like `theta` into the parts of the parameters, by name."""
        named = dict(self.named_parameters())
        parts = th.split(vector, [parameter.numel() for parameter in named.values()])
        return {
            name: part.view_as(parameter)
            for (name, parameter), part in zip(named.items(), parts, strict=True)
        }

    def scale_outputs(self, factor: float) -> None:
        """Multiply the outputs by a factor, by way of the last layer's parameters."""
        raise NotImplementedError


class Network(Model):
    """Features, hidden layers and a linear output layer, computed by torch.

    Args:
        features: The features extractor.
        net_arch: Sizes of the hidden layers.
        activation_fn: Their activation function.
        num_outputs: Number of outputs.
        bias: Whether the layers have biases.
    """

    def __init__(
        self,
        features: BaseFeaturesExtractor,
        net_arch: list[int],
        activation_fn: type[nn.Module],
        num_outputs: int,
        bias: bool,
    ) -> None:
        super().__init__()
        self.features = features
        size = features.features_dim
        layers = create_mlp(size, num_outputs, net_arch, activation_fn, with_bias=bias)
        self.layers = nn.Sequential(*layers)
        # A policy starts uniform, and values start at 0.
        for parameter in self.layers[-1].parameters():
            nn.init.zeros_(parameter)

    def forward(self, observations: Any) -> th.Tensor:
        """Return one row of outputs per preprocessed observation."""
        return cast("th.Tensor", self.layers(self.features(observations)))

    def scale_outputs(self, factor: float) -> None:
        """Multiply the outputs by a factor, by way of the last layer's parameters."""
        for parameter in self.layers[-1].parameters():
            parameter.data *= factor


class TorchTangent:
    """A `Tangent` by automatic differentiation.

    Args:
        model: The model.
        inputs: Encoded observations.
    """

    def __init__(self, model: Model, inputs: Encoded) -> None:
        self._model, self._inputs = model, inputs.tensors(model.device)
        self._output: th.Tensor = model(self._inputs)
        self.outputs = as_array(self._output)

    def jvp(self, direction: Float[NDArray[Any], " P"]) -> Float[NDArray[Any], "B A"]:
        """Return the outputs' derivative along a direction of the parameters."""

        def outputs(parameters: dict[str, th.Tensor]) -> th.Tensor:
            result: th.Tensor
            result = functional_call(self._model, parameters, (self._inputs,))
            return result

        towards = self._model.split(self._tensor(direction))
        return as_array(jvp(outputs, (self._parameters(),), (towards,))[1])

    def vjp(self, rows: Float[NDArray[Any], "B A"]) -> Float[NDArray[Any], " P"]:
        """Return the gradient of the sum of outputs times rows."""
        parameters = list(self._model.parameters())
        gradients = th.autograd.grad(
            self._output, parameters, self._tensor(rows), retain_graph=True
        )
        # Gradients of convolutions need not be contiguous.
        return as_array(th.cat([part.reshape(-1) for part in gradients]))

    def norms(
        self, rows: Float[NDArray[Any], "B A"]
    ) -> tuple[Float[NDArray[Any], " M"], slice]:
        """Return the norms of some samples' gradients, at most 511, each formed."""
        part = slice(None, None, max(len(rows) // _CHUNK, 1))
        return as_array(self._gradients(rows, part).norm(dim=1)), part

    def squares(self, rows: Float[NDArray[Any], "B A"]) -> Float[NDArray[Any], " P"]:
        """Return the sum of the samples' gradients, each squared."""
        starts = range(0, len(rows), _CHUNK)
        chunks = (slice(start, start + _CHUNK) for start in starts)
        sums = [self._gradients(rows, part).square().sum(dim=0) for part in chunks]
        return as_array(th.stack(sums).sum(dim=0))

    def _gradients(self, rows: NDArray[Any], part: slice) -> th.Tensor:
        """Return the gradients of some samples, one row each."""
        at = self._parameters()

        def gradient(one: Any, row: th.Tensor) -> th.Tensor:
            batch = _map(lambda x: x[None], one)
            pull = vjp(lambda p: functional_call(self._model, p, (batch,)), at)[1]
            (parts,) = pull(row[None])
            return th.cat([part.reshape(-1) for part in parts.values()])

        some = _map(lambda x: x[part], self._inputs)
        result: th.Tensor = vmap(gradient)(some, self._tensor(rows[part]))
        return result

    def _parameters(self) -> dict[str, th.Tensor]:
        return {name: p.detach() for name, p in self._model.named_parameters()}

    def _tensor(self, values: NDArray[Any]) -> th.Tensor:
        return th.as_tensor(values, device=self._output.device)


def _map(change: Callable[[th.Tensor], th.Tensor], tensors: Any) -> Any:
    """Change a tensor, or each of a dict of them."""
    if isinstance(tensors, dict):
        return {key: change(value) for key, value in tensors.items()}
    return change(tensors)


class Tensors:
    """Observations for a model that learns its own features.

    Args:
        values: A tensor, or a dict of them, with one row per sample.
    """

    def __init__(self, values: Any) -> None:
        self.values = values

    def __len__(self) -> int:
        values = self.values
        return len(next(iter(values.values())) if isinstance(values, dict) else values)

    def __getitem__(self, index: Any) -> Self:
        return self.__class__(_map(lambda x: x[index], self.values))

    def tensors(self, device: th.device) -> Any:
        """Return the observations."""
        return _map(lambda x: x.to(device), self.values)


def as_array(tensor: th.Tensor) -> NDArray[Any]:
    """Return a tensor as an array, which shares its memory on the CPU."""
    array: NDArray[Any] = tensor.detach().cpu().numpy()
    return array


def check_layers(module: nn.Module) -> None:
    """Reject layers with which a sample's score is not a function of the sample."""
    for layer in module.modules():
        if isinstance(layer, VARYING_LAYERS):
            raise ValueError(
                f"{type(layer).__name__} makes the score of a sample depend on other "
                "samples or on chance: use LayerNorm or GroupNorm, or leave it out"
            )


def gradient_step(
    model: Model,
    optimizer: th.optim.Optimizer,
    inputs: Any,
    weights: Float[NDArray[Any], "B A"],
    targets: Float[NDArray[Any], " B"],
    max_norm: float = math.inf,
) -> float:
    """Take a step on half the mean squared error of predictions, and return the error.

    The model predicts one number per sample, a weighted sum of its outputs.

    Args:
        model: The model.
        optimizer: Its optimiser.
        inputs: Encoded observations.
        weights: Weight of each output in a prediction.
        targets: The targets.
        max_norm: Largest norm of the gradient, to which a longer one is scaled.
    """
    tangent = model.tangent(inputs)
    errors = q_bar(tangent.outputs, weights) - targets
    gradient = tangent.vjp(weights * (errors / len(errors))[:, None])
    norm = float(np.linalg.norm(gradient))
    if norm > max_norm:
        gradient *= max_norm / norm
    model.set_gradient(gradient)
    take_step(optimizer)
    return 0.5 * float(np.square(errors).mean())
