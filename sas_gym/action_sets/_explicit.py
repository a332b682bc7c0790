"""Any distribution over sets."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from sas_gym.action_sets._base import (
    NEVER_EMPTY,
    ActionSets,
    Floats,
    Ints,
    Mask,
    check_table,
    checked_probabilities,
    some,
)


class Explicit(ActionSets):
    """Any distribution over a list of sets: availability with any correlation.

    Args:
        sets: The sets as masks, [K, A].
        probabilities: Probability of each set, [K], or of each in every state, [S, K].

    Example:
        >>> law = Explicit([[1, 1, 0], [0, 0, 1]], [0.9, 0.1])
        >>> law.sets_from(np.array([[0.5], [0.95]]), state=None).astype(int)
        array([[1, 1, 0],
               [0, 0, 1]])
    """

    def __init__(self, sets: ArrayLike, probabilities: ArrayLike) -> None:
        self.sets = _masks("sets", sets)
        self.probabilities = checked_probabilities("probabilities", probabilities)
        empty = np.flatnonzero(~self.sets.any(axis=1))
        if empty.size:
            raise ValueError(f"sets {some(empty)} are empty: no action set may be")
        if self.probabilities.shape[-1:] != self.sets.shape[:1]:
            raise ValueError(
                f"probabilities must end in one number a set, {len(self.sets)}; got "
                f"shape {self.probabilities.shape}"
            )
        total = self.probabilities.sum(axis=-1)
        if not np.allclose(total, 1.0, atol=1e-9):
            raise ValueError(f"probabilities must sum to 1 in every state; got {total}")

    @classmethod
    def from_states(
        cls,
        states: Sequence[Mapping[Sequence[int], float]],
        num_actions: int,
    ) -> "Explicit":
        """Build the law from one table `{actions: probability}` a state.

        Example:
            >>> law = Explicit.from_states([{(0, 1): 1.0}, {(0,): 0.5, (1,): 0.5}], 2)
            >>> law.probabilities
            array([[1. , 0. , 0. ],
                   [0. , 0.5, 0.5]])
        """
        sets = list(dict.fromkeys(tuple(actions) for row in states for actions in row))
        mask = np.zeros((len(sets), num_actions), dtype=bool)
        for k, actions in enumerate(sets):
            mask[k, list(actions)] = True
        probabilities = [[dict(row).get(key, 0.0) for key in sets] for row in states]
        return cls(mask, probabilities)

    def num_uniforms(self, num_actions: int) -> int:
        """Return the one uniform that picks a set."""
        return 1

    def fit(self, num_actions: int, num_states: int | None) -> "Explicit":
        """Check the number of actions and of states."""
        if self.sets.shape[1] != num_actions:
            raise ValueError(
                f"sets must have one column an action, {num_actions}; got shape "
                f"{self.sets.shape}"
            )
        check_table("probabilities", self.probabilities, len(self.sets), num_states)
        return self

    def sets_from(
        self, row: Floats, state: Ints | None, possible: Mask | None = None
    ) -> Mask:
        """Pick the set in whose share of the unit interval the uniform falls."""
        weight = self.probabilities
        weight = weight[state] if weight.ndim == 2 else weight[None]
        if possible is not None:
            # A set of which nothing is possible would be empty: condition on the rest.
            weight = weight * (possible @ self.sets.T)
        cumulative = weight.cumsum(axis=1)
        total = cumulative[:, -1:]
        if not total.all():
            raise ValueError(
                "no set of the law contains an action that is possible in this state "
                f"({NEVER_EMPTY})"
            )
        sets: Mask = self.sets[(row * total < cumulative).argmax(axis=1)]
        return sets if possible is None else sets & possible


def _masks(name: str, values: ArrayLike) -> Mask:
    table = np.asarray(values)
    if table.ndim != 2 or table.size == 0 or not np.isin(table, (0, 1)).all():
        raise ValueError(
            f"{name} must be masks of 0 and 1, one row a set [K, A]; got shape "
            f"{table.shape}"
        )
    return table.astype(bool)
