"""A rollout as its update sees it: its steps, and the scores of the policy."""

from operator import itemgetter
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Float, Int, Shaped

from sas_agents._fast import masked_softmax, row_dots
from sas_agents.models._model import Encoded, Model
from sas_gym._types import NDArray


class Batch(NamedTuple):
    """Steps to learn from, in random order; returns are in units of their scale."""

    inputs: Encoded
    """Encoded observations, without their masks."""
    actions: Int[NDArray[Any], " B"]
    """The actions taken."""
    logits: Float[NDArray[Any], "B A"]
    """The logits of all actions, of the policy that played."""
    probs: Float[NDArray[Any], "B A"]
    """Its probabilities, 0 where an action was unavailable."""
    returns: Float[NDArray[Any], " B"]
    """The return of each step."""
    baselines: Float[NDArray[Any], "B L"]
    """v and q-bar, one row per step."""
    advantage: Float[NDArray[Any], " B"]
    """Returns plus the weighted baselines."""

    def rows(self, index: slice) -> Self:
        """Return some of the steps, as views."""
        columns: Any = self
        return self.__class__(*map(itemgetter(index), columns))

    def minibatches(self, size: int | None, num_epochs: int) -> list[Self]:
        """Return minibatches that go through the steps several times.

        Args:
            size: Number of steps of a minibatch; None for all of them.
            num_epochs: Number of passes.
        """
        count = len(self.actions)
        starts = range(0, count, size or count)
        parts = [slice(start, start + (size or count)) for start in starts]
        columns = [map(values.__getitem__, parts) for values in self]
        return [self.__class__(*row) for row in zip(*columns, strict=True)] * num_epochs


class Scores:
    """The policy that played a batch, and products with its scores, psi = grad log pi.

    A product costs as much as a forward or a backward pass: the scores of all samples
    are never stored. All are valid until the policy changes.

    Args:
        actor: The model of the logits.
        inputs: Encoded observations.
        action_mask: The action sets.
        actions: The actions taken.
    """

    def __init__(
        self,
        actor: Model,
        inputs: Encoded,
        action_mask: Shaped[NDArray[Any], "B A"],
        actions: Int[NDArray[Any], " B"],
    ) -> None:
        self.action_mask, self.actions = action_mask, actions
        self._tangent = actor.tangent(inputs)
        self.logits = self._tangent.outputs
        self.probs, self.log_totals = masked_softmax(self.logits, action_mask)
        # The gradient of log pi with respect to the logits, 1_a - pi.
        self.residual = -self.probs
        self.residual[np.arange(len(actions)), actions] += 1

    def dot(self, vector: Float[NDArray[Any], " P"]) -> Float[NDArray[Any], " B"]:
        """Return the inner product of each sample's score with a vector."""
        return row_dots(self.residual, self._tangent.jvp(vector))

    def moments(
        self, vector: Float[NDArray[Any], " P"]
    ) -> tuple[Float[NDArray[Any], " B"], float]:
        """Return `dot(vector)`, and its mean variance over the policy's actions.

        The variance is vector' F vector, for the Fisher matrix F.
        """
        change = self._tangent.jvp(vector)
        change -= row_dots(self.probs, change)[:, None]
        taken: NDArray[Any] = change[np.arange(len(change)), self.actions]
        return taken, float(np.vdot(self.probs * change, change)) / len(change)

    def norms(self) -> tuple[Float[NDArray[Any], " M"], slice]:
        """Return the norms of scores, and which samples they are of."""
        return self._tangent.norms(self.residual)

    def weighted_sum(
        self, weights: Float[NDArray[Any], " B"]
    ) -> Float[NDArray[Any], " P"]:
        """Return the sum over the samples of weight times score."""
        return self._tangent.vjp(self.residual * weights[:, None])
