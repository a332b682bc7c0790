"""Stable-Baselines3's actor-critic policies, kept inside the action set."""

from collections.abc import Sequence
from typing import Any

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
    FlattenExtractor,
)
from stable_baselines3.common.type_aliases import Schedule
from torch import nn
from torch.distributions import Categorical

from sas_agents.masked._rows import RowScores, check_no_rows
from sas_agents.maths._masked_ops import mask_out
from sas_agents.models._features import (
    FeaturesWithoutMask,
    TensorObs,
    bare_space,
    image_features,
    linear_features,
    multi_input_features,
)
from sas_agents.models._rows import RowEncoder, RowLayout, row_layout
from sas_gym.masks import MASK_KEY, mask_sizes

# Arguments of SB3's actor-critic policies that continuous actions alone have a use for.
CONTINUOUS_ONLY = "log_std_init", "full_std", "use_expln", "squash_output"


def mask_logits(
    logits: th.Tensor, action_mask: th.Tensor, action_space: spaces.Space[Any]
) -> th.Tensor:
    """Give unavailable actions the probability 0.

    Their logits become a very low number and not minus infinity: its difference to
    itself is 0 and not NaN, which TRPO's KL divergence needs, and the padded steps of a
    recurrent batch, whose masks are empty, stay finite. It is half the lowest one, from
    which the normaliser can be subtracted.

    Args:
        logits: One row per observation. For a MultiDiscrete space those of all
            dimensions one after the other, for a MultiBinary one the log odds of 1.
        action_mask: One entry per logit; for a MultiBinary space two, which say whether
            0 and whether 1 is available.
        action_space: The action space.
    """
    low = th.finfo(logits.dtype).min / 2
    if isinstance(action_space, spaces.MultiBinary):
        zero, one = action_mask.reshape(*logits.shape, 2).unbind(dim=-1)
        return mask_out(mask_out(logits, one, low), zero, -low)
    return mask_out(logits, action_mask, low)


NOT_FINITE = (
    "the policy's logits are not finite (NaN or infinite): check rewards and "
    "observations, or lower learning_rate"
)


class FiniteCategorical(Categorical):
    """PyTorch's distribution of finite logits, bit for bit, with one check for several.

    Its checks of arguments and its broadcasts take longer than the mathematics of a
    small policy.

    Args:
        logits: One row per observation.
    """

    def __init__(self, logits: th.Tensor) -> None:
        super().__init__(logits=logits, validate_args=False)
        # One logit that is not finite spoils its whole row by the normaliser.
        if not self.logits[..., 0].isfinite().all():
            raise ValueError(NOT_FINITE)

    def log_prob(self, value: th.Tensor) -> th.Tensor:
        """Return the log probability of one action per row."""
        return self.logits.gather(-1, value.long()[..., None])[..., 0]

    def entropy(self) -> th.Tensor:
        """Return the entropy of each row."""
        # The lowest numbers, of probability 0, would overflow times a gradient.
        return -(self.logits.clamp_min(-1e30) * self.probs).sum(dim=-1)


class MaskedFeatures(FeaturesWithoutMask, BasePolicy):
    """Features of the state, while the mask is kept for the action distribution.

    Among the base classes it comes *after* Stable-Baselines3's policy, whose own
    `extract_features` and `get_distribution` call the method of this name here.
    """

    mask_in_features: bool
    _action_mask: th.Tensor
    _row_encoder: RowEncoder
    _layout: RowLayout | None = None

    def make_features_extractor(
        self, without: Sequence[str] = ()
    ) -> BaseFeaturesExtractor:
        """Build the features of the state, with the mask beside them if asked.

        Args:
            without: Further keys that the features do not see.
        """
        features = super().make_features_extractor(without)
        if not self.mask_in_features:
            return features
        return FeaturesBesideMask(self.observation_space, features)

    def extract_features(  # type: ignore[override]  # observations are dicts here
        self, obs: TensorObs, features_extractor: BaseFeaturesExtractor
    ) -> th.Tensor:
        """Return the features, and keep the mask of these observations.

        Where actions have features, they are the rows beside their context.
        """
        self._action_mask = obs[MASK_KEY]
        if self._layout is not None:
            rows: th.Tensor = self._row_encoder(obs)
            return rows
        if not self.mask_in_features:
            return super().extract_features(obs, features_extractor)
        features: th.Tensor = features_extractor(
            (self.preprocess(obs), self._action_mask)
        )
        return features


class FeaturesBesideMask(BaseFeaturesExtractor):
    """The features of the state, and after them the action mask.

    Args:
        observation_space: The space that has the mask.
        state_features: The features of the state.
    """

    def __init__(
        self, observation_space: spaces.Dict, state_features: BaseFeaturesExtractor
    ) -> None:
        mask_size = spaces.flatdim(observation_space[MASK_KEY])
        super().__init__(observation_space, state_features.features_dim + mask_size)
        self.state_features = state_features

    def forward(self, inputs: tuple[Any, th.Tensor]) -> th.Tensor:
        """Return the features for a preprocessed state and a mask."""
        state, action_mask = inputs
        return th.cat([self.state_features(state), action_mask.float()], dim=1)


