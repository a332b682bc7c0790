"""A policy for very many actions, which knows them by their features."""

from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import ArrayLike
from stable_baselines3.common.distributions import CategoricalDistribution
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, create_mlp
from stable_baselines3.common.type_aliases import Schedule
from torch import nn

from sas_agents.masked._policies import MaskedMultiInputActorCriticPolicy
from sas_agents.models._rows import standardized
from sas_gym.masks import discrete_actions


class TwoTowerPolicy(MaskedMultiInputActorCriticPolicy):
    """Scores actions by their features: a state tower times an action tower.

    The logit of an action is the inner product of two vectors: one that a network makes
    of the state, and one that another network makes of the action's features. So what
    is learned from one action holds for all that are like it, and the number of
    parameters does not depend on the number of actions: a policy for ten thousand
    products, most of which are never tried.

    Args:
        observation_space: A Dict with `action_mask` and whatever shows the state.
        action_space: A Discrete space.
        lr_schedule: Learning rate, of which the value at the start is used here.
        action_features: What is known of each action, one row per action, in any units:
            they are standardised.
        embedding_size: Length of the two vectors.
        action_net_arch: Sizes of the hidden layers of the action tower. Default:
            `[64]`.
        net_arch: Those of the state tower and the critic, as for
            `MaskedActorCriticPolicy`; as are all further arguments.
        activation_fn: Activation function of all hidden layers.
        ortho_init: Whether weights of the state tower and the critic start orthogonal.
        use_sde: Must be `False`: state-dependent exploration is for continuous actions.
        features_extractor_class: Features of the state. Default: `DictExtractor`
            for a dict, else `FlattenExtractor`.
        features_extractor_kwargs: Arguments of the features extractor.
        share_features_extractor: Whether actor and critic have one features extractor.
        normalize_images: Whether to divide images by 255.
        optimizer_class: Optimiser.
        optimizer_kwargs: Its arguments without the rate.
        mask_in_features: Whether the networks see the mask, too.
    """

    action_features: th.Tensor

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        lr_schedule: Schedule,
        action_features: ArrayLike,
        embedding_size: int = 32,
        action_net_arch: list[int] | None = None,
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
        mask_in_features: bool = False,
    ) -> None:
        features = np.asarray(action_features, dtype=np.float32)
        num_actions = discrete_actions(action_space).n
        if features.ndim != 2 or len(features) != num_actions:
            raise ValueError(
                f"action_features must have one row per action, {num_actions} rows; "
                f"got shape {features.shape}"
            )
        # The base class's constructor builds the networks, which need these.
        self._features_array = features
        self.embedding_size = embedding_size
        self.action_net_arch = [64] if action_net_arch is None else action_net_arch
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            net_arch,
            activation_fn,
            ortho_init,
            use_sde,
            features_extractor_class,
            features_extractor_kwargs,
            share_features_extractor,
            normalize_images,
            optimizer_class,
            optimizer_kwargs,
            mask_in_features,
            action_keys=[],
        )

    def _build(self, lr_schedule: Schedule) -> None:
        # Saved with the constructor's arguments already: not again with the weights.
        features = th.as_tensor(standardized(self._features_array))
        self.register_buffer("action_features", features, persistent=False)
        layers = create_mlp(
            features.shape[1],
            self.embedding_size,
            self.action_net_arch,
            self.activation_fn,
        )
        self.action_tower = nn.Sequential(*layers)
        # By its size SB3 builds `action_net`, here the last layer of the state tower.
        self.action_dist = CategoricalDistribution(self.embedding_size)
        super()._build(lr_schedule)

    def logits(self, latent_pi: th.Tensor) -> th.Tensor:
        """Return the inner products of state and actions."""
        embeddings: th.Tensor = self.action_tower(self.action_features)
        return super().logits(latent_pi) @ embeddings.T

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data = super()._get_constructor_parameters()
        del data["action_keys"]
        return data | {
            "action_features": self._features_array,
            "embedding_size": self.embedding_size,
            "action_net_arch": self.action_net_arch,
        }
