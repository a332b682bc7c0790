"""Masked softmax policies with their critics, for SASPG and SASNPG."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray
from stable_baselines3.common.distributions import (
    CategoricalDistribution,
    Distribution,
)
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import Schedule
from torch import nn

from sas_agents.maths._masked_ops import available_values, chosen_log_probs, sample
from sas_agents.models._features import (
    ArrayObs,
    TensorObs,
    bare_space,
    image_features,
    layers_of,
    linear_features,
    multi_input_features,
)
from sas_agents.models._model import Model, check_layers
from sas_agents.models._policy import ModelPolicy
from sas_gym.masks import MASK_KEY

# Largest Discrete space whose logits are tabulated once per rollout. With many more
# states than steps in a rollout (2048), the table would cost more than it saves.
MAX_TABULATED_STATES = 10_000


class Defaults(NamedTuple):
    """Settings of the agents whose defaults depend on the policy class."""

    learning_rate: float
    """Rate of SASPG's policy, for Adam."""
    n_epochs: int
    """SASPG's passes through a rollout."""
    w_steps: int
    """SASNPG's steps on w."""
    num_minibatches: int
    """Minibatches of a rollout."""
    gae_lambda: float
    """Weight of the longer returns: networks have a less accurate v."""

    @staticmethod
    def critic_rate(*critics: Model) -> float | None:
        """Return the rate of critics, for Adam; None for a fit by least squares."""
        return None if all(critic.is_linear for critic in critics) else 1e-3