class MaskedDistribution(BasePolicy):
    """Keeps the actions of an actor-critic policy inside the action set.

    `forward`, `evaluate_actions` and `get_distribution` of Stable-Baselines3 all
    extract the features of their observations and then ask for the distribution: so
    its mask is that of the last features.
    """

    action_dist: Any
    action_net: nn.Module
    mask_in_features: bool
    _action_mask: th.Tensor

    def logits(self, latent_pi: th.Tensor) -> th.Tensor:
        """Return the logits of all actions, available or not."""
        logits: th.Tensor = self.action_net(latent_pi)
        return logits

    def _get_action_dist_from_latent(self, latent_pi: th.Tensor) -> Distribution:
        logits = self.logits(latent_pi)
        masked = mask_logits(logits, self._action_mask, self.action_space)
        if isinstance(self.action_dist, CategoricalDistribution):
            self.action_dist.distribution = FiniteCategorical(masked)
            return self.action_dist
        try:
            distribution: Distribution = self.action_dist.proba_distribution(masked)
        except ValueError as error:  # torch's, which names the masked logits
            raise ValueError(NOT_FINITE) from error
        return distribution

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data = super()._get_constructor_parameters()
        kept = {name: data[name] for name in data if name not in CONTINUOUS_ONLY}
        return kept | {"mask_in_features": self.mask_in_features}


class MaskedActorCriticPolicy(  # type: ignore[misc]  # SB3 widens `extract_features`
    MaskedDistribution, ActorCriticPolicy, MaskedFeatures
):
    """An actor and a critic that share no hidden layer (alias `"MlpPolicy"`).

    Args:
        observation_space: A Dict with `action_mask` and whatever shows the state.
        action_space: A Discrete, MultiDiscrete or MultiBinary space.
        lr_schedule: Learning rate, of which the value at the start is used here.
        net_arch: Sizes of the hidden layers, of both networks or as
            `{"pi": [...], "vf": [...]}`. Default: `[64, 64]`; none after `NatureCNN`.
        activation_fn: Their activation function.
        ortho_init: Whether weights start orthogonal.
        use_sde: Must be `False`: state-dependent exploration is for continuous actions.
        features_extractor_class: Features of the state. Default: `FlattenExtractor`.
        features_extractor_kwargs: Arguments of the features extractor.
        share_features_extractor: Whether actor and critic have one features extractor.
        normalize_images: Whether to divide images by 255.
        optimizer_class: Optimiser.
        optimizer_kwargs: Its arguments without the rate.
        mask_in_features: Whether the networks see the mask, too. Where sets are drawn
            again at each step, values are functions of the state alone and the mask is
            noise; where sets last, it says what is to come.
        action_features: Features of Discrete actions that never change, one row per
            action: one network then scores every action by its row. Default: none.
        action_keys: Keys of the observations with one row of features per action, for
            the same network. Default: `action_features`, if the observations have it.
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
        mask_in_features: bool = False,
        action_features: ArrayLike | None = None,
        action_keys: Sequence[str] | None = None,
    ) -> None:
        mask_sizes(action_space)  # refuses continuous actions
        self.mask_in_features = mask_in_features
        self._static_rows, self._row_keys = action_features, action_keys
        self._layout = self._row_layout(observation_space, action_space)
        row_keys = None if self._layout is None else self._layout.keys
        extractor, net_arch = self.architecture(
            observation_space, features_extractor_class, net_arch, row_keys
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
        )

    def _row_layout(
        self, observation_space: spaces.Dict, action_space: spaces.Space[Any]
    ) -> RowLayout | None:
        """Return the places of the actions' features; None where there are none."""
        if not isinstance(action_space, spaces.Discrete):
            check_no_rows(f"A policy of {action_space}", observation_space)
            return None
        layout = row_layout(
            observation_space,
            int(action_space.n),
            self._row_keys,
            self._static_rows,
        )
        if layout is not None and self.mask_in_features:
            raise ValueError(
                "mask_in_features=True does not go with features of actions: add a "
                "column to the rows"
            )
        return layout

    def make_features_extractor(
        self, without: Sequence[str] = ()
    ) -> BaseFeaturesExtractor:
        """Build the features of the state; of the context, where actions have rows.

        Args:
            without: Further keys that the features do not see.
        """
        if self._layout is None:
            return super().make_features_extractor(without)
        keys = (*without, *self._layout.keys)
        if bare_space(self.observation_space, keys) == spaces.Dict():
            return FlattenExtractor(spaces.Box(0, 1, (0,)))
        return super().make_features_extractor(keys)

    def _build_mlp_extractor(self) -> None:
        if self._layout is None:
            super()._build_mlp_extractor()
            return
        num_context = int(self.features_extractor.features_dim)
        self._row_encoder = RowEncoder(
            self._layout,
            observation_space=self.observation_space,
            features=self.features_extractor if num_context else None,
            normalize_images=self.normalize_images,
        )
        scores: Any = RowScores(
            self._layout.num_features + num_context,
            num_context,
            self.net_arch,
            self.activation_fn,
        )
        self.mlp_extractor = scores.to(self.device)

    def _build(self, lr_schedule: Schedule) -> None:
        super()._build(lr_schedule)
        if self._layout is None:
            return
        # The scores are the logits and the value already.
        heads: Any = self
        heads.action_net = heads.value_net = nn.Identity()
        make: Any = self.optimizer_class
        rate = lr_schedule(1)
        self.optimizer = make(self.parameters(), lr=rate, **self.optimizer_kwargs)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | {
            "action_features": self._static_rows,
            "action_keys": self._row_keys,
        }


class MaskedLinearActorCriticPolicy(MaskedActorCriticPolicy):
    """Logits and values linear in the paper's features; see `LinearPolicy`."""

    hidden_layers = ()
    row_layers = ()
    extractor_for = staticmethod(linear_features)


class MaskedActorCriticCnnPolicy(MaskedActorCriticPolicy):
    """For an image: features are `NatureCNN` by default."""

    extractor_for = staticmethod(image_features)


class MaskedMultiInputActorCriticPolicy(MaskedActorCriticPolicy):
    """For a dict: features are `DictExtractor` by default."""

    extractor_for = staticmethod(multi_input_features)
