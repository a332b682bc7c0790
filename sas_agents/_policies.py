"""Masked policies: a score, a value and an action value for every state."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import (
    BaseFeaturesExtractor,
    CombinedExtractor,
    FlattenExtractor,
    NatureCNN,
    create_mlp,
)
from stable_baselines3.common.type_aliases import Schedule
from stable_baselines3.common.utils import obs_as_tensor
from torch import nn

from sas_agents._features import default_features
from sas_agents._masking import (
    FeaturesWithoutMask,
    TensorObs,
    bare_space,
    mask_out,
    sample,
)
from sas_gym.masks import MASK_KEY

MOST_TABULATED_STATES = 10_000


class Network(nn.Module):
    """Features of the state, hidden layers, and a linear map to one or more numbers.

    Args:
        features: The features extractor.
        net_arch: Sizes of the hidden layers.
        activation_fn: Their activation function.
        output_size: How many numbers come out.
        bias: Whether the layers have biases.
    """

    def __init__(
        self,
        features: BaseFeaturesExtractor,
        net_arch: list[int],
        activation_fn: type[nn.Module],
        output_size: int,
        bias: bool,
    ) -> None:
        super().__init__()
        self.features = features
        layers = create_mlp(
            features.features_dim, output_size, net_arch, activation_fn, with_bias=bias
        )
        self.layers = nn.Sequential(*layers)
        # So that a policy starts uniform, and values at 0.
        for parameter in self.layers[-1].parameters():
            nn.init.zeros_(parameter)

    @property
    def is_linear(self) -> bool:
        """Whether the output is linear in features that have no parameters."""
        return len(self.layers) == 1 and not list(self.features.parameters())

    def forward(self, observation: Any) -> th.Tensor:
        """Return the numbers for preprocessed observations, [B, output_size]."""
        output: th.Tensor = self.layers(self.features(observation))
        return output


class SASPolicy(FeaturesWithoutMask, BasePolicy):
    """A masked softmax policy with its two critics, v and q.

    Actor and critics are three networks that share nothing, so that the score of the
    policy is that of the actor's parameters alone.

    Args:
        observation_space: A Dict with `action_mask` and whatever shows the state.
        action_space: The base action set.
        lr_schedule: Unused: the algorithms set the rates of the three optimisers.
        net_arch: Hidden layers of each network.
        activation_fn: Their activation function.
        bias: Whether layers have biases.
        features_extractor_class: Features to use.
        features_extractor_kwargs: Arguments of the features.
        normalize_images: Whether to divide images by 255.
        optimizer_class: Optimiser of each network.
        optimizer_kwargs: Its arguments but the rate.
        use_sde: Unused; part of Stable-Baselines3's interface.
    """

    action_space: "spaces.Discrete[np.int64]"

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: "spaces.Discrete[np.int64]",
        lr_schedule: Schedule,
        net_arch: list[int] | None = None,
        activation_fn: type[nn.Module] = nn.Tanh,
        bias: bool = True,
        features_extractor_class: type[BaseFeaturesExtractor] = FlattenExtractor,
        features_extractor_kwargs: dict[str, Any] | None = None,
        normalize_images: bool = True,
        optimizer_class: type[th.optim.Optimizer] = th.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
        use_sde: bool = False,
    ) -> None:
        super().__init__(
            observation_space,
            action_space,
            features_extractor_class,
            features_extractor_kwargs,
            normalize_images=normalize_images,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
        )
        is_cnn = features_extractor_class is NatureCNN
        self.net_arch = ([] if is_cnn else [64, 64]) if net_arch is None else net_arch
        self.activation_fn = activation_fn
        self.bias = bias
        # Its own, so that evaluations neither disturb training nor each other's seeds.
        self.generator = th.Generator()
        num_actions = int(action_space.n)
        self.actor = self._network(num_actions)
        self.value_net = self._network(1)
        self.q_net = self._network(num_actions)
        self.optimizer = self._optimizer(self.actor)
        self.value_optimizer = self._optimizer(self.value_net)
        self.q_optimizer = self._optimizer(self.q_net)

    def _network(self, output_size: int) -> Network:
        features = self.make_features_extractor()
        return Network(
            features, self.net_arch, self.activation_fn, output_size, self.bias
        )

    def _optimizer(self, network: Network) -> th.optim.Optimizer:
        make: Callable[..., th.optim.Optimizer] = self.optimizer_class
        return make(network.parameters(), lr=1.0, **self.optimizer_kwargs)

    @th.no_grad()
    def logits_fn(self) -> Callable[[dict[str, NDArray[Any]]], NDArray[Any]]:
        """Return what gives the scores [N, A] of observations until the next update.

        Where the state is a number, that is a table: the network sees each state once.
        """
        space = bare_space(self.observation_space)
        if isinstance(space, spaces.Discrete) and space.n <= MOST_TABULATED_STATES:
            states = {"observation": np.arange(space.n)}
            table = self._scores(states)
            return lambda obs: table[obs["observation"].reshape(-1)]
        return self._scores

    @th.no_grad()
    def _scores(self, obs: dict[str, NDArray[Any]]) -> NDArray[Any]:
        tensors: TensorObs = obs_as_tensor(obs, self.device)
        scores: NDArray[Any] = self.actor(self.preprocess(tensors)).cpu().numpy()
        return scores

    def masked_logits(self, obs: TensorObs) -> th.Tensor:
        """Return the scores, minus infinity outside the set, [B, A]."""
        return mask_out(self.actor(self.preprocess(obs)), obs[MASK_KEY])

    def forward(
        self, obs: TensorObs, deterministic: bool = False
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        """Return actions [B], values [B, 1] and the actions' log probabilities [B]."""
        scores = self.masked_logits(obs)
        actions = self._choose(scores, deterministic)
        log_probs = scores.log_softmax(dim=-1).gather(1, actions[:, None])
        return actions, self.predict_values(obs), log_probs[:, 0]

    def predict_values(self, obs: TensorObs) -> th.Tensor:
        """Return v(s), [B, 1]."""
        values: th.Tensor = self.value_net(self.preprocess(obs))
        return values

    def _predict(
        self, observation: TensorObs, deterministic: bool = False
    ) -> th.Tensor:
        return self._choose(self.masked_logits(observation), deterministic)

    def _choose(self, masked_logits: th.Tensor, deterministic: bool) -> th.Tensor:
        if deterministic:
            return masked_logits.argmax(dim=-1)
        return sample(masked_logits.softmax(dim=-1), self.generator)

    def get_extra_state(self) -> th.Tensor:
        """Return the generator's state: torch saves and loads it with the weights."""
        return self.generator.get_state()

    def set_extra_state(self, state: th.Tensor) -> None:
        """Set the generator's state."""
        self.generator.set_state(state.cpu())

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data: dict[str, Any] = super()._get_constructor_parameters()
        return data | {
            "lr_schedule": self._dummy_schedule,
            "net_arch": self.net_arch,
            "activation_fn": self.activation_fn,
            "bias": self.bias,
            "features_extractor_class": self.features_extractor_class,
            "features_extractor_kwargs": self.features_extractor_kwargs,
            "optimizer_class": self.optimizer_class,
            "optimizer_kwargs": self.optimizer_kwargs,
        }


class CnnPolicy(SASPolicy):
    """Networks on an image."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **({"features_extractor_class": NatureCNN} | kwargs))


class MultiInputPolicy(SASPolicy):
    """Networks on a dict of observations."""

    def __init__(
        self, observation_space: spaces.Dict, *args: Any, **kwargs: Any
    ) -> None:
        defaults = {"features_extractor_class": multi_input_features(observation_space)}
        super().__init__(observation_space, *args, **(defaults | kwargs))


class LinearPolicy(SASPolicy):
    """The paper's single layer: linear maps of `default_features`, without a bias."""

    def __init__(
        self, observation_space: spaces.Dict, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(
            observation_space, *args, **(linear_defaults(observation_space) | kwargs)
        )


def linear_defaults(observation_space: spaces.Dict) -> dict[str, Any]:
    """Return the arguments that make a policy the paper's single layer."""
    features = default_features(bare_space(observation_space))
    return {"net_arch": [], "bias": False, "features_extractor_class": features}


def multi_input_features(observation_space: spaces.Dict) -> type[BaseFeaturesExtractor]:
    """Return what puts several observations together, where there are several."""
    is_dict = isinstance(bare_space(observation_space), spaces.Dict)
    return CombinedExtractor if is_dict else FlattenExtractor
