"""Encoded observations: the inputs of models, and the encoder that makes them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch as th
from gymnasium import spaces
from jaxtyping import Float
from stable_baselines3.common.preprocessing import preprocess_obs
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.utils import obs_as_tensor
from torch import nn

from sas_agents._fast import row_dots, take_rows
from sas_agents.models._features import (
    ArrayObs,
    TensorObs,
    array_features,
    bare_observation,
    bare_space,
    is_one_hot,
)
from sas_agents.models._normalizer import Normalizer
from sas_gym._types import NDArray
from sas_gym.masks import MASK_KEY


class Encoded:
    """A batch of encoded observations.

    Args:
        values: An array with one row per sample.
    """

    def __init__(self, values: Any) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> Self:
        return self.__class__(self.values[index])

    def tensors(self, device: th.device) -> Any:
        """Return the argument of a model's `forward`."""
        return th.as_tensor(self.values, device=device)


class Tensors(Encoded):
    """Observations for a model that learns its own features.

    Args:
        values: A tensor, or a dict of them, with one row per sample.
    """

    def __len__(self) -> int:
        values = self.values
        return len(next(iter(values.values())) if isinstance(values, dict) else values)

    def __getitem__(self, index: Any) -> Self:
        if isinstance(self.values, dict):
            rows = {key: part[index] for key, part in self.values.items()}
            return self.__class__(rows)
        return super().__getitem__(index)

    def tensors(self, device: th.device) -> Any:
        """Return the observations."""
        if isinstance(self.values, dict):
            return {key: part.to(device) for key, part in self.values.items()}
        return self.values.to(device)


