"""The policies of SASQ."""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import ArrayLike
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import Schedule
from torch import nn

from sas_agents.maths._masked_ops import available_values
from sas_agents.models._features import (
    TensorObs,
    check_one_network,
    image_features,
    linear_features,
    multi_input_features,
)
from sas_agents.models._model import Model
from sas_agents.models._policy import ModelPolicy
from sas_gym.masks import MASK_KEY


class Defaults(NamedTuple):
    """Settings of SASQ whose defaults depend on the policy class."""

    learning_rate: float
    """Rate at the start, for Adam."""
    steps_per_update: int
    """Steps of all environments together per gradient step."""


class SASQPolicy(ModelPolicy):
    """A greedy policy with its action values and their target (alias `"MlpPolicy"`).

    Args:
        observation_space: A Dict with `action_mask` and whatever shows the state.
        action_space: The base action set.
        lr_schedule: Learning rate, of which the value at the start is used here.
        net_arch: Sizes of the hidden layers. Default: `[64, 64]`; none after
            `NatureCNN`.
        activation_fn: Their activation function.
        features_extractor_class: Features of the state, without the mask. Default:
            `FlattenExtractor`.
        features_extractor_kwargs: Arguments of the features extractor.
        normalize_images: Whether to divide images by 255.
        optimizer_class: Optimiser of the Q-network.
        optimizer_kwargs: Its arguments without the rate.
        normalize_observations: Whether numbers of observations are normalised by their
            running mean and standard deviation. Default: yes for networks.
        action_features: Features of the actions that never change, one row per action:
            one network then scores every action by its row. Default: none.
        action_keys: Keys of the observations with one row of features per action, for
            the same network. Default: `action_features`, if the observations have it.
    """

    defaults: ClassVar[Defaults] = Defaults(learning_rate=1e-3, steps_per_update=8)

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: "spaces.Discrete[np.int64]",
        lr_schedule: Schedule,
        net_arch: list[int] | None = None,
        activation_fn: type[nn.Module] = nn.ReLU,
        features_extractor_class: type[BaseFeaturesExtractor] | None = None,
        features_extractor_kwargs: dict[str, Any] | None = None,
        normalize_images: bool = True,
        optimizer_class: type[th.optim.Optimizer] = th.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
        normalize_observations: bool | None = None,
        action_features: ArrayLike | None = None,
        action_keys: Sequence[str] | None = None,
    ) -> None:
        check_one_network(net_arch)
        super().__init__(
            observation_space,
            action_space,
            net_arch=net_arch,
            activation_fn=activation_fn,
            bias=None,
            features_extractor_class=features_extractor_class,
            features_extractor_kwargs=features_extractor_kwargs,
            normalize_images=normalize_images,
            normalize_observations=normalize_observations,
            action_features=action_features,
            action_keys=action_keys,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
        )
        num_actions = int(action_space.n)
        self.q_net = self.make_model(num_actions, self.net_arch)
        self.q_net_target = self.make_model(num_actions, self.net_arch)
        self.q_net_target.load_state_dict(self.q_net.state_dict())
        self.q_net_target.train(False)
        self.optimizer = self.make_optimizer(self.q_net)

    def set_training_mode(self, mode: bool) -> None:
        """Set the mode of the online network, in which some layers differ."""
        self.q_net.train(mode)

    def forward(self, obs: TensorObs, deterministic: bool = True) -> th.Tensor:
        """Return the best available actions."""
        return self._predict(obs, deterministic)

    def _predict(  # type: ignore[override]  # observations are dicts here
        self, observation: TensorObs, deterministic: bool = True
    ) -> th.Tensor:
        values = self.q_net(self.encoder(observation))
        return available_values(values, observation[MASK_KEY]).argmax(dim=1)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data = super()._get_constructor_parameters()
        del data["bias"]
        return data | {"lr_schedule": self._dummy_schedule}


class LinearQPolicy(SASQPolicy):
    """The paper's single layer: linear in the features, without a bias, from 0.

    The arguments are those of `SASQPolicy`; `net_arch` must be empty, and by default
    the features are the paper's kinds: one-hot for a Discrete space, `FourierBasis` for
    a bounded Box of two to four dimensions, else the vector itself.
    """

    hidden_layers = ()
    row_layers = ()
    has_bias = False
    normalizes = False
    extractor_for = staticmethod(linear_features)
    defaults = Defaults(learning_rate=0.064, steps_per_update=64)

    def make_model(self, num_outputs: int, net_arch: list[int]) -> Model:
        """Make a model of one layer."""
        if net_arch:
            raise ValueError(
                f"a linear policy has no hidden layers, got net_arch={net_arch}: "
                "use 'MlpPolicy' for a network"
            )
        return super().make_model(num_outputs, net_arch)


class CnnQPolicy(SASQPolicy):
    """Q-networks on an image: `SASQPolicy`, by default with `NatureCNN`."""

    extractor_for = staticmethod(image_features)


class MultiInputQPolicy(SASQPolicy):
    """Q-networks on a dict: `SASQPolicy`, by default with `DictExtractor`."""

    extractor_for = staticmethod(multi_input_features)
