"""Features of the state alone: the paper's, and how the mask is left out of them."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.policies import BaseModel
from stable_baselines3.common.preprocessing import is_image_space, preprocess_obs
from stable_baselines3.common.torch_layers import (
    BaseFeaturesExtractor,
    FlattenExtractor,
    NatureCNN,
)
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from sas_agents.models._dict_extractor import DictExtractor
from sas_gym.masks import MASK_KEY

ArrayObs = dict[str, NDArray[Any]]
TensorObs = dict[str, th.Tensor]
ArrayFunction = Callable[[Any], NDArray[Any]]

# Layers whose output depends on other samples, or on chance.
VARYING_LAYERS = (_BatchNorm, _DropoutNd)
# Of the paper's order 3, four axes make 4^4 = 256 coupled features.
MAX_FOURIER_AXES, MAX_FOURIER_FEATURES = 4, 256
# The paper's 3 is too coarse for q to show the maze's walls.
FOURIER_ORDER = 5


class FourierBasis(BaseFeaturesExtractor):
    """Features cos(pi c . x), with x scaled to the unit cube (Konidaris et al., 2011).

    Args:
        observation_space: A bounded Box.
        order: Highest frequency along an axis; the paper's is 3. Default: 5, or less so
            that there are at most 256 features: 3 for four axes.
        coupled: Whether frequencies of several axes are combined, c in {0..order}^d, or
            each feature varies along one axis only.
    """

    frequencies: th.Tensor
    low: th.Tensor
    width: th.Tensor

    def __init__(
        self,
        observation_space: spaces.Box,
        order: int | None = None,
        coupled: bool = True,
    ) -> None:
        is_box = isinstance(observation_space, spaces.Box)
        if not (is_box and is_bounded_vector(observation_space)):
            raise ValueError(
                "FourierBasis needs a Box of one axis with finite bounds, got "
                f"{observation_space}: leave out features_extractor_class, or flatten "
                "the observation by gymnasium.wrappers.FlattenObservation"
            )
        (num_axes,) = observation_space.shape
        if order is None:
            order = _default_order(num_axes if coupled else 1)
        if order < 0:
            raise ValueError(f"order must be at least 0, got {order}")
        c = _frequencies(num_axes, order, coupled)
        super().__init__(observation_space, features_dim=len(c))
        low, high = observation_space.low, observation_space.high
        self.register_buffer("frequencies", th.as_tensor(np.pi * c.T, dtype=th.float32))
        self.register_buffer("low", th.as_tensor(low, dtype=th.float32))
        self.register_buffer("width", th.as_tensor(high - low, dtype=th.float32))

    def forward(self, observations: th.Tensor) -> th.Tensor:
        """Return one feature per frequency vector, for observations along rows."""
        return th.cos(((observations - self.low) / self.width) @ self.frequencies)

    def array_function(self) -> ArrayFunction:
        """Return `forward` as a function of arrays."""
        buffers = self.low, self.width, self.frequencies
        low, width, frequencies = (buffer.cpu().numpy() for buffer in buffers)
        by_axis = frequencies / width[:, None]

        def features(rows: NDArray[Any]) -> NDArray[Any]:
            above = rows.astype(np.float32, copy=False) - low
            result: NDArray[Any] = np.cos(above @ by_axis)
            return result

        return features


class OneHot(FlattenExtractor):
    """One feature per state, for a Discrete space.

    The encoding itself is done by Stable-Baselines3's preprocessing.
    """


class Identity(FlattenExtractor):
    """The observation itself, as one vector."""


def linear_features(space: gym.Space[Any]) -> type[BaseFeaturesExtractor]:
    """Return the features of linear policies for a space: the paper's kinds.

    A bounded Box of two to four dimensions gets the coupled Fourier basis, a Discrete
    space its one-hot encoding, a dict its entries joined, anything else itself (a
    single number is taken for a feature, as that of `SAS/ThetaTwoTheta-v0` is).
    """
    if isinstance(space, spaces.Dict):
        return DictExtractor
    if isinstance(space, spaces.Discrete):
        return OneHot
    if isinstance(space, spaces.Box) and is_bounded_vector(space):
        is_coupled = 1 < space.shape[0] <= MAX_FOURIER_AXES
        return FourierBasis if is_coupled else Identity
    return Identity


def image_features(space: gym.Space[Any]) -> type[BaseFeaturesExtractor]:
    """Return Stable-Baselines3's convolutional features."""
    if isinstance(space, spaces.Dict):
        raise ValueError(
            f"'CnnPolicy' takes one image, but the observations have the keys "
            f"{sorted(space.spaces)}: use 'MultiInputPolicy'"
        )
    return NatureCNN


