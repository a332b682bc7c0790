"""sb3-contrib's recurrent and quantile policies, kept inside the action set."""

from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from sb3_contrib.qrdqn.policies import QRDQNPolicy, QuantileNetwork
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import Schedule
from torch import nn

from sas_agents.masked._policies import MaskedDistribution, MaskedFeatures
from sas_agents.masked._rows import check_no_rows
from sas_agents.maths._masked_ops import available_values, mask_out
from sas_agents.models._features import (
    FeaturesWithoutMask,
    TensorObs,
    check_one_network,
    image_features,
    linear_features,
    multi_input_features,
)
from sas_gym.masks import MASK_KEY, mask_sizes


class MaskedLstmPolicy(  # type: ignore[misc]  # SB3 widens `extract_features`
    MaskedDistribution, RecurrentActorCriticPolicy, MaskedFeatures
):
    """An actor and a critic with memories (alias `"MlpLstmPolicy"`).

    Args:
        observation_space: A Dict with `action_mask` and whatever shows the state.
        action_space: A Discrete or MultiDiscrete space.
        lr_schedule: Learning rate, of which the value at the start is used here.
        net_arch: Sizes of the hidden layers after the memory, as for
            `MaskedActorCriticPolicy`.
        activation_fn: Their activation function.
        ortho_init: Whether weights start orthogonal.
        use_sde: Must be `False`: state-dependent exploration is for continuous actions.
        features_extractor_class: Features of the state. Default: `FlattenExtractor`.
        features_extractor_kwargs: Arguments of the features extractor.
        share_features_extractor: Whether actor and critic have one features extractor.
        normalize_images: Whether to divide images by 255.
        optimizer_class: Optimiser.
        optimizer_kwargs: Its arguments without the rate.
        lstm_hidden_size: Number of units of an LSTM.
        n_lstm_layers: Number of its layers.
        shared_lstm: Whether the critic uses the actor's LSTM, without training it.
        enable_critic_lstm: Whether the critic has an LSTM of its own.
        lstm_kwargs: Further arguments of the LSTMs.
        mask_in_features: Whether the memories see the mask. By default they do: it is
            for sets that last that a memory is needed.
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        lr_schedule: Schedule,
        net_arch: list[int] | dict[str, list[int]] | None = None,
        activation_fn: type[nn.Module] = nn.Tanh,
        ortho_init: bool = True,
        use_sde: bool = False,
        features_extractor_class: type[BaseFeaturesExtractor] | None = None,
        features_extractor_kwargs: dict[str, Any] | None = None,
        share_features_extractor: bool = True,
        normalize_images: bool = True,
        optimizer_class: type[th.optim.Optimizer] = th.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
        lstm_hidden_size: int = 256,
        n_lstm_layers: int = 1,
        shared_lstm: bool = False,
        enable_critic_lstm: bool = True,
        lstm_kwargs: dict[str, Any] | None = None,
        mask_in_features: bool = True,
    ) -> None:
        mask_sizes(action_space)  # refuses continuous actions
        if isinstance(action_space, spaces.MultiBinary):
            raise ValueError(
                "RecurrentPPO's buffer in sb3-contrib does not take MultiBinary "
                "actions: use MultiDiscrete([2, 2, ...])"
            )
        self.mask_in_features = mask_in_features
        check_no_rows("MaskedRecurrentPPO", observation_space)
        extractor, net_arch = self.architecture(
            observation_space, features_extractor_class, net_arch
        )
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            net_arch,
            activation_fn,
            ortho_init,
            use_sde,
            features_extractor_class=extractor,
            features_extractor_kwargs=features_extractor_kwargs,
            share_features_extractor=share_features_extractor,
            normalize_images=normalize_images,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
            lstm_hidden_size=lstm_hidden_size,
            n_lstm_layers=n_lstm_layers,
            shared_lstm=shared_lstm,
            enable_critic_lstm=enable_critic_lstm,
            lstm_kwargs=lstm_kwargs,
        )

    def _get_constructor_parameters(self) -> dict[str, Any]:
        # sb3-contrib leaves these out, so that its saved policies cannot be loaded.
        return super()._get_constructor_parameters() | {
            "lstm_hidden_size": self.lstm_output_dim,
            "n_lstm_layers": self.lstm_actor.num_layers,
            "shared_lstm": self.shared_lstm,
            "enable_critic_lstm": self.enable_critic_lstm,
            "lstm_kwargs": self.lstm_kwargs,
        }


class MaskedLinearLstmPolicy(MaskedLstmPolicy):
    """A memory of the paper's features, and linear maps of it."""

    hidden_layers = ()
    extractor_for = staticmethod(linear_features)


