"""Features of actions in Stable-Baselines3's actor-critic policies."""

from typing import Any

import torch as th
from gymnasium import spaces
from torch import nn

from sas_agents.models._features import layers_of
from sas_agents.models._mlp import ACTIVATIONS, Mlp
from sas_agents.models._rows import ACTION_FEATURES


class RowScores(nn.Module):
    """Scores every action by its row, and the state by the mean over all rows.

    It stands in the place of Stable-Baselines3's `MlpExtractor`.

    Args:
        num_features: Number of features of an action and of the context together.
        num_context: Number of features of the context.
        net_arch: Sizes of the hidden layers, as Stable-Baselines3 takes them.
        activation_fn: Their activation function.
    """

    # Stable-Baselines3 makes layers of these sizes, which `replace_heads` removes.
    latent_dim_pi = latent_dim_vf = 1

    def __init__(
        self,
        num_features: int,
        num_context: int,
        net_arch: Any,
        activation_fn: type[nn.Module],
    ) -> None:
        super().__init__()
        if activation_fn not in ACTIVATIONS:
            raise ValueError(
                "features of actions need activation_fn nn.Tanh or nn.ReLU, got "
                f"{activation_fn.__name__}"
            )
        actor_layers, critic_layers = layers_of(net_arch)
        self.actor = Mlp(num_features, actor_layers, activation_fn, 1, True)
        self.critic = Mlp(
            num_features,
            critic_layers,
            activation_fn,
            1,
            True,
            pools=True,
            num_context=num_context,
        )

    def forward(self, rows: Any) -> tuple[th.Tensor, th.Tensor]:
        """Return the logits of all actions, and the value as a column."""
        return self.forward_actor(rows), self.forward_critic(rows)

    def forward_actor(self, rows: Any) -> th.Tensor:
        """Return the logits of all actions."""
        logits: th.Tensor = self.actor(rows)
        return logits

    def forward_critic(self, rows: Any) -> th.Tensor:
        """Return the value as a column."""
        value: th.Tensor = self.critic(rows)
        return value


def check_no_rows(name: str, space: spaces.Dict) -> None:
    """Raise `ValueError` for features of actions, which a policy does not take."""
    if ACTION_FEATURES in space.spaces:
        raise ValueError(
            f"{name} takes no rows of features per action: train SASQ, SASPG or "
            f"MaskedPPO, or flatten observation[{ACTION_FEATURES!r}] under another key"
        )
