"""Stable-Baselines3's actor-critic policies, kept inside the action set."""

from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import ArrayLike
from stable_baselines3.common.distributions import (
    CategoricalDistribution,
    Distribution,
)
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.torch_layers import (
    BaseFeaturesExtractor,
    NatureCNN,
    create_mlp,
)
from stable_baselines3.common.type_aliases import Schedule
from torch import nn

from sas_agents._features import default_features
from sas_agents._masking import FeaturesWithoutMask, TensorObs, bare_space
from sas_agents._policies import multi_input_features
from sas_gym.masks import MASK_KEY


def mask_logits(
    logits: th.Tensor, action_mask: th.Tensor, action_space: spaces.Space[Any]
) -> th.Tensor:
    """Take the probability of what is unavailable away.

    The lowest finite number, not minus infinity, stands for log 0: its difference to
    itself is 0 and not NaN, which TRPO's KL divergence needs, and a padded step of a
    recurrent batch, where the mask is empty, stays finite.

    Args:
        logits: One entry per action, [B, A]; for a MultiDiscrete space those of its
            dimensions one after the other, for a MultiBinary one the log odds of 1.
        action_mask: One entry per logit; for a MultiBinary space two, which say whether
            0 and whether 1 is available.
        action_space: The action space.
    """
    lowest = th.finfo(logits.dtype).min
    if isinstance(action_space, spaces.MultiBinary):
        zero, one = action_mask.reshape(*logits.shape, 2).bool().unbind(dim=-1)
        return logits.masked_fill(~one, lowest).masked_fill(~zero, -lowest)
    return logits.masked_fill(action_mask == 0, lowest)


class MaskedFeatures(FeaturesWithoutMask, BasePolicy):
    """Features of the state, and the mask kept for the action distribution.

    It comes *after* Stable-Baselines3's policy among the base classes: its methods are
    those that this policy's own `extract_features` and `get_distribution` call.
    """

    mask_in_features: bool
    _action_mask: th.Tensor

    def make_features_extractor(self) -> BaseFeaturesExtractor:
        """Build the features of the state, with the mask beside them if asked."""
        features = super().make_features_extractor()
        if not self.mask_in_features:
            return features
        return FeaturesBesideMask(self.observation_space, features)

    def extract_features(
        self, obs: TensorObs, features_extractor: BaseFeaturesExtractor
    ) -> th.Tensor:
        """Return the features, and keep the mask of these observations."""
        self._action_mask = obs[MASK_KEY]
        if self.mask_in_features:
            features: th.Tensor = features_extractor(
                (self.preprocess(obs), self._action_mask)
            )
            return features
        return super().extract_features(obs, features_extractor)


class FeaturesBesideMask(BaseFeaturesExtractor):
    """The features of the state, and after them the action mask.

    Args:
        observation_space: The space that has the mask.
        state_features: The features of the state.
    """

    def __init__(
        self, observation_space: spaces.Dict, state_features: BaseFeaturesExtractor
    ) -> None:
        (mask_size,) = observation_space[MASK_KEY].shape or (0,)
        super().__init__(observation_space, state_features.features_dim + mask_size)
        self.state_features = state_features

    def forward(self, inputs: tuple[Any, th.Tensor]) -> th.Tensor:
        """Return the features for a preprocessed state and a mask."""
        state, action_mask = inputs
        return th.cat([self.state_features(state), action_mask.float()], dim=1)


class MaskedDistribution(BasePolicy):
    """What keeps the actions of an actor-critic policy inside the action set.

    `forward`, `evaluate_actions` and `get_distribution` of Stable-Baselines3 all take
    the features of their observations and then ask for the distribution: so the mask of
    the last features is that of the distribution.

    Args:
        *args: As for the policy of Stable-Baselines3.
        mask_in_features: Whether the networks see the mask, too. Values are functions
            of the state alone where sets are drawn anew at each step, so that it would
            be noise; where sets last, it says what comes.
        **kwargs: As for the policy of Stable-Baselines3.
    """

    action_space: spaces.Space[Any]
    action_dist: Any
    action_net: nn.Module
    _action_mask: th.Tensor

    def __init__(
        self, *args: Any, mask_in_features: bool = False, **kwargs: Any
    ) -> None:
        self.mask_in_features = mask_in_features
        super().__init__(*args, **kwargs)

    def logits(self, latent_pi: th.Tensor) -> th.Tensor:
        """Return the logits of all actions, available or not, [B, A]."""
        logits: th.Tensor = self.action_net(latent_pi)
        return logits

    def _get_action_dist_from_latent(self, latent_pi: th.Tensor) -> Distribution:
        logits = self.logits(latent_pi)
        masked = mask_logits(logits, self._action_mask, self.action_space)
        distribution: Distribution = self.action_dist.proba_distribution(masked)
        return distribution

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data: dict[str, Any] = super()._get_constructor_parameters()
        return data | {"mask_in_features": self.mask_in_features}