def multi_input_features(space: gym.Space[Any]) -> type[BaseFeaturesExtractor]:
    """Return what joins the entries of a dict; other spaces are flattened."""
    return DictExtractor if isinstance(space, spaces.Dict) else FlattenExtractor


def has_fixed_output(features: BaseFeaturesExtractor) -> bool:
    """Return whether nothing in features is learned, or differs in training."""
    return not list(features.parameters()) and not any(
        isinstance(module, VARYING_LAYERS) for module in features.modules()
    )


def is_one_hot(features: BaseFeaturesExtractor | None, space: gym.Space[Any]) -> bool:
    """Return whether the features of a space are one 1 among zeros."""
    # A subclass may compute something else.
    is_plain = type(features) in (OneHot, Identity, FlattenExtractor)
    return is_plain and isinstance(space, spaces.Discrete)


def array_features(
    features: BaseFeaturesExtractor | None, space: gym.Space[Any]
) -> ArrayFunction | None:
    """Return an extractor, with SB3's preprocessing, as a function of arrays.

    `None` where only torch can compute it. A subclass may compute something else.
    """
    kind = type(features)
    if isinstance(features, DictExtractor) and kind is DictExtractor:
        return _combined_rows(features.keys, space)
    if kind in (OneHot, Identity, FlattenExtractor):
        return _flat_rows(space)
    if isinstance(features, FourierBasis) and kind is FourierBasis:
        return features.array_function()
    return None


def _flat_rows(space: gym.Space[Any]) -> ArrayFunction | None:
    """Return the function from observations of a space to flat rows."""
    is_box = isinstance(space, spaces.Box) and not is_image_space(space)
    if is_box or isinstance(space, spaces.MultiBinary):
        size = spaces.flatdim(space)
        return lambda values: values.reshape(-1, size).astype(np.float32, copy=False)
    if isinstance(space, spaces.Discrete):
        return partial(_one_hot, int(space.n))
    return None


def _one_hot(size: int, values: NDArray[Any]) -> NDArray[np.float32]:
    rows = np.zeros((len(values), size), np.float32)
    rows[np.arange(len(values)), values.reshape(-1)] = 1
    return rows


def _combined_rows(keys: list[str], space: gym.Space[Any]) -> ArrayFunction | None:
    """Return the function from dicts to the flat rows of their entries, joined."""
    assert isinstance(space, spaces.Dict)  # or the extractor could not have been made
    functions = {key: _flat_rows(space[key]) for key in keys}
    known = {key: rows for key, rows in functions.items() if rows is not None}
    if len(known) < len(functions):
        return None
    return lambda obs: np.concatenate(
        [rows(obs[key]) for key, rows in known.items()], axis=1
    )


