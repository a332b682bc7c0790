"""Masked softmax policies with their critics, for SASPG and SASNPG."""

from collections.abc import Callable
from typing import Any, ClassVar, cast

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, create_mlp
from stable_baselines3.common.type_aliases import Schedule
from stable_baselines3.common.utils import obs_as_tensor
from torch import nn

from sas_agents._features import (
    VARYING_LAYERS,
    FeaturesWithoutMask,
    OneHot,
    TensorObs,
    array_features,
    bare_space,
    image_features,
    is_layers,
    linear_features,
    multi_input_features,
)
from sas_agents._masked_ops import chosen_log_probs, is_short_row, mask_out, sample
from sas_gym.masks import MASK_KEY

# Largest Discrete space whose logits are tabulated once per rollout. With many more
# states than steps in a rollout (2048), the table would cost more than it saves.
MAX_TABULATED_STATES = 10_000


class Network(nn.Module):
    """Features of the state, hidden layers, and a linear output layer.

    Args:
        features: The features extractor.
        net_arch: Sizes of the hidden layers.
        activation_fn: Their activation function.
        output_size: Number of outputs.
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
        # Whether the features have no parameters, so that they never change.
        self.has_fixed_features = not list(features.parameters())
        # Whether the output is linear in such features, or even a matrix times them.
        self.is_linear = len(layers) == 1 and self.has_fixed_features
        self.is_matrix = self.is_linear and not bias
        # So that a policy starts uniform, and values at 0.
        for parameter in self.output_layer.parameters():
            nn.init.zeros_(parameter)

    @property
    def output_layer(self) -> nn.Linear:
        """The last layer."""
        return cast("nn.Linear", self.layers[-1])

    def encode(self, observation: Any) -> Any:
        """Turn preprocessed observations into what `forward` takes.

        Features that never change are computed here, once per rollout.
        """
        return self.features(observation) if self.has_fixed_features else observation

    def forward(self, encoded: Any) -> th.Tensor:
        """Return one row of outputs per encoded observation."""
        if is_index(encoded):
            output = apply_weight(encoded, self.output_layer.weight)
            bias = self.output_layer.bias
            return output if bias is None else output + bias
        features = encoded if self.has_fixed_features else self.features(encoded)
        result: th.Tensor = self.layers(features)
        return result

    def differentiable(self, encoded: Any) -> th.Tensor:
        """Return the output for `backward`, with a graph where that needs one."""
        with th.set_grad_enabled(not self.is_linear):
            output: th.Tensor = self(encoded)
            return output

    def backward(
        self, encoded: Any, output: th.Tensor, output_gradient: th.Tensor
    ) -> None:
        """Set the parameters' gradients to those of a loss with this gradient.

        For a linear map that is one matrix product: a graph would cost far more.
        """
        if not self.is_linear:
            self.zero_grad()
            output.backward(output_gradient)  # type: ignore[no-untyped-call]  # torch's
            return
        layer = self.output_layer
        layer.weight.grad = weight_gradient(encoded, output_gradient, layer.in_features)
        if layer.bias is not None:
            layer.bias.grad = output_gradient.sum(dim=0)


def is_index(encoded: Any) -> bool:
    """Return whether one-hot features are given as the indices of their ones."""
    return isinstance(encoded, th.Tensor) and encoded.dtype == th.long


def apply_weight(encoded: th.Tensor, weight: th.Tensor) -> th.Tensor:
    """Multiply features with a linear map; for one-hot features, pick its columns.

    `index_select` takes a fifth of the time of an index in brackets.
    """
    if not is_index(encoded):
        return encoded @ weight.T
    if is_short_row(weight.shape[0]):
        return weight.index_select(1, encoded).T
    return weight.T.contiguous().index_select(0, encoded)


def weight_gradient(
    encoded: th.Tensor,
    output_gradient: th.Tensor,
    num_features: int,
    square: bool = False,
) -> th.Tensor:
    """Return the gradient of a linear map of features, or of their squares.

    It has one row per output.
    """
    if is_index(encoded):
        sums = output_gradient.new_zeros(num_features, output_gradient.shape[1])
        sums.index_add_(0, encoded, output_gradient)
    else:
        # In this order: for many outputs the other one takes three times as long.
        sums = (encoded**2 if square else encoded).T @ output_gradient
    # Contiguous: torch's fused optimisers misread a gradient with other strides.
    return sums.T.contiguous()


class SASPolicy(FeaturesWithoutMask, BasePolicy):
    """A masked softmax policy with its two critics, v and q (alias `"MlpPolicy"`).

    Actor and critics are three networks that share nothing, so that the score of the
    policy (the gradient of its log probability) is that of the actor's parameters.

    Args:
        observation_space: A Dict with `action_mask` and whatever shows the state.
        action_space: The base action set.
        lr_schedule: Required by Stable-Baselines3 and not used: the algorithms set the
            rates of the three optimisers.
        net_arch: Sizes of the hidden layers of each network; or, as in SB3,
            `dict(pi=[...], vf=[...])` with those of the actor and of both critics.
            Default: `[64, 64]`; none after `NatureCNN`.
        activation_fn: Their activation function.
        bias: Whether layers have biases. Default: yes.
        use_sde: Must be `False`: state-dependent exploration is for continuous actions.
        features_extractor_class: Features of the state, without the mask. Default:
            `FlattenExtractor`.
        features_extractor_kwargs: Arguments of the features extractor.
        normalize_images: Whether to divide images by 255.
        optimizer_class: Optimiser of each network.
        optimizer_kwargs: Its arguments without the rate.
    """

    action_space: "spaces.Discrete[np.int64]"
    has_bias: ClassVar[bool] = True

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
        normalize_images: bool = True,
        optimizer_class: type[th.optim.Optimizer] = th.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if use_sde:
            raise ValueError("use_sde=True is for continuous actions: leave it out")
        extractor = features_extractor_class
        if extractor is None:
            extractor = self.extractor_for(bare_space(observation_space))
        super().__init__(
            observation_space,
            action_space,
            extractor,
            features_extractor_kwargs,
            normalize_images=normalize_images,
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs,
        )
        self.net_arch = self.net_arch_for(extractor) if net_arch is None else net_arch
        self.activation_fn = activation_fn
        self.bias = self.has_bias if bias is None else bias
        # Its own, so that evaluations do not disturb training; an algorithm shares the
        # one that it saves.
        self.rng = np.random.default_rng()
        num_actions = int(action_space.n)
        actor_layers, critic_layers = layers_of(self.net_arch)
        self.actor = self._network(num_actions, actor_layers)
        self.value_net = self._network(1, critic_layers)
        self.q_net = self._network(num_actions, critic_layers)
        check_layers(self.actor)
        self.optimizer = self._optimizer(self.actor)
        self.value_optimizer = self._optimizer(self.value_net)
        self.q_optimizer = self._optimizer(self.q_net)

    def _network(self, output_size: int, layers: list[int]) -> Network:
        features = self.make_features_extractor()
        return Network(features, layers, self.activation_fn, output_size, self.bias)

    def _optimizer(self, network: Network) -> th.optim.Optimizer:
        make: Callable[..., th.optim.Optimizer] = self.optimizer_class
        return make(network.parameters(), lr=1.0, **self.optimizer_kwargs)

    @th.no_grad()
    def logits_fn(self) -> Callable[[dict[str, NDArray[Any]]], NDArray[Any]]:
        """Return a function from observations to logits, valid until the next update.

        For a Discrete observation space it looks them up in a table: the network sees
        each state once. A matrix times features that NumPy can compute is left to it,
        as torch takes ten times as long for one row.
        """
        space = bare_space(self.observation_space)
        if isinstance(space, spaces.Discrete) and space.n <= MAX_TABULATED_STATES:
            table = self._logits({"observation": np.arange(space.n)})
            return lambda obs: table[obs["observation"].reshape(-1)]
        features = array_features(self.actor.features, space)
        if features is None or not self.actor.is_matrix:
            return self._logits
        weight = self.actor.output_layer.weight.cpu().numpy().T.copy()
        return lambda obs: features(obs["observation"]) @ weight

    @th.no_grad()
    def _logits(self, obs: dict[str, NDArray[Any]]) -> NDArray[Any]:
        tensors = cast("TensorObs", obs_as_tensor(obs, self.device))
        logits: NDArray[Any] = self.actor(self.encode(tensors)).cpu().numpy()
        return logits

    def encode(self, obs: TensorObs) -> Any:
        """Return what the three networks take of observations, without the mask."""
        if self.actor.is_linear and isinstance(self.actor.features, OneHot):
            return obs["observation"].reshape(-1).long()
        with th.no_grad():
            return self.actor.encode(self.preprocess(obs))

    def masked_logits(self, obs: TensorObs) -> th.Tensor:
        """Return the logits, minus infinity outside the action set."""
        return mask_out(self.actor(self.encode(obs)), obs[MASK_KEY])

    def forward(
        self, obs: TensorObs, deterministic: bool = False
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        """Return actions, values (as a column) and log probabilities of the actions."""
        logits = self.masked_logits(obs)
        actions = self._choose(logits, deterministic)
        log_probs = chosen_log_probs(logits.log_softmax(dim=-1), actions)
        return actions, self.predict_values(obs), log_probs

    def predict_values(self, obs: TensorObs) -> th.Tensor:
        """Return v(s) as a column."""
        values: th.Tensor = self.value_net(self.encode(obs))
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


def check_layers(network: Network) -> None:
    """Reject layers with which a sample's score is not a function of the sample."""
    for module in network.modules():
        if isinstance(module, VARYING_LAYERS):
            raise ValueError(
                f"{type(module).__name__} makes the score of a sample depend on other "
                "samples or on chance: use LayerNorm or GroupNorm, or leave it out"
            )


