"""Masked Q-networks and the policies of SASQ."""

from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import Schedule
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork
from torch import nn

from sas_agents._features import (
    FeaturesWithoutMask,
    TensorObs,
    bare_space,
    check_one_network,
    image_features,
    linear_features,
    multi_input_features,
)
from sas_agents._masked_ops import mask_out
from sas_gym.masks import MASK_KEY


class MaskedQNetwork(FeaturesWithoutMask, QNetwork):
    """A Q-network that offers no value for unavailable actions."""

    def forward(self, obs: TensorObs) -> th.Tensor:  # type: ignore[override]  # dicts
        """Return q(s, .) with minus infinity outside the action set."""
        return mask_out(super().forward(obs), obs[MASK_KEY])


class SASQPolicy(FeaturesWithoutMask, DQNPolicy):
    """DQN's policy with masked Q-networks (alias `"MlpPolicy"`).

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
    """

    action_space: "spaces.Discrete[np.int64]"

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
    ) -> None:
        check_one_network(net_arch)
        extractor = features_extractor_class
        if extractor is None:
            extractor = self.extractor_for(bare_space(observation_space))
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            self.net_arch_for(extractor) if net_arch is None else net_arch,
            activation_fn,
            extractor,
            features_extractor_kwargs,
            normalize_images,
            optimizer_class,
            optimizer_kwargs,
        )

    def make_q_net(self) -> QNetwork:
        """Build a masked Q-network."""
        arguments = self._update_features_extractor(self.net_args)
        return MaskedQNetwork(**arguments).to(self.device)


class LinearQPolicy(SASQPolicy):
    """The paper's single layer: linear in the features, without a bias, from 0.

    The arguments are those of `SASQPolicy`; `net_arch` must be empty, and by default
    the features are the paper's kinds: one-hot for a Discrete space, `FourierBasis` for
    a bounded Box of two to four dimensions, else the vector itself.
    """

    hidden_layers = ()
    extractor_for = staticmethod(linear_features)

    def make_q_net(self) -> QNetwork:
        """Build a masked Q-network of one layer, with values of 0."""
        if self.net_arch:
            raise ValueError(
                f"a linear policy has no hidden layers, got net_arch={self.net_arch}: "
                "use 'MlpPolicy' for a network"
            )
        network = super().make_q_net()
        layer = nn.Linear(network.features_dim, int(self.action_space.n), bias=False)
        nn.init.zeros_(layer.weight)
        network.q_net = nn.Sequential(layer).to(self.device)
        return network


class CnnQPolicy(SASQPolicy):
    """Q-networks on an image: `SASQPolicy`, by default with `NatureCNN`."""

    extractor_for = staticmethod(image_features)


class MultiInputQPolicy(SASQPolicy):
    """Q-networks on a dict: `SASQPolicy`, by default with `CombinedExtractor`."""

    extractor_for = staticmethod(multi_input_features)
