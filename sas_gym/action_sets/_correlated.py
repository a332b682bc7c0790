"""Actions whose availability is correlated: any distribution over sets, and groups."""

from collections.abc import Mapping, Sequence
from copy import copy

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from sas_gym._types import Floats, Ints, Mask
from sas_gym.action_sets._base import (
    ROUNDING,
    ActionSets,
    Number,
    States,
    TaskForm,
    check_never_empty,
    check_table,
    checked_probabilities,
    identity,
    some,
)
from sas_gym.action_sets._independent import Independent


class Explicit(ActionSets):
    """Any distribution over a list of sets: availability with any correlation.

    Args:
        sets: The sets as masks, one row per set (K, A).
        probabilities: Probability of each set (K,), or of each in every state (S, K).

    Example:
        >>> pairs = Explicit([[1, 1, 0], [0, 0, 1]], [0.9, 0.1])
        >>> pairs.sets_from(np.array([[0.5], [0.95]]), None, None).astype(int)
        array([[1, 1, 0],
               [0, 0, 1]])
    """

    def __init__(self, sets: ArrayLike, probabilities: ArrayLike) -> None:
        self.sets = _checked_sets(sets)
        self.probabilities = checked_probabilities("probabilities", probabilities)
        if self.probabilities.shape[-1:] != self.sets.shape[:1]:
            raise ValueError(
                "probabilities must have one entry per set in the last axis, "
                f"{len(self.sets)}; got shape {self.probabilities.shape}"
            )
        total = self.probabilities.sum(axis=-1)
        if not np.allclose(total, 1.0, rtol=0.0, atol=ROUNDING):
            raise ValueError(
                f"probabilities must sum to 1 in every state; the sums are {total}"
            )
        self._number: Number = identity

    @classmethod
    def from_states(
        cls, states: Sequence[Mapping[Sequence[int], float]], num_actions: int
    ) -> "Explicit":
        """Build the distribution from one table `{actions: probability}` per state.

        Example:
            >>> tables = [{(0, 1): 1.0}, {(0,): 0.5, (1,): 0.5}]
            >>> Explicit.from_states(tables, num_actions=2).probabilities
            array([[1. , 0. , 0. ],
                   [0. , 0.5, 0.5]])
        """
        sets = list(dict.fromkeys(tuple(actions) for row in states for actions in row))
        mask = np.zeros((len(sets), num_actions), dtype=bool)
        for k, actions in enumerate(sets):
            wrong = [a for a in actions if a not in range(num_actions)]
            if wrong:
                raise ValueError(
                    f"actions must be 0 to {num_actions - 1}, got {wrong} in the set "
                    f"{actions}"
                )
            mask[k, list(actions)] = True
        probabilities = [[dict(row).get(key, 0.0) for key in sets] for row in states]
        return cls(mask, probabilities)

    def num_uniforms(self, num_actions: int) -> int:
        """Return the one uniform that picks a set."""
        return 1

    def fit(self, task: TaskForm) -> "Explicit":
        """Check the number of actions and of states."""
        if self.sets.shape[1] != task.num_actions:
            raise ValueError(
                f"sets must have one column per action, {task.num_actions}; got shape "
                f"{self.sets.shape}"
            )
        num_sets = len(self.sets)
        check_table("probabilities", self.probabilities, num_sets, task.num_states)
        fitted = copy(self)
        fitted._number = task.number
        return fitted

    def sets_from(
        self,
        uniforms: Float[Floats, "N 1"],
        state: States | None,
        possible: Bool[Mask, "N A"] | None,
    ) -> Bool[Mask, "N A"]:
        """Pick a set by its probability, given that something in it is possible."""
        weights, number = self.probabilities, self._number(state)
        weights = weights[number] if weights.ndim == 2 else weights[None]
        if possible is None:
            picked: Mask = self.sets[pick(uniforms, weights, number)]
            return picked
        weights = weights * (possible @ self.sets.T)
        return self.sets[pick(uniforms, weights, number)] & possible


class Grouped(ActionSets):
    """Actions that come and go together: each group is available or not, as a whole.

    Args:
        groups: Number of the group of each action (A,), counted from 0.
        availability: Probability of each group: one number, (G,) or (S, G).
    """

    def __init__(self, groups: ArrayLike, availability: ArrayLike) -> None:
        self.groups = _checked_groups(groups)
        self.num_groups = int(self.groups.max()) + 1
        self._of_groups = Independent(availability)

    @property
    def availability(self) -> Floats:
        """Probability of each group: a scalar, (G,) or (S, G)."""
        return self._of_groups.availability

    @property
    def is_member(self) -> Bool[Mask, "A G"]:
        """Whether each action is in each group."""
        is_member: Mask = self.groups[:, None] == np.arange(self.num_groups)
        return is_member

    def num_uniforms(self, num_actions: int) -> int:
        """Return one uniform per group."""
        return self.num_groups

    def fit(self, task: TaskForm) -> "Grouped":
        """Check that every action has a group and every group a probability."""
        if len(self.groups) != task.num_actions:
            raise ValueError(
                f"groups must have one entry per action, {task.num_actions}; got "
                f"{len(self.groups)}"
            )
        fitted = copy(self)
        fitted._of_groups = self._of_groups.fit_columns(task, self.num_groups)
        return fitted

    def sets_from(
        self,
        uniforms: Float[Floats, "N G"],
        state: States | None,
        possible: Bool[Mask, "N A"] | None,
    ) -> Bool[Mask, "N A"]:
        """Draw the groups that have a possible member, then offer their members."""
        if possible is None:
            return self._of_groups.sets_from(uniforms, state, None)[:, self.groups]
        possible_groups = possible @ self.is_member
        drawn = self._of_groups.sets_from(uniforms, state, possible_groups)
        return drawn[:, self.groups] & possible


def pick(
    uniforms: Float[Floats, "N 1"],
    weights: Float[Floats, "#N K"],
    state: Int[Ints, " N"] | None,
) -> Int[Ints, " N"]:
    """Return in which weight's share of the unit interval each uniform falls."""
    cumulative = weights.cumsum(axis=1)
    total = cumulative[:, -1:]
    if not total.all():
        check_never_empty(total[:, 0] > 0, state)
    picked: Ints = (uniforms * total < cumulative).argmax(axis=1)
    return picked


def _checked_sets(sets: ArrayLike) -> Mask:
    table = np.asarray(sets)
    if table.ndim != 2 or table.size == 0 or not np.isin(table, (0, 1)).all():
        raise ValueError(
            "sets must be masks of 0 and 1 with one row per set, shape (K, A); got "
            f"shape {table.shape}"
        )
    empty = np.flatnonzero(~table.any(axis=1))
    if empty.size:
        raise ValueError(
            f"sets {some(empty)} are empty, but an action set is never empty: remove "
            "them, or add an action"
        )
    return table.astype(bool)


def _checked_groups(groups: ArrayLike) -> Ints:
    try:
        array = np.asarray(groups)
    except ValueError:  # lists of different lengths, the actions of each group
        array = np.empty(0)
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.size == 0:
        raise ValueError(
            "groups must be a list with the group number of each action, shape (A,), "
            f"such as [0, 0, 1] for actions 0 and 1 together; got {groups!r}"
        )
    missing = np.setdiff1d(np.arange(array.max() + 1), array)
    if missing.size or array.min() < 0:
        raise ValueError(
            f"groups must be numbered 0 to {array.max()} without gaps; missing "
            f"{some(missing)}, smallest {array.min()}"
        )
    return array.astype(np.int64)
