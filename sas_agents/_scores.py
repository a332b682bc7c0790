"""The score of a policy, psi = d log pi / d theta, never stored for all samples."""

from typing import Any

import torch as th
from jaxtyping import Float, Int, Shaped
from torch.func import functional_call, grad, jvp, vmap
from torch.nn import functional as F

from sas_agents._batch import rows
from sas_agents._masked_ops import (
    chosen_log_probs,
    exponential,
    log_softmax,
    masked_log_probs,
)
from sas_agents._policies import Network, apply_weight, is_index, weight_gradient

# Samples whose scores are held in memory at once: 256 times the actor's parameters, 10
# MB for the default network of 10,000.
_CHUNK = 256
# Samples of a rollout whose scores are measured where that takes a gradient for each.
_MEASURED = 256

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
        inputs: Encoded observations, a tensor or a dict of them.
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
    probs = exponential(masked_log_probs(actor(inputs), action_mask))
    residual = F.one_hot(actions, probs.shape[1]) - probs
    squared = squared_norms(inputs) + (actor.output_layer.bias is not None)
    norms: th.Tensor = squared.sqrt() * residual.norm(dim=1)
    return norms


def squared_norms(features: Shaped[th.Tensor, "B ..."]) -> Shaped[th.Tensor, " B"]:
    """Return the squared norm of each sample's features."""
    if is_index(features):
        return th.ones_like(features, dtype=th.float32)
    return (features**2).sum(dim=1)


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


class Scores:
    """Products with the scores of a batch, which are never stored by sample.

    A product costs as much as a forward or a backward pass; for a linear policy, whose
    scores are outer products of the features and 1_a - pi, two matrix products.

    Args:
        actor: The network of the logits.
        inputs: Encoded observations, a tensor or a dict of them.
        mask_bias: What removes unavailable actions when it is added to the logits.
        actions: The actions taken.
    """

    def __init__(
        self,
        actor: Network,
        inputs: Any,
        mask_bias: Float[th.Tensor, "B A"],
        actions: Int[th.Tensor, " B"],
    ) -> None:
        self.actor, self.inputs, self.actions = actor, inputs, actions
        self.parameters = dict(actor.named_parameters())
        self.is_linear = actor.is_matrix
        log_probs: th.Tensor
        with th.set_grad_enabled(not self.is_linear):
            log_probs = log_softmax(actor(inputs) + mask_bias)
        self.log_probs = log_probs.detach()
        self.probs = exponential(self.log_probs)
        self.chosen = chosen_log_probs(log_probs, actions)
        # The gradient of log pi with respect to the logits, 1_a - pi.
        self.residual = -self.probs
        self.residual[th.arange(len(actions)), actions] += 1

    def dot(self, vector: Float[th.Tensor, " P"]) -> Float[th.Tensor, " B"]:
        """Return the inner product of each sample's score with a vector."""
        return (self.residual * self._change_of_logits(vector)).sum(dim=1)

    def variance(self, vector: Float[th.Tensor, " P"]) -> Float[th.Tensor, " B"]:
        """Return the variance of psi' vector over the policy's actions.

        Its mean over the samples is vector' F vector, for the Fisher matrix F.
        """
        change = self._change_of_logits(vector)
        change = change - (self.probs * change).sum(dim=1, keepdim=True)
        return (self.probs * change**2).sum(dim=1)

    def norms(
        self, action_mask: Shaped[th.Tensor, "B A"]
    ) -> tuple[Float[th.Tensor, " M"], slice]:
        """Return the norms of the scores, and of which samples they are.

        They are of all samples where that takes no gradient for each.
        """
        if self.is_linear:
            return self.linear_norms(), slice(None)
        part = slice(None, None, max(len(self.actions) // _MEASURED, 1))
        inputs, actions = rows(self.inputs, part), self.actions[part]
        return score_norms(self.actor, inputs, action_mask[part], actions), part

    def linear_norms(self) -> Float[th.Tensor, " B"]:
        """Return the norm of each sample's score, for a linear policy without a bias.

        The score is the outer product of the features and 1_a - pi.
        """
        squares = squared_norms(self.inputs) * (self.residual**2).sum(dim=1)
        return squares.sqrt()

    def weighted_sum(self, weights: Float[th.Tensor, " B"]) -> Float[th.Tensor, " P"]:
        """Return the sum over the samples of weight times score."""
        if self.is_linear:
            gradient = self.residual * weights[:, None]
            num_features = self.actor.output_layer.in_features
            product = weight_gradient(self.inputs, gradient, num_features)
            return product.reshape(-1)
        parts = th.autograd.grad(
            self.chosen, list(self.parameters.values()), weights, retain_graph=True
        )
        # Gradients of convolutions need not be contiguous.
        return th.cat([part.reshape(-1) for part in parts])

    def _change_of_logits(
        self, vector: Float[th.Tensor, " P"]
    ) -> Float[th.Tensor, "B A"]:
        """Return the logits' derivative along a direction of the parameters."""
        if self.is_linear:
            return apply_weight(self.inputs, vector.view(self.probs.shape[1], -1))
        sizes = [p.numel() for p in self.parameters.values()]
        direction = {
            name: part.view_as(p)
            for (name, p), part in zip(
                self.parameters.items(), th.split(vector, sizes), strict=True
            )
        }
        at = {name: p.detach() for name, p in self.parameters.items()}
        product: th.Tensor = jvp(
            lambda parameters: functional_call(self.actor, parameters, (self.inputs,)),
            (at,),
            (direction,),
        )[1]
        return product