class MaskedActorCriticPolicy(MaskedDistribution, ActorCriticPolicy, MaskedFeatures):
    """An actor and a critic with hidden layers, for a vector."""


class CnnFeatures(BasePolicy):
    """Makes a policy one for images."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **({"features_extractor_class": NatureCNN} | kwargs))


class MultiInputFeatures(BasePolicy):
    """Makes a policy one for a dict of observations."""

    def __init__(
        self, observation_space: spaces.Dict, *args: Any, **kwargs: Any
    ) -> None:
        defaults = {"features_extractor_class": multi_input_features(observation_space)}
        super().__init__(observation_space, *args, **(defaults | kwargs))


class LinearFeatures(BasePolicy):
    """Makes a policy linear in the paper's features."""

    def __init__(
        self, observation_space: spaces.Dict, *args: Any, **kwargs: Any
    ) -> None:
        features = default_features(bare_space(observation_space))
        defaults: dict[str, Any] = {
            "net_arch": [],
            "features_extractor_class": features,
        }
        super().__init__(observation_space, *args, **(defaults | kwargs))


class MaskedActorCriticCnnPolicy(CnnFeatures, MaskedActorCriticPolicy):
    """An actor and a critic for an image."""


class MaskedMultiInputActorCriticPolicy(MultiInputFeatures, MaskedActorCriticPolicy):
    """An actor and a critic for a dict of observations."""


class MaskedLinearActorCriticPolicy(LinearFeatures, MaskedActorCriticPolicy):
    """An actor and a critic that are linear in the paper's features."""


class TwoTowerPolicy(MaskedMultiInputActorCriticPolicy):
    """Scores actions by their features: a state tower times an action tower.

    The logit of action a in state s is the inner product of two vectors, one that a
    network makes of s and one that another network makes of the features of a. So what
    is learned from one action holds for all that are like it, and the number of
    parameters does not depend on the number of actions: a policy for ten thousand
    products, of which most are never tried.

    Args:
        *args: As for `ActorCriticPolicy`.
        action_features: What is known of each action, [A, F].
        embedding_size: Length of the two vectors.
        action_net_arch: Hidden layers of the action tower. Those of the state tower are
            `net_arch`, as ever.
        **kwargs: As for `ActorCriticPolicy`.
    """

    action_features: th.Tensor

    def __init__(
        self,
        *args: Any,
        action_features: ArrayLike,
        embedding_size: int = 32,
        action_net_arch: list[int] | None = None,
        **kwargs: Any,
    ) -> None:
        # Networks are built by the base class's constructor, which needs these.
        self._features_array = np.asarray(action_features, dtype=np.float32)
        self.embedding_size = embedding_size
        self.action_net_arch = [64] if action_net_arch is None else action_net_arch
        super().__init__(*args, **kwargs)

    def _build(self, lr_schedule: Schedule) -> None:
        features, space = self._features_array, self.action_space
        if not isinstance(space, spaces.Discrete):
            raise ValueError(f"two towers need a Discrete action space, got {space}")
        if features.ndim != 2 or len(features) != space.n:
            raise ValueError(
                f"action_features must have one row per action, {space.n}; got shape "
                f"{features.shape}"
            )
        # The constructor's arguments hold them already: not again with the weights.
        self.register_buffer(
            "action_features", th.as_tensor(features), persistent=False
        )
        layers = create_mlp(
            features.shape[1],
            self.embedding_size,
            self.action_net_arch,
            self.activation_fn,
        )
        self.action_tower = nn.Sequential(*layers)
        # It builds `action_net`, here the last layer of the state tower.
        self.action_dist = CategoricalDistribution(self.embedding_size)
        super()._build(lr_schedule)

    def logits(self, latent_pi: th.Tensor) -> th.Tensor:
        """Return the inner products, [B, A]."""
        embeddings: th.Tensor = self.action_tower(self.action_features)
        return super().logits(latent_pi) @ embeddings.T

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | {
            "action_features": self._features_array,
            "embedding_size": self.embedding_size,
            "action_net_arch": self.action_net_arch,
        }
