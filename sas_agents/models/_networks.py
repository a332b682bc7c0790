"""The networks of policies and critics: torch's, and linear maps left to NumPy."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, cast

import numpy as np
import torch as th
from jaxtyping import Float, Shaped
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, create_mlp
from torch import nn
from torch.nn import functional as F

from sas_agents.maths._masked_ops import row_dots
from sas_agents.models._features import VARYING_LAYERS, is_layers
from sas_gym._types import Array, NDArray

# Largest number of one-hot features that are multiplied out to be added up: for the 28
# junctions of San Francisco that takes half the time of doing it by index.
MAX_DENSE_FEATURES = 64

Backward = Callable[[Array, Array], None]


class Network(nn.Module):
    """Features of the state, hidden layers, and a linear output layer.

    What is computed of its outputs is computed by NumPy; torch only differentiates.

    Args:
        features: The features extractor.
        net_arch: Sizes of the hidden layers.
        activation_fn: Their activation function.
        output_size: Number of outputs.
        bias: Whether the layers have biases.
    """

    def __init__(
        self,
        features: BaseFeaturesExtractor,
        net_arch: list[int],
        activation_fn: type[nn.Module],
        output_size: int,
        bias: bool,
    ) -> None:
        super().__init__()
        self.features = features
        layers = create_mlp(
            features.features_dim, output_size, net_arch, activation_fn, with_bias=bias
        )
        self.layers = nn.Sequential(*layers)
        # Whether the features have no parameters, so that they never change.
        self.has_fixed_features = not list(features.parameters())
        # So that a policy starts uniform, and values at 0.
        for parameter in self.output_layer.parameters():
            nn.init.zeros_(parameter)

    @property
    def output_layer(self) -> nn.Linear:
        """The last layer."""
        return cast("nn.Linear", self.layers[-1])

    def encode(self, observation: Any) -> Any:
        """Turn preprocessed observations into what `forward` takes.

        Features that never change are computed here, once per rollout.
        """
        return self.features(observation) if self.has_fixed_features else observation

    def forward(self, encoded: Any) -> th.Tensor:
        """Return one row of outputs per encoded observation."""
        features = encoded if self.has_fixed_features else self.features(encoded)
        result: th.Tensor = self.layers(features)
        return result

    @th.no_grad()
    def outputs(self, encoded: Any) -> Float[NDArray[Any], "B A"]:
        """Return one row of outputs per encoded observation, as an array."""
        return as_array(self(encoded))

    def differentiable(
        self, encoded: Any
    ) -> tuple[Float[NDArray[Any], "B A"], Backward]:
        """Return the outputs, and a function that sets the parameters' gradients.

        It takes the gradient of a loss with respect to the outputs, as rows and what to
        multiply each of them with.
        """
        output: th.Tensor = self(encoded)

        def backward(gradient: Array, factors: Array) -> None:
            self.zero_grad()
            given = th.from_numpy(gradient * factors[:, None]).to(output.device)
            output.backward(given)  # type: ignore[no-untyped-call]  # torch's

        return as_array(output), backward


class LinearNetwork(Network):
    """A matrix times features that never change.

    Encoded observations are arrays here: the features, or the indices of their ones
    where they are one-hot. For so little work, torch and its graph take five times as
    long as NumPy.

    Args:
        features: The features extractor, without parameters.
        output_size: Number of outputs.
    """

    def __init__(self, features: BaseFeaturesExtractor, output_size: int) -> None:
        super().__init__(features, [], nn.Identity, output_size, bias=False)
        # In a tuple, which torch leaves alone: its own look-up takes as long as a step.
        self._matrix = (self.output_layer.weight,)

    @property
    def parameter(self) -> th.Tensor:
        """The matrix, one row per output."""
        return self._matrix[0]

    @property
    def weight(self) -> Float[NDArray[Any], "A F"]:
        """The matrix as an array; on the CPU it shares torch's memory."""
        return as_array(self.parameter)

    def set_weight(self, weight: Float[NDArray[Any], "A F"]) -> None:
        """Replace the matrix."""
        self.parameter.data = th.from_numpy(weight).to(self.parameter.device)

    def forward(self, encoded: th.Tensor) -> th.Tensor:
        """Return one row of outputs per encoded observation, as predictions need it."""
        if encoded.dtype == th.long:
            # By its name, where torch may have put another in its place.
            return F.embedding(encoded, self.output_layer.weight.T)
        return super().forward(encoded)

    def outputs(self, encoded: NDArray[Any]) -> Float[NDArray[Any], "B A"]:
        """Return one row of outputs per encoded observation, as an array."""
        return apply_weight(encoded, self.weight)

    def differentiable(
        self, encoded: NDArray[Any]
    ) -> tuple[Float[NDArray[Any], "B A"], Backward]:
        """Return the outputs, and a function that sets the matrix's gradient."""
        return self.outputs(encoded), partial(self.set_gradient, encoded)

    def set_gradient(
        self, encoded: NDArray[Any], gradient: NDArray[Any], factors: NDArray[Any]
    ) -> None:
        """Set the matrix's gradient; see `differentiable`."""
        parameter = self.parameter
        product = weight_gradient(encoded, gradient, factors, parameter.shape[1])
        parameter.grad = th.from_numpy(product).to(parameter.device)