class SASPolicy(ModelPolicy):
    """A masked softmax policy with its two critics, v and q (alias `"MlpPolicy"`).

    Actor and critics are three networks that share nothing, so that the score of the
    policy (the gradient of its log probability) is that of the actor's parameters.

    Args:
        observation_space: A Dict with `action_mask` and whatever shows the state.
        action_space: The base action set.
        lr_schedule: Required by Stable-Baselines3 and not used: the algorithms set the
            rates of the three optimisers.
        net_arch: Sizes of the hidden layers of each network; or, as in SB3,
            `dict(pi=[...], vf=[...])` with those of the actor and of both critics, none
            where one is left out. Default: `[64, 64]`; none after `NatureCNN`.
        activation_fn: Their activation function.
        bias: Whether layers have biases. Default: yes.
        use_sde: Must be `False`: state-dependent exploration is for continuous actions.
        features_extractor_class: Features of the state, without the mask. Default:
            `FlattenExtractor`.
        features_extractor_kwargs: Arguments of the features extractor.
        share_features_extractor: Must be `False`: each network has its own.
        normalize_images: Whether to divide images by 255.
        optimizer_class: Optimiser of each network.
        optimizer_kwargs: Its arguments without the rate.
        normalize_observations: Whether numbers of observations are normalised by their
            running mean and standard deviation. Default: yes for networks.
        action_features: Features of the actions that never change, one row per action:
            one network then scores every action by its row. Default: none.
        action_keys: Keys of the observations with one row of features per action, for
            the same network. Default: `action_features`, if the observations have it.
    """

    defaults: ClassVar[Defaults] = Defaults(
        learning_rate=1e-3,
        n_epochs=10,
        w_steps=10,
        num_minibatches=8,
        gae_lambda=0.9,
    )

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: "spaces.Discrete[np.int64]",
        lr_schedule: Schedule,
        net_arch: list[int] | dict[str, list[int]] | None = None,
        activation_fn: type[nn.Module] = nn.Tanh,
        bias: bool | None = None,
        use_sde: bool = False,
        features_extractor_class: type[BaseFeaturesExtractor] | None = None,
        features_extractor_kwargs: dict[str, Any] | None = None,
        share_features_extractor: bool = False,
        normalize_images: bool = True,
        optimizer_class: type[th.optim.Optimizer] = th.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
        normalize_observations: bool | None = None,
        action_features: ArrayLike | None = None,
        action_keys: Sequence[str] | None = None,
    ) -> None:
        if use_sde:
            raise ValueError("use_sde=True is for continuous actions: leave it out")
        if share_features_extractor:
            raise ValueError(
                "share_features_extractor=True: the actor and the critics of SASPG and "
                "SASNPG share nothing; leave it out, or use MaskedPPO"
            )
        super().__init__(
            observation_space,
            action_space,
            net_arch=net_arch,
            activation_fn=activation_fn,
            bias=bias,
            features_extractor_class=features_extractor_class,
            features_extractor_kwargs=features_extractor_kwargs,
            normalize_images=normalize_images,
            normalize_observations=normalize_observations,
            action_features=action_features,
            action_keys=action_keys,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
        )
        # Its own, so that evaluations do not disturb training; an algorithm shares the
        # one that it saves.
        self.rng = np.random.default_rng()
        num_actions = int(action_space.n)
        actor_layers, critic_layers = layers_of(self.net_arch)
        self.actor = self.make_model(num_actions, actor_layers)
        self.value_net = self.make_model(1, critic_layers)
        self.q_net = self.make_model(num_actions, critic_layers)
        check_layers(self.actor)
        self.optimizer = self.make_optimizer(self.actor)
        self.value_optimizer = self.make_optimizer(self.value_net)
        self.q_optimizer = self.make_optimizer(self.q_net)

    def logits_fn(self) -> Callable[[ArrayObs], NDArray[Any]]:
        """Return a function from observations to logits, valid until the next update.

        For a Discrete observation space it looks them up in a table: the network sees
        each state once.
        """
        encode, logits = self.encoder.encode, self.actor.function()
        space = bare_space(self.observation_space)
        if isinstance(space, spaces.Discrete) and space.n <= MAX_TABULATED_STATES:
            table = logits(encode({"observation": np.arange(space.n)}))
            return lambda obs: table[obs["observation"].reshape(-1)]
        return lambda obs: logits(encode(obs))

    def masked_logits(self, obs: TensorObs) -> th.Tensor:
        """Return the logits, minus infinity outside the action set."""
        return available_values(self.actor(self.encoder(obs)), obs[MASK_KEY])

    def forward(
        self, obs: TensorObs, deterministic: bool = False
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        """Return actions, values (as a column) and log probabilities of the actions."""
        logits = self.masked_logits(obs)
        actions = self._choose(logits, deterministic)
        log_probs = chosen_log_probs(logits.log_softmax(dim=-1), actions)
        return actions, self.predict_values(obs), log_probs

    def get_distribution(self, obs: TensorObs) -> Distribution:
        """Return the distribution of the actions, as Stable-Baselines3's policies do.

        Args:
            obs: Observations with their masks, as `obs_to_tensor` returns them.

        Returns:
            One distribution per row; unavailable actions have probability 0:
            `policy.get_distribution(obs).distribution.probs`.
        """
        distribution = CategoricalDistribution(int(self.action_space.n))
        return distribution.proba_distribution(self.masked_logits(obs))

    def predict_values(self, obs: TensorObs) -> th.Tensor:
        """Return v(s) as a column."""
        values: th.Tensor = self.value_net(self.encoder(obs))
        return values

    def _predict(  # type: ignore[override]  # observations are dicts here
        self, observation: TensorObs, deterministic: bool = False
    ) -> th.Tensor:
        return self._choose(self.masked_logits(observation), deterministic)

    def _choose(self, masked_logits: th.Tensor, deterministic: bool) -> th.Tensor:
        if deterministic:
            return masked_logits.argmax(dim=-1)
        return sample(masked_logits.softmax(dim=-1), self.rng)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data = super()._get_constructor_parameters()
        return data | {"lr_schedule": self._dummy_schedule}


class LinearPolicy(SASPolicy):
    """The paper's single layer: a linear map of the features, without a bias.

    The arguments are those of `SASPolicy`; by default there are no hidden layers and no
    biases, and the features are the paper's kinds: one-hot for a Discrete space,
    `FourierBasis` for a bounded Box of two to four dimensions, else the vector itself.
    """

    hidden_layers = ()
    row_layers = ()
    has_bias = False
    normalizes = False
    extractor_for = staticmethod(linear_features)
    defaults = Defaults(
        learning_rate=0.05,
        n_epochs=2,
        w_steps=6,
        num_minibatches=4,
        gae_lambda=0.8,
    )


class CnnPolicy(SASPolicy):
    """Networks on an image: `SASPolicy`, by default with `NatureCNN`."""

    extractor_for = staticmethod(image_features)


class MultiInputPolicy(SASPolicy):
    """Networks on a dict: `SASPolicy`, by default with `DictExtractor`."""

    extractor_for = staticmethod(multi_input_features)
