"""The score of a policy, psi = d log pi / d theta, never stored for all samples."""

from abc import ABC, abstractmethod
from functools import partial
from typing import Any

import numpy as np
import torch as th
from jaxtyping import Float, Int, Shaped
from torch.func import functional_call, grad, jvp, vmap

from sas_agents.maths._masked_ops import (
    chosen_log_probs,
    masked_log_probs,
    masked_softmax,
    row_dots,
)
from sas_agents.models._networks import (
    Backward,
    LinearNetwork,
    Network,
    apply_weight,
    as_array,
    squared_norms,
    weight_gradient,
)
from sas_agents.policy_gradient._batch import Batch, rows
from sas_gym._types import NDArray

# Samples whose scores are held in memory at once: 256 times the actor's parameters, 10
# MB for the default network of 10,000.
_CHUNK = 256
# Samples of a rollout whose scores are measured where that takes a gradient for each.
_MEASURED = 256

Parameters = dict[str, th.Tensor]


class Scores(ABC):
    """The policy that played a batch: products with its scores, and what became of it.

    A product costs as much as a forward or a backward pass.

    Args:
        actor: The network of the logits.
        inputs: Encoded observations.
        action_mask: The action sets.
        actions: The actions taken.
    """

    def __init__(
        self,
        actor: Any,
        inputs: Any,
        action_mask: Shaped[NDArray[Any], "B A"],
        actions: Int[NDArray[Any], " B"],
    ) -> None:
        self.actor, self.inputs = actor, inputs
        self.action_mask, self.actions = action_mask, actions
        self.logits = self._forward()
        self.probs, self.log_totals = masked_softmax(self.logits, action_mask)
        # The gradient of log pi with respect to the logits, 1_a - pi.
        self.residual = -self.probs
        self.residual[np.arange(len(actions)), actions] += 1

    def dot(self, vector: Float[NDArray[Any], " P"]) -> Float[NDArray[Any], " B"]:
        """Return the inner product of each sample's score with a vector."""
        return row_dots(self.residual, self._change_of_logits(vector))

    def moments(
        self, vector: Float[NDArray[Any], " P"]
    ) -> tuple[Float[NDArray[Any], " B"], float]:
        """Return `dot(vector)`, and its mean variance over the policy's actions.

        The latter is vector' F vector, for the Fisher matrix F.
        """
        change = self._change_of_logits(vector)
        change -= row_dots(self.probs, change)[:, None]
        taken: NDArray[Any] = change[np.arange(len(change)), self.actions]
        return taken, float(np.vdot(self.probs * change, change)) / len(change)

    @abstractmethod
    def change(self, batch: Batch) -> tuple[Float[NDArray[Any], "M A"], Backward]:
        """Return the logits now minus those of the policy that played.

        Args:
            batch: Some of the steps.

        Returns:
            The change, and a function that sets the actor's gradients; see
            `Network.differentiable`.
        """

    @abstractmethod
    def norms(self) -> tuple[Float[NDArray[Any], " M"], slice]:
        """Return the norms of scores, and of which samples they are."""

    @abstractmethod
    def weighted_sum(
        self, weights: Float[NDArray[Any], " B"]
    ) -> Float[NDArray[Any], " P"]:
        """Return the sum over the samples of weight times score."""

    @abstractmethod
    def _forward(self) -> Float[NDArray[Any], "B A"]:
        """Return the logits."""

    @abstractmethod
    def _change_of_logits(
        self, vector: Float[NDArray[Any], " P"]
    ) -> Float[NDArray[Any], "B A"]:
        """Return the logits' derivative along a direction of the parameters."""


