"""The score of a policy, psi = d log pi / d theta, never stored for all samples."""

from typing import Any

import torch as th
from jaxtyping import Float, Int, Shaped
from torch.func import functional_call, grad, jvp, vmap
from torch.nn import functional as F

from sas_agents._masked_ops import chosen_log_probs, masked_log_probs
from sas_agents._policies import Network

# Samples whose scores are held in memory at once: 256 times the actor's parameters, 10
# MB for the default network of 10,000.
_CHUNK = 256

Parameters = dict[str, th.Tensor]


def score_norms(
    actor: Network,
    inputs: Any,
    action_mask: Shaped[th.Tensor, "B A"],
    actions: Int[th.Tensor, " B"],
) -> Float[th.Tensor, " B"]:
    """Norm of each sample's score.

    Args:
        actor: The network of the logits.
        inputs: Preprocessed observations, a tensor or a dict of them.
        action_mask: The action sets.
        actions: The actions taken.
    """
    if actor.is_linear:
        return _linear_score_norms(actor, inputs, action_mask, actions)
    return _any_score_norms(actor, inputs, action_mask, actions)


@th.no_grad()
def _linear_score_norms(
    actor: Network,
    inputs: Any,
    action_mask: Shaped[th.Tensor, "B A"],
    actions: Int[th.Tensor, " B"],
) -> Float[th.Tensor, " B"]:
    """Use that the score is the outer product of the features and 1_a - pi."""
    features = actor.features(inputs)
    probs = masked_log_probs(actor.layers(features), action_mask).exp()
    residual = F.one_hot(actions, probs.shape[1]) - probs
    (layer,) = actor.layers
    squared = (features**2).sum(dim=1) + (layer.bias is not None)
    norms: th.Tensor = squared.sqrt() * residual.norm(dim=1)
    return norms


def _any_score_norms(
    actor: Network,
    inputs: Any,
    action_mask: Shaped[th.Tensor, "B A"],
    actions: Int[th.Tensor, " B"],
) -> Float[th.Tensor, " B"]:
    """Differentiate sample by sample, a chunk of them at a time."""

    def log_prob(
        parameters: Parameters, one: Any, mask: th.Tensor, action: th.Tensor
    ) -> th.Tensor:
        batch = (
            {k: x[None] for k, x in one.items()} if isinstance(one, dict) else one[None]
        )
        logits = functional_call(actor, parameters, (batch,))
        return chosen_log_probs(masked_log_probs(logits, mask[None]), action[None])[0]

    def squared_norm(
        parameters: Parameters, one: Any, mask: th.Tensor, action: th.Tensor
    ) -> th.Tensor:
        score = grad(log_prob)(parameters, one, mask, action)
        return th.stack([part.pow(2).sum() for part in score.values()]).sum()

    parameters = {name: p.detach() for name, p in actor.named_parameters()}
    by_sample = vmap(squared_norm, in_dims=(None, 0, 0, 0), chunk_size=_CHUNK)
    squared: th.Tensor = by_sample(parameters, inputs, action_mask, actions)
    return squared.sqrt()


def score_dot(
    actor: Network,
    inputs: Any,
    action_mask: Shaped[th.Tensor, "B A"],
    actions: Int[th.Tensor, " B"],
    direction: Parameters,
) -> Float[th.Tensor, " B"]:
    """Inner product of each sample's score with a direction.

    One Jacobian-vector product: its cost is that of a forward pass.
    """

    def log_prob(parameters: Parameters) -> th.Tensor:
        logits = functional_call(actor, parameters, (inputs,))
        return chosen_log_probs(masked_log_probs(logits, action_mask), actions)

    parameters = {name: p.detach() for name, p in actor.named_parameters()}
    product: th.Tensor = jvp(log_prob, (parameters,), (direction,))[1]
    return product
