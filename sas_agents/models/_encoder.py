"""The encoder: observations to the inputs of models."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.preprocessing import preprocess_obs
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.utils import obs_as_tensor
from torch import nn

from sas_agents.models._features import (
    ArrayObs,
    TensorObs,
    array_features,
    bare_observation,
    bare_space,
    is_one_hot,
)
from sas_agents.models._mlp import Dense, Indices
from sas_agents.models._model import Encoded, Tensors, as_array
from sas_agents.models._normalizer import Normalizer
from sas_gym._types import NDArray
from sas_gym.masks import MASK_KEY


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
    _space: Any

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
            return Indices(obs["observation"].reshape(-1), self._space.n)
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
