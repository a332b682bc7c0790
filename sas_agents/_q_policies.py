"""Masked Q-networks."""

from typing import Any

import torch as th
from gymnasium import spaces
from stable_baselines3.common.torch_layers import NatureCNN
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork
from torch import nn

from sas_agents._masking import FeaturesWithoutMask, TensorObs, mask_out
from sas_agents._policies import linear_defaults, multi_input_features
from sas_gym.masks import MASK_KEY


class MaskedQNetwork(FeaturesWithoutMask, QNetwork):
    """A Q-network that offers no value for unavailable actions."""

    def forward(self, obs: TensorObs) -> th.Tensor:
        """Return q(s, .), minus infinity outside the action set, [B, A]."""
        return mask_out(super().forward(obs), obs[MASK_KEY])


class LinearQNetwork(MaskedQNetwork):
    """A single layer without a bias, which starts at 0."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        layer = nn.Linear(self.features_dim, int(self.action_space.n), bias=False)
        nn.init.zeros_(layer.weight)
        self.q_net = nn.Sequential(layer)


class SASQPolicy(FeaturesWithoutMask, DQNPolicy):
    """DQN's policy with masked Q-networks; the arguments are DQN's."""

    network_class: type[MaskedQNetwork] = MaskedQNetwork

    def make_q_net(self) -> QNetwork:
        """Build a masked Q-network."""
        arguments = self._update_features_extractor(self.net_args)
        return self.network_class(**arguments).to(self.device)


class CnnQPolicy(SASQPolicy):
    """Q-networks on an image."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **({"features_extractor_class": NatureCNN} | kwargs))


class MultiInputQPolicy(SASQPolicy):
    """Q-networks on a dict of observations."""

    def __init__(
        self, observation_space: spaces.Dict, *args: Any, **kwargs: Any
    ) -> None:
        defaults = {"features_extractor_class": multi_input_features(observation_space)}
        super().__init__(observation_space, *args, **(defaults | kwargs))


class LinearQPolicy(SASQPolicy):
    """The paper's single layer: linear in `default_features`, without a bias."""

    network_class = LinearQNetwork

    def __init__(
        self, observation_space: spaces.Dict, *args: Any, **kwargs: Any
    ) -> None:
        defaults = linear_defaults(observation_space)
        del defaults["bias"]
        super().__init__(observation_space, *args, **(defaults | kwargs))