def layers_of(net_arch: Any) -> tuple[list[int], list[int]]:
    """Return the hidden layers of the actor and of the critics.

    Raises:
        ValueError: If it is neither a list of sizes nor SB3's dict of two.
    """
    by_network = net_arch
    if not isinstance(net_arch, dict):
        by_network = {"pi": net_arch, "vf": net_arch}
    if by_network.keys() != {"pi", "vf"} or not all(
        map(is_layers, by_network.values())
    ):
        raise ValueError(
            "net_arch must be a list of layer sizes, such as [64, 64], or "
            f"dict(pi=[64, 64], vf=[64, 64]); got {net_arch!r}"
        )
    return list(by_network["pi"]), list(by_network["vf"])


class LinearPolicy(SASPolicy):
    """The paper's single layer: a linear map of the features, without a bias.

    The arguments are those of `SASPolicy`; by default there are no hidden layers and no
    biases, and the features are the paper's kinds: one-hot for a Discrete space,
    `FourierBasis` for a bounded Box of two to four dimensions, else the vector itself.
    """

    hidden_layers = ()
    has_bias = False
    extractor_for = staticmethod(linear_features)


class CnnPolicy(SASPolicy):
    """Networks on an image: `SASPolicy`, by default with `NatureCNN`."""

    extractor_for = staticmethod(image_features)


class MultiInputPolicy(SASPolicy):
    """Networks on a dict: `SASPolicy`, by default with `CombinedExtractor`."""

    extractor_for = staticmethod(multi_input_features)
