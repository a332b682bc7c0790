"""A law given by sets that were drawn in advance."""

import numpy as np

from sas_gym.action_sets import ActionSets, Floats, Ints, Mask


class SampledSets(ActionSets):
    """A law's stand-in: a number of sets drawn from it in every state, equally likely.

    Args:
        masks: The sets, [S, K, A].
    """

    def __init__(self, masks: Mask) -> None:
        self.masks = masks

    def num_uniforms(self, num_actions: int) -> int:
        """Return the one uniform that picks a set."""
        return 1

    def fit(self, num_actions: int, num_states: int | None) -> "SampledSets":
        """Check the number of states and actions."""
        if (self.masks.shape[0], self.masks.shape[2]) != (num_states, num_actions):
            raise ValueError(
                f"the sets were drawn for a task of another size: {self.masks.shape}, "
                f"not {num_states} states and {num_actions} actions"
            )
        return self

    def sets_from(
        self, row: Floats, state: Ints | None, possible: Mask | None = None
    ) -> Mask:
        """Pick one of the state's sets; they hold only what the state has."""
        pick = (row[:, 0] * self.masks.shape[1]).astype(np.int64)
        picked: Mask = self.masks[state, pick]
        return picked
