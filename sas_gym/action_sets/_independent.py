"""Actions that are available independently of each other."""

from copy import copy

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from sas_gym._types import Floats, Ints, Mask
from sas_gym.action_sets._base import (
    ActionSets,
    Number,
    Sizes,
    States,
    TaskForm,
    check_never_empty,
    check_table,
    checked_probabilities,
    identity,
    some,
)


class Independent(ActionSets):
    """Every action is available with its own probability, independently of the others.

    Nothing is drawn again to avoid an empty set: the first member of a set is found by
    its own probabilities (`first_member_probs`), and after it each action is in by its
    probability. So a set takes the same number of uniforms every time.

    Args:
        availability: One probability, one per action (A,), or one per state and action
            (S, A).
    """

    def __init__(self, availability: ArrayLike) -> None:
        self.availability = checked_probabilities("availability", availability)
        if self.availability.ndim > 2:
            raise ValueError(
                "availability must be one number, one per action (A,) or one per state "
                f"and action (S, A); got shape {self.availability.shape}"
            )
        never = np.flatnonzero(~np.atleast_2d(self.availability).any(axis=1))
        if never.size:
            where = f" in states {some(never)}" if self.availability.ndim == 2 else ""
            raise ValueError(
                f"availability is 0 for every action{where}, but an action set is "
                "never empty: give at least one action a positive probability"
            )
        table = np.atleast_1d(self.availability)
        self._first_probs = first_member_probs(table)
        # Leading actions for which "not empty" makes no difference in double precision.
        is_same = (self._first_probs == table).reshape(-1, table.shape[-1]).all(axis=0)
        self._num_same = int(np.append(is_same, False).argmin())
        self._number: Number = identity

    def num_uniforms(self, num_actions: int) -> int:
        """Return one uniform per action."""
        return num_actions

    def fit(self, task: TaskForm) -> "Independent":
        """Spread one number over the actions; check the shape of more."""
        return self.fit_columns(task, task.num_actions)

    def fit_columns(self, task: TaskForm, num_columns: int) -> "Independent":
        """Fit the table to a task and to a number of columns."""
        if self.availability.ndim == 0:
            return Independent(np.full(num_columns, self.availability))
        check_table("availability", self.availability, num_columns, task.num_states)
        if self.availability.ndim == 1:
            return self
        fitted = copy(self)
        fitted._number = task.number
        return fitted

    @property
    def is_same_in_every_state(self) -> bool:
        """Whether the probabilities are; not for subclasses, which may differ."""
        return type(self) is Independent and self.availability.ndim == 1

    def stays_within(self, possible: Bool[Mask, "S A"]) -> bool:
        """Return whether the table is 0 wherever an action is not possible."""
        return bool((self.availability <= possible).all())

    def sets_from(
        self,
        uniforms: Float[Floats, "N U"],
        state: States | None,
        possible: Bool[Mask, "N U"] | None,
    ) -> Bool[Mask, "N U"]:
        """Compare each uniform with its probability."""
        if self.availability.ndim == 0:
            fitted = self.fit(Sizes(uniforms.shape[1]))
            return fitted.sets_from(uniforms, state, possible)
        p, first = self.availability, self._first_probs
        if p.ndim == 2 and state is not None:
            number: Ints = self._number(state)
            p, first = p.take(number, axis=0), first.take(number, axis=0)
        mask = uniforms < p
        # What is computed already serves where only possible actions are offered.
        if possible is not None and np.count_nonzero((p > 0) > possible):
            p = np.where(possible, p, 0.0)
            check_never_empty(p.max(axis=1) > 0, self._number(state))
            first = first_member_probs(p)
            mask = uniforms < p
        elif self._num_same and has_one_each(mask[:, : self._num_same]):
            return mask
        # u < p implies u < first: no action before the first member is in the mask.
        first_member = (uniforms < first).argmax(axis=1)
        # By its place in the flat mask: the fastest way to set it.
        mask.put(first_member + np.arange(0, mask.size, mask.shape[1]), True)
        return mask


def as_action_sets(action_sets: ActionSets | ArrayLike) -> ActionSets:
    """Return a distribution unchanged, and a probability or table as `Independent`."""
    if isinstance(action_sets, ActionSets):
        return action_sets
    return Independent(action_sets)


def has_one_each(mask: Bool[Mask, "N A"]) -> bool:
    """Return whether every row has a true entry."""
    # The first of each row is found sooner than `any` looks at all of them.
    rows = np.arange(len(mask))
    return bool(mask[rows, mask.argmax(axis=1)].all())


def first_member_probs(p: Float[Floats, "*B A"]) -> Float[Floats, "*B A"]:
    """Return P(action in the set | none before it is in, and the set is not empty).

    It is p_a / (1 - prod over b >= a of (1 - p_b)).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        log_not = np.log1p(-p)
        log_none_left = log_not[..., ::-1].cumsum(axis=-1)[..., ::-1]
        probs = p / -np.expm1(log_none_left)
    # The last action that can be in must be: exactly, whatever the rounding. (None
    # after it is ever looked at.)
    return np.where(log_none_left == log_not, 1.0, probs)
