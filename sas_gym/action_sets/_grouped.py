"""Actions that come and go together."""

import numpy as np
from numpy.typing import ArrayLike

from sas_gym.action_sets._base import ActionSets, Floats, Ints, Mask, some
from sas_gym.action_sets._independent import Independent


class Grouped(ActionSets):
    """Actions that come and go together: each group is available or not, as a whole.

    Args:
        groups: Number of the group of each action, [A], counted from 0.
        availability: Probability of each group: one number, [G] or [S, G].
    """

    def __init__(self, groups: ArrayLike, availability: ArrayLike) -> None:
        index = np.asarray(groups)
        if index.ndim != 1 or index.dtype.kind not in "iu" or index.size == 0:
            raise ValueError(
                "groups must be a list with the number of each action's group, [A]; "
                f"got {groups!r}"
            )
        self.groups: Ints = index.astype(np.int64)
        self.num_groups = int(index.max()) + 1
        missing = np.setdiff1d(np.arange(self.num_groups), index)
        if missing.size or index.min() < 0:
            raise ValueError(
                f"groups must be numbered 0 to {self.num_groups - 1} without gaps; "
                f"missing {some(missing)}, smallest {index.min()}"
            )
        self._of_groups = Independent(availability)

    @property
    def availability(self) -> Floats:
        """Probability of each group: [], [G] or [S, G]."""
        return self._of_groups.availability

    def num_uniforms(self, num_actions: int) -> int:
        """Return one uniform a group."""
        return self.num_groups

    def fit(self, num_actions: int, num_states: int | None) -> "Grouped":
        """Check that every action has a group and every group a probability."""
        if len(self.groups) != num_actions:
            raise ValueError(
                f"groups must name a group for each of the {num_actions} actions; got "
                f"{len(self.groups)}"
            )
        of_groups = self._of_groups.fit(self.num_groups, num_states)
        return Grouped(self.groups, of_groups.availability)

    def sets_from(
        self, row: Floats, state: Ints | None, possible: Mask | None = None
    ) -> Mask:
        """Draw the groups, then open each one's actions."""
        if possible is None:
            return self._of_groups.sets_from(row, state)[:, self.groups]
        members = self.groups[:, None] == np.arange(self.num_groups)
        open_groups = self._of_groups.sets_from(row, state, possible @ members)
        return open_groups[:, self.groups] & possible