def as_array(tensor: th.Tensor) -> NDArray[Any]:
    """Return a tensor as an array, which shares its memory where that can be."""
    array: NDArray[Any] = tensor.detach().cpu().numpy()
    return array


def apply_weight(
    encoded: Shaped[NDArray[Any], "B ..."], weight: Float[NDArray[Any], "A F"]
) -> Float[NDArray[Any], "B A"]:
    """Multiply features with a linear map; for one-hot features, pick its columns."""
    if encoded.ndim == 1:
        return weight.T.take(encoded, axis=0)
    product: NDArray[Any] = encoded.dot(weight.T)  # `@` takes longer for few
    return product


def weight_gradient(
    encoded: Shaped[NDArray[Any], "B ..."],
    output_gradient: Float[NDArray[Any], "B A"],
    factors: Float[NDArray[Any], " B"],
    num_features: int,
) -> Float[NDArray[Any], "A F"]:
    """Return the gradient of a linear map: the sum of its samples' outer products.

    Args:
        encoded: The features, or the indices of their ones.
        output_gradient: The gradient with respect to the outputs, as rows.
        factors: What to multiply each row with.
        num_features: Number of features.
    """
    column = factors[:, None]
    encoded = multiplied_out(encoded, num_features)
    if encoded.ndim == 1:
        sums = th.zeros(num_features, output_gradient.shape[1])
        # NumPy's `add.at` takes as long for few outputs, and 8 times as long for 100.
        added = th.from_numpy(output_gradient * column)
        by_feature = sums.index_add_(0, th.from_numpy(encoded), added).numpy()
        # torch's fused optimisers misread a gradient with other strides.
        return np.ascontiguousarray(by_feature.T)
    product: NDArray[Any]
    if num_features < output_gradient.shape[1]:
        product = output_gradient.T.dot(encoded * column)
    else:
        product = (output_gradient * column).T.dot(encoded)
    return product


def multiplied_out(
    encoded: Shaped[NDArray[Any], "B ..."], num_features: int
) -> Shaped[NDArray[Any], "B ..."]:
    """Return features with their zeros, if they are indices of ones and few."""
    if encoded.ndim > 1 or num_features > MAX_DENSE_FEATURES:
        return encoded
    return _identity(num_features).take(encoded, axis=0)


@lru_cache
def _identity(size: int) -> NDArray[np.float32]:
    return np.eye(size, dtype=np.float32)


def squared(encoded: Shaped[NDArray[Any], "B ..."]) -> Shaped[NDArray[Any], "B ..."]:
    """Return the squares of features; indices of ones stay as they are."""
    return encoded if encoded.ndim == 1 else encoded**2


def squared_norms(
    encoded: Shaped[NDArray[Any], "B ..."],
) -> Float[NDArray[Any], " B"]:
    """Return the squared norm of each sample's features."""
    if encoded.ndim == 1:
        return np.ones(len(encoded), dtype=np.float32)
    return row_dots(encoded, encoded)


def check_layers(network: Network) -> None:
    """Reject layers with which a sample's score is not a function of the sample."""
    for module in network.modules():
        if isinstance(module, VARYING_LAYERS):
            raise ValueError(
                f"{type(module).__name__} makes the score of a sample depend on other "
                "samples or on chance: use LayerNorm or GroupNorm, or leave it out"
            )


def layers_of(net_arch: Any) -> tuple[list[int], list[int]]:
    """Return the hidden layers of the actor and of the critics.

    As in SB3, a dict may leave out one of them, which then has no hidden layers.

    Raises:
        ValueError: If it is neither a list of sizes nor such a dict.
    """
    by_network = net_arch
    if not isinstance(net_arch, dict):
        by_network = {"pi": net_arch, "vf": net_arch}
    if not by_network.keys() <= {"pi", "vf"} or not all(
        map(is_layers, by_network.values())
    ):
        raise ValueError(
            "net_arch must be a list of layer sizes, such as [64, 64], or "
            f"dict(pi=[64, 64], vf=[64, 64]); got {net_arch!r}"
        )
    return list(by_network.get("pi", [])), list(by_network.get("vf", []))