class LinearScores(Scores):
    """Scores of a matrix: the outer products of the features and 1_a - pi."""

    actor: LinearNetwork

    def change(self, batch: Batch) -> tuple[Float[NDArray[Any], "M A"], Backward]:
        """Return the change of the logits, by that of the matrix."""
        difference = self.actor.weight - self._weight
        backward = partial(self.actor.set_gradient, batch.inputs)
        return apply_weight(batch.inputs, difference), backward

    def norms(self) -> tuple[Float[NDArray[Any], " M"], slice]:
        """Return the norms of all scores."""
        squares = squared_norms(self.inputs) * row_dots(self.residual, self.residual)
        return np.sqrt(squares), slice(None)

    def weighted_sum(
        self, weights: Float[NDArray[Any], " B"]
    ) -> Float[NDArray[Any], " P"]:
        """Return the sum over the samples of weight times score."""
        num_features = self.actor.parameter.shape[1]
        product = weight_gradient(self.inputs, self.residual, weights, num_features)
        return product.reshape(-1)

    def _forward(self) -> Float[NDArray[Any], "B A"]:
        self._weight = self.actor.weight.copy()
        return apply_weight(self.inputs, self._weight)

    def _change_of_logits(
        self, vector: Float[NDArray[Any], " P"]
    ) -> Float[NDArray[Any], "B A"]:
        num_actions = self.action_mask.shape[1]
        return apply_weight(self.inputs, vector.reshape(num_actions, -1))


class NetworkScores(Scores):
    """Scores of any network, by torch."""

    actor: Network

    def change(self, batch: Batch) -> tuple[Float[NDArray[Any], "M A"], Backward]:
        """Return the change of the logits."""
        logits, backward = self.actor.differentiable(batch.inputs)
        assert batch.logits is not None  # only those of a matrix are left out
        return logits - batch.logits, backward

    def norms(self) -> tuple[Float[NDArray[Any], " M"], slice]:
        """Return the norms of a share of the scores: each takes a gradient."""
        part = slice(None, None, max(len(self.actions) // _MEASURED, 1))
        inputs, mask = rows(self.inputs, part), self.action_mask[part]
        return score_norms(self.actor, inputs, mask, self.actions[part]), part

    def weighted_sum(
        self, weights: Float[NDArray[Any], " B"]
    ) -> Float[NDArray[Any], " P"]:
        """Return the sum over the samples of weight times score."""
        gradient = self._tensor(self.residual * weights[:, None])
        parameters = list(self.actor.parameters())
        parts = th.autograd.grad(self._output, parameters, gradient, retain_graph=True)
        # Gradients of convolutions need not be contiguous.
        return as_array(th.cat([part.reshape(-1) for part in parts]))

    def _forward(self) -> Float[NDArray[Any], "B A"]:
        self._output: th.Tensor = self.actor(self.inputs)
        return as_array(self._output)

    def _change_of_logits(
        self, vector: Float[NDArray[Any], " P"]
    ) -> Float[NDArray[Any], "B A"]:
        at = {name: p.detach() for name, p in self.actor.named_parameters()}
        parts = th.split(self._tensor(vector), [p.numel() for p in at.values()])
        direction = {
            name: part.view_as(p)
            for (name, p), part in zip(at.items(), parts, strict=True)
        }
        product: th.Tensor = jvp(
            lambda parameters: functional_call(self.actor, parameters, (self.inputs,)),
            (at,),
            (direction,),
        )[1]
        return as_array(product)

    def _tensor(self, values: NDArray[Any]) -> th.Tensor:
        return th.as_tensor(values, device=self._output.device)


def scores_of(
    actor: Network,
    inputs: Any,
    action_mask: Shaped[NDArray[Any], "B A"],
    actions: Int[NDArray[Any], " B"],
) -> Scores:
    """Return the scores of a policy on a batch; see `Scores`."""
    kind = LinearScores if isinstance(actor, LinearNetwork) else NetworkScores
    return kind(actor, inputs, action_mask, actions)


def score_norms(
    actor: Network,
    inputs: Any,
    action_mask: Shaped[NDArray[Any], "B A"],
    actions: Int[NDArray[Any], " B"],
) -> Float[NDArray[Any], " B"]:
    """Norm of each sample's score, differentiated a chunk of samples at a time.

    Args:
        actor: The network of the logits.
        inputs: Encoded observations, a tensor or a dict of them.
        action_mask: The action sets.
        actions: The actions taken.
    """

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
    device = actor.output_layer.weight.device
    taken = (th.as_tensor(array, device=device) for array in (action_mask, actions))
    by_sample = vmap(squared_norm, in_dims=(None, 0, 0, 0), chunk_size=_CHUNK)
    squared: th.Tensor = by_sample(parameters, inputs, *taken)
    return as_array(squared.sqrt())
