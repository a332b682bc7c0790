"""The base class of policies made of models."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import ArrayLike
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn

from sas_agents.models._encoder import Encoder
from sas_agents.models._features import (
    FeaturesWithoutMask,
    FourierBasis,
    bare_space,
    has_fixed_output,
)
from sas_agents.models._mlp import ACTIVATIONS, Mlp
from sas_agents.models._model import Model, Network
from sas_agents.models._rows import RowEncoder, row_layout
from sas_gym.masks import discrete_actions


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
        normalize_observations: Whether numbers are normalised by running statistics;
            None for the default.
        action_features: Features of the actions that never change, one row each.
        action_keys: Keys of the observations with one row of features per action.
        optimizer_class: Optimiser of each model.
        optimizer_kwargs: Its arguments without the rate.
    """

    action_space: "spaces.Discrete[np.int64]"
    has_bias: ClassVar[bool] = True
    # Whether numbers are normalised by default.
    normalizes: ClassVar[bool] = True

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
        normalize_observations: bool | None,
        action_features: ArrayLike | None,
        action_keys: Sequence[str] | None,
        optimizer_class: type[th.optim.Optimizer],
        optimizer_kwargs: dict[str, Any] | None,
    ) -> None:
        layout = row_layout(
            observation_space,
            int(discrete_actions(action_space).n),
            action_keys,
            action_features,
        )
        row_keys = () if layout is None else layout.keys
        extractor, net_arch = self.architecture(
            observation_space,
            features_extractor_class,
            net_arch,
            None if layout is None else row_keys,
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
        self.action_features, self.action_keys = action_features, action_keys
        self.normalize_observations = normalize_observations
        self._layout = layout
        features: BaseFeaturesExtractor | None = None
        if bare_space(observation_space, row_keys) != spaces.Dict():
            features = self.make_features_extractor(row_keys)
        # Elsewhere the models have features of their own, and autograd.
        self._has_closed_form = activation_fn in ACTIVATIONS and (
            features is None or has_fixed_output(features)
        )
        self._num_context = 0 if features is None else int(features.features_dim)
        arguments: dict[str, Any] = {
            "observation_space": observation_space,
            "features": features if self._has_closed_form else None,
            "normalize_images": normalize_images,
            "normalize": self._is_normalized(features, normalize_observations),
        }
        if layout is None:
            self.encoder = Encoder(**arguments)
            return
        if not self._has_closed_form:
            raise ValueError(
                "features of actions need activation_fn nn.Tanh or nn.ReLU and a "
                "features extractor without parameters, got "
                f"{activation_fn.__name__} and {extractor.__name__}: leave out images "
                "and learned extractors"
            )
        self.encoder = RowEncoder(layout, **arguments)

    def _is_normalized(
        self, features: BaseFeaturesExtractor | None, wanted: bool | None
    ) -> bool:
        """Return whether numbers are normalised.

        A Fourier basis scales them by the bounds of their space.
        """
        is_basis = isinstance(features, FourierBasis)
        if wanted and is_basis:
            raise ValueError(
                "normalize_observations=True does not go with FourierBasis, which "
                "scales observations by the bounds of their space: leave one out"
            )
        return self.normalizes and not is_basis if wanted is None else wanted

    def make_model(self, num_outputs: int, net_arch: list[int]) -> Model:
        """Make a model with this many outputs and these hidden layers.

        With features of actions, several outputs are those of one network that scores
        every action, and a single one is a value of the mean over all actions.
        """
        options = net_arch, self.activation_fn
        if self._layout is not None:
            return Mlp(
                self._layout.num_features + self._num_context,
                *options,
                num_outputs=1,
                bias=self.bias,
                pools=num_outputs == 1,
                num_context=self._num_context,
            )
        if self._has_closed_form:
            return Mlp(self._num_context, *options, num_outputs, self.bias)
        return Network(self.make_features_extractor(), *options, num_outputs, self.bias)

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
            "normalize_observations",
            "action_features",
            "action_keys",
            "optimizer_class",
            "optimizer_kwargs",
        )
        return data | {name: getattr(self, name) for name in names}
