"""The paper's features: a Fourier basis, one-hot states, the vector itself."""

from itertools import product
from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.torch_layers import (
    BaseFeaturesExtractor,
    CombinedExtractor,
    FlattenExtractor,
)

# Of order 3, that makes 256 features.
MOST_FOURIER_AXES = 4


class FourierBasis(BaseFeaturesExtractor):
    """Features cos(pi c . x), with x scaled to the unit cube (Konidaris et al., 2011).

    Args:
        observation_space: A bounded Box.
        order: Highest frequency along an axis.
        coupled: Whether frequencies of several axes are combined, c in {0..order}^d, or
            each feature varies along one axis only.
    """

    frequencies: th.Tensor
    low: th.Tensor
    width: th.Tensor

    def __init__(
        self, observation_space: spaces.Box, order: int = 3, coupled: bool = True
    ) -> None:
        if not is_bounded_vector(observation_space):
            raise ValueError(
                "a Fourier basis needs a Box of one axis with finite bounds, got "
                f"{observation_space}"
            )
        if order < 0:
            raise ValueError(f"order must be at least 0, got {order}")
        c = _frequencies(observation_space.shape[0], order, coupled)
        super().__init__(observation_space, features_dim=len(c))
        low, high = observation_space.low, observation_space.high
        self.register_buffer("frequencies", th.as_tensor(np.pi * c.T, dtype=th.float32))
        self.register_buffer("low", th.as_tensor(low, dtype=th.float32))
        self.register_buffer("width", th.as_tensor(high - low, dtype=th.float32))

    def forward(self, observations: th.Tensor) -> th.Tensor:
        """Return the features, [B, d] to [B, F]."""
        return th.cos(((observations - self.low) / self.width) @ self.frequencies)


class OneHot(FlattenExtractor):
    """One feature a state, for a Discrete space.

    Stable-Baselines3's preprocessing has made the encoding by then.
    """


class Identity(FlattenExtractor):
    """The observation itself, as one vector."""


def default_features(space: gym.Space[Any]) -> type[BaseFeaturesExtractor]:
    """Return the paper's features for a space.

    A low-dimensional bounded Box gets the coupled Fourier basis of order 3, a Discrete
    space its one-hot encoding, a dict its entries put together, anything else itself.
    """
    if isinstance(space, spaces.Dict):
        return CombinedExtractor
    if isinstance(space, spaces.Discrete):
        return OneHot
    if isinstance(space, spaces.Box) and is_bounded_vector(space):
        return FourierBasis if space.shape[0] <= MOST_FOURIER_AXES else Identity
    return Identity


def is_bounded_vector(space: spaces.Box) -> bool:
    """Return whether a Box has one axis and finite, distinct bounds."""
    is_vector = len(space.shape) == 1
    return bool(is_vector and space.is_bounded() and (space.low < space.high).all())


def _frequencies(num_axes: int, order: int, coupled: bool) -> NDArray[np.float64]:
    """Return the frequency vectors c, [F, d], the constant first."""
    if coupled:
        return np.array(list(product(range(order + 1), repeat=num_axes)), dtype=float)
    alone = [k * axis for axis in np.eye(num_axes) for k in range(1, order + 1)]
    return np.array([np.zeros(num_axes), *alone])