class FeaturesWithoutMask(BaseModel):
    """Mixin of policies and networks: features see the observation without its mask.

    v and q are functions of the state, not of the (state, set) pair: that is what saves
    a SAS-MDP from having 2 to the number of actions times as many states.
    """

    # Defaults that differ between the policy classes. Two layers of 64 are SB3's.
    hidden_layers: ClassVar[tuple[int, ...]] = (64, 64)
    # Those of a network that scores each action by its features.
    row_layers: ClassVar[tuple[int, ...]] = (32, 32)

    observation_space: spaces.Dict

    # The default features extractor for a space without a mask.
    extractor_for = staticmethod(multi_input_features)

    @classmethod
    def architecture(
        cls,
        observation_space: spaces.Dict,
        extractor: type[BaseFeaturesExtractor] | None,
        net_arch: Any,
        row_keys: Sequence[str] | None = None,
    ) -> tuple[type[BaseFeaturesExtractor], Any]:
        """Return features extractor and hidden layers: the defaults in place of None.

        Args:
            observation_space: The space of the observations, with the mask.
            extractor: The features extractor.
            net_arch: The hidden layers.
            row_keys: Keys with rows of features per action; None where one network has
                an output per action.
        """
        if extractor is None:
            space = bare_space(observation_space, row_keys or ())
            extractor = cls.extractor_for(space)
        if net_arch is None and row_keys is not None:
            net_arch = list(cls.row_layers)
        elif net_arch is None:
            # As in SB3: the CNN ends with a hidden layer of its own.
            net_arch = [] if extractor is NatureCNN else list(cls.hidden_layers)
        return extractor, net_arch

    def make_features_extractor(
        self, without: Sequence[str] = ()
    ) -> BaseFeaturesExtractor:
        """Build the features extractor for the observation without its mask.

        Args:
            without: Further keys that it does not see.
        """
        space = bare_space(self.observation_space, without)
        extractor = self.features_extractor_class(
            space, **self.features_extractor_kwargs
        )
        # SB3 counts a MultiDiscrete's features by NumPy; torch's LSTM needs an int.
        extractor._features_dim = int(extractor.features_dim)
        return extractor

    def preprocess(self, obs: TensorObs) -> th.Tensor | TensorObs:
        """Strip the mask and encode the rest as Stable-Baselines3 does."""
        bare, space = bare_observation(obs), bare_space(self.observation_space)
        return preprocess_obs(bare, space, normalize_images=self.normalize_images)

    def extract_features(  # type: ignore[override]  # observations are dicts here
        self, obs: TensorObs, features_extractor: BaseFeaturesExtractor
    ) -> th.Tensor:
        """Return the features of the observation without its mask."""
        features: th.Tensor = features_extractor(self.preprocess(obs))
        return features


def bare_space(space: spaces.Dict, without: Sequence[str] = ()) -> gym.Space[Any]:
    """Return the space without the mask; `observation`, if alone, outside a dict.

    Args:
        space: The space of the observations.
        without: Further keys to leave out.
    """
    left_out = MASK_KEY, *without
    rest = {key: part for key, part in space.spaces.items() if key not in left_out}
    return rest["observation"] if list(rest) == ["observation"] else spaces.Dict(rest)


def bare_observation(obs: dict[str, Any]) -> Any:
    """Return an observation without the mask, as `bare_space` describes it."""
    rest = {key: value for key, value in obs.items() if key != MASK_KEY}
    return rest["observation"] if list(rest) == ["observation"] else rest


def is_layers(net_arch: Any) -> bool:
    """Return whether something is a list of layer sizes."""
    return isinstance(net_arch, list | tuple) and all(
        isinstance(size, int) and size >= 1 for size in net_arch
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


def check_one_network(net_arch: Any) -> None:
    """Raise `ValueError` unless layer sizes are `None` or those of a single network."""
    if not (net_arch is None or is_layers(net_arch)):
        raise ValueError(
            "net_arch must be a list of layer sizes, such as [64, 64], as there is "
            f"one network; got {net_arch!r}"
        )


def is_bounded_vector(space: spaces.Box) -> bool:
    """Return whether a Box has one axis and finite, distinct bounds."""
    is_vector = len(space.shape) == 1
    return bool(is_vector and space.is_bounded() and (space.low < space.high).all())


def _default_order(num_axes: int) -> int:
    """Return the highest order up to ours whose features are not too many."""
    orders = range(FOURIER_ORDER, 0, -1)
    fitting = (k for k in orders if (k + 1) ** num_axes <= MAX_FOURIER_FEATURES)
    return next(fitting, 1)


def _frequencies(num_axes: int, order: int, coupled: bool) -> NDArray[np.float64]:
    """Return the frequency vectors c as rows, the constant first."""
    if coupled:
        return np.array(list(product(range(order + 1), repeat=num_axes)), dtype=float)
    alone = [k * axis for axis in np.eye(num_axes) for k in range(1, order + 1)]
    return np.array([np.zeros(num_axes), *alone])
