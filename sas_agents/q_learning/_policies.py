"""Masked Q-networks and the policies of SASQ."""

from typing import Any, cast

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import Schedule
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork
from torch import nn
from torch.nn import functional as F

from sas_agents.maths._masked_ops import available_values
from sas_agents.models._features import (
    FeaturesWithoutMask,
    OneHot,
    TensorObs,
    array_features,
    bare_space,
    check_one_network,
    has_fixed_output,
    image_features,
    linear_features,
    multi_input_features,
)
from sas_agents.models._networks import as_array
from sas_gym.masks import MASK_KEY


class MaskedQNetwork(FeaturesWithoutMask, QNetwork):
    """A Q-network that offers no value for unavailable actions."""

    def forward(self, obs: TensorObs) -> th.Tensor:  # type: ignore[override]  # dicts
        """Return q(s, .) with minus infinity outside the action set."""
        return available_values(super().forward(obs), obs[MASK_KEY])

    def encode(self, obs: TensorObs) -> Any:
        """Turn observations into what the methods below take: here nothing changes."""
        return obs

    @th.no_grad()
    def values(self, encoded: Any) -> NDArray[Any]:
        """Return q(s, .) of all actions, whether available or not."""
        return as_array(super().forward(encoded))

    def values_of(self, encoded: Any, actions: NDArray[Any]) -> NDArray[Any]:
        """Return q(s, a) of one action per row."""
        values = self.values(encoded)
        chosen: NDArray[Any] = values[np.arange(len(values)), actions]
        return chosen

    def set_gradient(
        self, encoded: Any, actions: NDArray[Any], target: NDArray[Any]
    ) -> float:
        """Set the parameters' gradients to those of the loss, and return it.

        Args:
            encoded: Encoded observations.
            actions: The actions taken.
            target: The targets of their values. The loss is half the mean square of the
                differences.
        """
        columns = th.as_tensor(actions, device=self.device)[:, None]
        q_values = super().forward(encoded).gather(1, columns)[:, 0]
        loss = 0.5 * F.mse_loss(q_values, th.as_tensor(target, device=self.device))
        self.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # untyped in torch
        return float(loss.detach())


class LinearQNetwork(MaskedQNetwork):
    """A matrix times features that never change.

    Features are computed once per batch, the gradient is written down, and all of it is
    left to NumPy: for so little work, torch and its graph take twice as long or more.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        space = bare_space(self.observation_space)
        self._array_features = array_features(self.features_extractor, space)

    @property
    def weight(self) -> th.Tensor:
        """The matrix, one row per action."""
        return cast("nn.Linear", self.q_net[0]).weight

    def encode(self, obs: TensorObs) -> NDArray[Any]:
        """Return the features; where they are one-hot, the indices of their ones."""
        if type(self.features_extractor) is OneHot:
            return as_array(obs["observation"]).reshape(-1)
        if self._array_features is not None:
            return self._array_features(as_array(obs["observation"].float()))
        return as_array(self.extract_features(obs, self.features_extractor))

    def values(self, encoded: NDArray[Any]) -> NDArray[Any]:
        """Return q(s, .) of all actions, whether available or not."""
        weight = as_array(self.weight).T
        if encoded.ndim == 1:
            return weight.take(encoded, axis=0)
        product: NDArray[Any] = encoded @ weight
        return product

    def values_of(self, encoded: NDArray[Any], actions: NDArray[Any]) -> NDArray[Any]:
        """Return q(s, a) of one action per row."""
        weight = as_array(self.weight)
        values: NDArray[Any]
        if encoded.ndim == 1:
            values = weight[actions, encoded]
        else:
            values = np.einsum("bf,bf->b", encoded, weight.take(actions, axis=0))
        return values

    def set_gradient(
        self, encoded: NDArray[Any], actions: NDArray[Any], target: NDArray[Any]
    ) -> float:
        """Set the matrix's gradient: the features of each action, times the errors."""
        error = self.values_of(encoded, actions) - target
        weights = th.from_numpy(error / len(error))
        columns, features = th.from_numpy(actions), th.from_numpy(encoded)
        sums = th.zeros_like(self.weight, device="cpu")
        if encoded.ndim == 1:
            cells = columns * sums.shape[1] + features
            sums.view(-1).index_add_(0, cells, weights)
        else:
            # A matrix product over all actions takes twice as long for 100 of them.
            sums.index_add_(0, columns, weights[:, None] * features)
        self.weight.grad = sums.to(self.weight.device)
        return 0.5 * float(np.square(error).mean())


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

    def _build(self, lr_schedule: Schedule) -> None:
        if self.optimizer_class is th.optim.Adam:
            # A third faster for a matrix, whose gradient is contiguous as this needs.
            self.optimizer_kwargs = {"fused": True} | self.optimizer_kwargs
        super()._build(lr_schedule)

    def make_q_net(self) -> QNetwork:
        """Build a masked Q-network of one layer, with values of 0."""
        if self.net_arch:
            raise ValueError(
                f"a linear policy has no hidden layers, got net_arch={self.net_arch}: "
                "use 'MlpPolicy' for a network"
            )
        arguments = self._update_features_extractor(self.net_args)
        is_fixed = has_fixed_output(arguments["features_extractor"])
        network_class = LinearQNetwork if is_fixed else MaskedQNetwork
        network = network_class(**arguments).to(self.device)
        layer = nn.Linear(network.features_dim, int(self.action_space.n), bias=False)
        nn.init.zeros_(layer.weight)
        network.q_net = nn.Sequential(layer).to(self.device)
        return network

    def set_training_mode(self, mode: bool) -> None:
        """Set the mode, of learned features only: fixed ones are the same in both."""
        mode = mode and not isinstance(self.q_net, LinearQNetwork)
        if mode != self.training:
            super().set_training_mode(mode)


class CnnQPolicy(SASQPolicy):
    """Q-networks on an image: `SASQPolicy`, by default with `NatureCNN`."""

    extractor_for = staticmethod(image_features)


class MultiInputQPolicy(SASQPolicy):
    """Q-networks on a dict: `SASQPolicy`, by default with `DictExtractor`."""

    extractor_for = staticmethod(multi_input_features)
