"""The base class of policies made of models."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn

from sas_agents.models._features import FeaturesWithoutMask, has_fixed_output
from sas_agents.models._inputs import Encoder
from sas_agents.models._mlp import ACTIVATIONS, Mlp
from sas_agents.models._model import Model, Network


class ModelPolicy(FeaturesWithoutMask, BasePolicy):
    """A policy whose models take the inputs of one encoder.

    Args:
        observation_space: A Dict with `action_mask` and whatever shows the state.
        action_space: The base action set.
        net_arch: The hidden layers; None for the default.
        activation_fn: Their activation function.
        bias: Whether layers have biases; None for the default.
        features_extractor_class: Features of the state, without the mask; None for the
            default.
        features_extractor_kwargs: Arguments of the features extractor.
        normalize_images: Whether to divide images by 255.
        optimizer_class: Optimiser of each model.
        optimizer_kwargs: Its arguments without the rate.
    """

    action_space: "spaces.Discrete[np.int64]"
    has_bias: ClassVar[bool] = True

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        *,
        net_arch: Any,
        activation_fn: type[nn.Module],
        bias: bool | None,
        features_extractor_class: type[BaseFeaturesExtractor] | None,
        features_extractor_kwargs: dict[str, Any] | None,
        normalize_images: bool,
        optimizer_class: type[th.optim.Optimizer],
        optimizer_kwargs: dict[str, Any] | None,
    ) -> None:
        extractor, net_arch = self.architecture(
            observation_space, features_extractor_class, net_arch
        )
        super().__init__(
            observation_space,
            action_space,
            features_extractor_class=extractor,
            features_extractor_kwargs=features_extractor_kwargs,
            normalize_images=normalize_images,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
        )
        self.net_arch = net_arch
        self.activation_fn = activation_fn
        self.bias = self.has_bias if bias is None else bias
        features = self.make_features_extractor()
        # Elsewhere the models have features of their own, and autograd.
        self._has_closed_form = has_fixed_output(features) and (
            activation_fn in ACTIVATIONS
        )
        self._num_features = features.features_dim
        self.encoder = Encoder(
            observation_space,
            features if self._has_closed_form else None,
            normalize_images,
        )

    def make_model(self, num_outputs: int, net_arch: list[int]) -> Model:
        """Make a model with this many outputs and these hidden layers."""
        options = net_arch, self.activation_fn, num_outputs, self.bias
        if self._has_closed_form:
            return Mlp(self._num_features, *options)
        return Network(self.make_features_extractor(), *options)

    def make_optimizer(self, model: Model) -> th.optim.Optimizer:
        """Make the optimiser of a model, whose rate is set later."""
        make: Callable[..., th.optim.Optimizer] = self.optimizer_class
        return make(model.parameters(), lr=1.0, **self.optimizer_kwargs)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data: dict[str, Any] = super()._get_constructor_parameters()
        names = (
            "net_arch",
            "activation_fn",
            "bias",
            "features_extractor_class",
            "features_extractor_kwargs",
            "optimizer_class",
            "optimizer_kwargs",
        )
        return data | {name: getattr(self, name) for name in names}
