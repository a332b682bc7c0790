"""A rollout as its update sees it."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import torch as th
from numpy.random import Generator


class Batch(NamedTuple):
    """Steps to learn from, with their returns in units of the returns' scale."""

    inputs: Any
    """Encoded observations without their masks, a tensor or a dict of them."""
    action_mask: th.Tensor
    """The action sets, one row per step."""
    mask_bias: th.Tensor
    """What removes unavailable actions when it is added to the logits."""
    actions: th.Tensor
    """The actions taken."""
    probs: th.Tensor
    """The policy that took them, one row per step."""
    log_probs: th.Tensor
    """Its log, hugely negative where the action was unavailable."""
    returns: th.Tensor
    """The return of each step."""
    baselines: th.Tensor
    """v and q-bar, one row per step."""
    advantage: th.Tensor
    """Returns plus the weighted baselines."""

    def rows(self, index: Any) -> Self:
        """Return some of the steps."""
        inputs, *tensors = self
        return self.__class__(rows(inputs, index), *(x[index] for x in tensors))

    def minibatches(
        self, size: int | None, num_epochs: int, rng: Generator
    ) -> Iterator[Self]:
        """Go through the steps several times, in minibatches.

        They are shuffled once, so that minibatches are views and not copies: for linear
        policies to copy them takes as long as to learn from them.

        Args:
            size: Number of steps of a minibatch; None for all of them.
            num_epochs: Number of passes.
            rng: Shuffles them.
        """
        count = len(self.actions)
        if size is None or size >= count:
            yield from (self for _ in range(num_epochs))
            return
        order = th.as_tensor(rng.permutation(count), device=self.actions.device)
        shuffled = self.rows(order)
        starts = range(0, count, size)
        parts = [shuffled.rows(slice(start, start + size)) for start in starts]
        for _ in range(num_epochs):
            yield from parts


def rows(inputs: Any, index: Any) -> Any:
    """Take rows of encoded observations, a tensor or a dict of them."""
    if isinstance(inputs, dict):
        return {key: value[index] for key, value in inputs.items()}
    return inputs[index]


def keep_freed_memory() -> None:
    """Let the C library keep the memory of freed arrays for the next ones.

    glibc returns blocks larger than any that was freed before to the system, which then
    has to clear every new one: with 100 actions and 1024 environments training took 1.2
    times as long. So one is freed that is as large as counts, 32 MB, and never touched.
    """
    th.empty(2**25 - 2**16, dtype=th.uint8)