class Inputs(Encoded, ABC):
    """A batch of samples, as the first layer of an `Mlp` takes them.

    A layer multiplies each sample with a matrix `weight`. The gradient of the matrix is
    the sum of the samples' outer products: a sample's features times its error, the
    gradient with respect to its output.
    """

    @abstractmethod
    def apply(self, weight: Float[NDArray[Any], "F O"]) -> Float[NDArray[Any], "B O"]:
        """Multiply each sample with a matrix."""

    @abstractmethod
    def sum_outer(
        self, errors: Float[NDArray[Any], "B O"], out: Float[NDArray[Any], "F O"]
    ) -> None:
        """Write the sum of the samples' outer products into `out`."""

    @abstractmethod
    def sum_squares(
        self, errors: Float[NDArray[Any], "B O"], out: Float[NDArray[Any], "F O"]
    ) -> None:
        """Write the sum of the samples' outer products, each squared, into `out`."""

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

    def arrange(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """Return the outputs of the last layer with one row per sample."""
        return outputs

    def errors(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the errors of arranged outputs as the last layer takes them."""
        return rows

    def totals(self, errors: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of the errors of each sample."""
        return errors

    def pool(self) -> "Inputs":
        """Return the means over actions of inputs that have rows per action."""
        return self


class Dense(Inputs):
    """Rows of features, in single precision."""

    def apply(self, weight: Float[NDArray[Any], "F O"]) -> Float[NDArray[Any], "B O"]:
        """Multiply each sample with a matrix."""
        product: NDArray[Any] = self.values @ weight
        return product

    def sum_outer(
        self, errors: Float[NDArray[Any], "B O"], out: Float[NDArray[Any], "F O"]
    ) -> None:
        """Write the sum of the samples' outer products into `out`."""
        np.matmul(self.values.T, errors, out=out)

    def sum_squares(
        self, errors: Float[NDArray[Any], "B O"], out: Float[NDArray[Any], "F O"]
    ) -> None:
        """Write the sum of the samples' outer products, each squared, into `out`."""
        np.matmul((self.values**2).T, errors**2, out=out)

    def squared_norms(
        self, errors: Float[NDArray[Any], "B O"], has_bias: bool
    ) -> Float[NDArray[Any], " B"]:
        """Return the squared norm of each sample's outer product."""
        sizes = row_dots(self.values, self.values) + np.float32(has_bias)
        return row_dots(errors, errors) * sizes


class Indices(Inputs):
    """One-hot features, given by the indices of the ones."""

    def apply(self, weight: Float[NDArray[Any], "F O"]) -> Float[NDArray[Any], "B O"]:
        """Pick the row of each sample."""
        return take_rows(weight, self.values)

    def sum_outer(
        self, errors: Float[NDArray[Any], "B O"], out: Float[NDArray[Any], "F O"]
    ) -> None:
        """Sum the errors by index."""
        out[:] = 0
        index = th.from_numpy(self.values)
        th.from_numpy(out).index_add_(0, index, th.from_numpy(errors))

    def sum_squares(
        self, errors: Float[NDArray[Any], "B O"], out: Float[NDArray[Any], "F O"]
    ) -> None:
        """Sum the squared errors by index."""
        self.sum_outer(errors**2, out)

    def squared_norms(
        self, errors: Float[NDArray[Any], "B O"], has_bias: bool
    ) -> Float[NDArray[Any], " B"]:
        """Return the squared norm of each sample's outer product."""
        return row_dots(errors, errors) * np.float32(1 + has_bias)


class Encoder(nn.Module):
    """Turns observations into the inputs of models, once for all models of a policy.

    Discrete observations become indices, other ones rows of features. Features that
    are learned belong to the models: then the encoder only preprocesses observations.

    Args:
        observation_space: The space of the observations, with the mask.
        features: A features extractor without parameters; None for learned ones.
        normalize_images: Whether to divide images by 255.
        normalize: Whether to normalise numbers by running statistics.
        row_keys: Keys with one row of features per action, which no extractor sees.
    """

    _place: th.Tensor

    def __init__(
        self,
        observation_space: spaces.Dict,
        features: BaseFeaturesExtractor | None,
        normalize_images: bool = True,
        normalize: bool = False,
        row_keys: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.features = features
        self._row_keys = tuple(row_keys)
        self._space = bare_space(observation_space, row_keys)
        # Whether all but the mask is one entry, outside a dict.
        self._is_single = not isinstance(bare_space(observation_space), spaces.Dict)
        self.normalizer = Normalizer(bare_space(observation_space), row_keys)
        self.normalizes = normalize
        self._normalize_images = normalize_images
        self._is_index = is_one_hot(features, self._space)
        self._arrays = array_features(features, self._space)
        # Says where the tensors are, also where nothing else does.
        self.register_buffer("_place", th.empty(0), persistent=False)

    @property
    def waits_for_statistics(self) -> bool:
        """Whether observations are to be normalised, but none were observed yet."""
        return self.normalizes and not self.normalizer.num_observed

    def observe(self, obs: ArrayObs) -> None:
        """Add a batch of observations to the statistics, if there are any."""
        if self.normalizes:
            self.normalizer.observe(bare_observation(obs))

    def far_keys(self, obs: ArrayObs, bound: float) -> list[str]:
        """Return the keys of numbers that are large and not normalised."""
        return [] if self.normalizes else self.normalizer.far_keys(obs, bound)

    def forward(self, obs: TensorObs) -> Any:
        """Return the argument of a model's `forward`, for a batch of observations."""
        bare = self.normalized(obs)
        if self._is_index:
            return bare.reshape(-1).long()
        inputs = self._preprocessed(bare)
        return inputs if self.features is None else self.features(inputs)

    def encode(self, obs: ArrayObs) -> Encoded:
        """Return the inputs of models for a batch of observations."""
        if self._is_index:
            return Indices(obs["observation"].reshape(-1))
        if self._arrays is not None:
            return Dense(self._arrays(self.normalized_arrays(obs)))
        with th.no_grad():
            encoded = self(obs_as_tensor(obs, self._place.device))
        return Tensors(encoded) if self.features is None else Dense(as_array(encoded))

    def encode_chosen(
        self, obs: ArrayObs, actions: NDArray[Any]
    ) -> tuple[Encoded, NDArray[np.float32]]:
        """Return the inputs of a model, and its outputs' weights to pick the actions.

        Args:
            obs: The observations.
            actions: One action per observation.
        """
        weights = np.zeros((len(actions), obs[MASK_KEY].shape[1]), np.float32)
        weights[np.arange(len(actions)), actions] = 1
        return self.encode(obs), weights

    def normalized(self, obs: TensorObs) -> Any:
        """Return observations without the mask, as tensors, normalised."""
        bare = self._bare(obs)
        return self.normalizer(bare) if self.normalizes else bare

    def normalized_arrays(self, obs: ArrayObs) -> Any:
        """Return observations without the mask, as arrays, normalised."""
        bare = self._bare(obs)
        return self.normalizer.arrays(bare) if self.normalizes else bare

    def _bare(self, obs: dict[str, Any]) -> Any:
        return obs["observation"] if self._is_single else bare_observation(obs)

    def _preprocessed(self, bare: Any) -> Any:
        return preprocess_obs(
            bare, self._space, normalize_images=self._normalize_images
        )


def as_array(tensor: th.Tensor) -> NDArray[Any]:
    """Return a tensor as an array, which shares its memory on the CPU."""
    array: NDArray[Any] = tensor.detach().cpu().numpy()
    return array