class MaskedCnnLstmPolicy(MaskedLstmPolicy):
    """For an image: features are `NatureCNN` by default."""

    extractor_for = staticmethod(image_features)


class MaskedMultiInputLstmPolicy(MaskedLstmPolicy):
    """For a dict: features are `DictExtractor` by default."""

    extractor_for = staticmethod(multi_input_features)


class MaskedQuantileNetwork(FeaturesWithoutMask, QuantileNetwork):
    """Quantiles of the return; those of unavailable actions are the lowest numbers."""

    def forward(self, obs: TensorObs) -> th.Tensor:  # type: ignore[override]  # dicts
        """Return the quantiles of every action, [B, Q, A]."""
        quantiles = super().forward(obs)
        lowest = th.finfo(quantiles.dtype).min
        return mask_out(quantiles, obs[MASK_KEY][:, None], lowest)

    def _predict(  # type: ignore[override]  # observations are dicts here
        self, observation: TensorObs, deterministic: bool = True
    ) -> th.Tensor:
        means = super().forward(observation).mean(dim=1)
        return available_values(means, observation[MASK_KEY]).argmax(dim=1)


class MaskedQRDQNPolicy(FeaturesWithoutMask, QRDQNPolicy):
    """QR-DQN's policy with masked networks (alias `"MlpPolicy"`).

    Args:
        observation_space: A Dict with `action_mask` and whatever shows the state.
        action_space: The base action set.
        lr_schedule: Learning rate, of which the value at the start is used here.
        n_quantiles: Number of quantiles of each action.
        net_arch: Sizes of the hidden layers. Default: `[64, 64]`; none after
            `NatureCNN`.
        activation_fn: Their activation function.
        features_extractor_class: Features of the state. Default: `FlattenExtractor`.
        features_extractor_kwargs: Arguments of the features extractor.
        normalize_images: Whether to divide images by 255.
        optimizer_class: Optimiser.
        optimizer_kwargs: Its arguments without the rate.
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: "spaces.Discrete[np.int64]",
        lr_schedule: Schedule,
        n_quantiles: int = 200,
        net_arch: list[int] | None = None,
        activation_fn: type[nn.Module] = nn.ReLU,
        features_extractor_class: type[BaseFeaturesExtractor] | None = None,
        features_extractor_kwargs: dict[str, Any] | None = None,
        normalize_images: bool = True,
        optimizer_class: type[th.optim.Optimizer] = th.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
    ) -> None:
        check_one_network(net_arch)
        check_no_rows("MaskedQRDQN", observation_space)
        extractor, net_arch = self.architecture(
            observation_space, features_extractor_class, net_arch
        )
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            n_quantiles,
            net_arch,
            activation_fn,
            extractor,
            features_extractor_kwargs,
            normalize_images,
            optimizer_class,
            optimizer_kwargs,
        )

    def make_quantile_net(self) -> QuantileNetwork:
        """Build a masked quantile network."""
        arguments = self._update_features_extractor(self.net_args)
        return MaskedQuantileNetwork(**arguments).to(self.device)


class MaskedQRDQNLinearPolicy(MaskedQRDQNPolicy):
    """Quantiles that are linear in the paper's features; see `LinearPolicy`."""

    hidden_layers = ()
    extractor_for = staticmethod(linear_features)


class MaskedQRDQNCnnPolicy(MaskedQRDQNPolicy):
    """For an image: features are `NatureCNN` by default."""

    extractor_for = staticmethod(image_features)


class MaskedQRDQNMultiInputPolicy(MaskedQRDQNPolicy):
    """For a dict: features are `DictExtractor` by default."""

    extractor_for = staticmethod(multi_input_features)
