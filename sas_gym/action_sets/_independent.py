"""Actions that are available independently of each other."""

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


class Independent(ActionSets):
    """Every action is available with its own probability, independently of the others.

    Args:
        availability: One probability, one an action [A], or one a state and action
            [S, A].
    """

    def __init__(self, availability: ArrayLike) -> None:
        self.availability = checked_probabilities("availability", availability)
        if self.availability.ndim > 2:
            raise ValueError(
                "availability must be one number, one an action [A] or one a state and "
                f"action [S, A]; got shape {self.availability.shape}"
            )
        hopeless = np.flatnonzero(~np.atleast_2d(self.availability).any(axis=1))
        if hopeless.size:
            where = (
                f" in states {some(hopeless)}" if self.availability.ndim == 2 else ""
            )
            raise ValueError(
                f"availability is 0 for every action{where}, but "
                f"{NEVER_EMPTY}: give at least one action a positive probability"
            )
        self._first_chances = first_chances(np.atleast_1d(self.availability))

    def num_uniforms(self, num_actions: int) -> int:
        """Return one uniform an action."""
        return num_actions

    def fit(self, num_actions: int, num_states: int | None) -> "Independent":
        """Spread one number over the actions; check the shape of more."""
        if self.availability.ndim == 0:
            return Independent(np.full(num_actions, self.availability))
        check_table("availability", self.availability, num_actions, num_states)
        return self

    def sets_from(
        self, row: Floats, state: Ints | None, possible: Mask | None = None
    ) -> Mask:
        """Compare each uniform with its probability."""
        p, first = self.availability, self._first_chances
        if p.ndim == 0:
            return self.fit(row.shape[1], None).sets_from(row, state, possible)
        if p.ndim == 2 and state is not None:
            p, first = p.take(state, axis=0), first.take(state, axis=0)
        return independent_sets(row, p, first, possible)


def as_action_sets(law: ActionSets | ArrayLike) -> ActionSets:
    """Return a law as it is, and a probability or a table of them as `Independent`."""
    return law if isinstance(law, ActionSets) else Independent(law)


def independent_sets(
    u: Floats, p: Floats, first: Floats, possible: Mask | None = None
) -> Mask:
    """Draw independent availabilities, conditioned on at least one.

    Nothing is drawn again: the first member of the set is found by its own chances
    (`first_chances`), and after it each action is in by its probability. So a set takes
    the same number of uniforms every time.

    Args:
        u: Uniform numbers, [N, A].
        p: Probabilities, [A] or [N, A].
        first: The `first_chances` of p.
        possible: Actions that may be available at all, [N, A].
    """
    if possible is not None:
        p = np.where(possible, p, 0.0)
        first = first_chances(p)
        if not p.any(axis=1).all():
            raise ValueError(
                "no action is both possible in this state and ever available under the "
                f"law of the action sets ({NEVER_EMPTY})"
            )
    mask = u < p
    # u < p implies u < first: no action before the first member is in the mask.
    first_member = (u < first).argmax(axis=1)
    # By its place in the mask taken as one row: the fastest way to set it.
    mask.reshape(-1)[np.arange(0, mask.size, mask.shape[1]) + first_member] = True
    return mask


def first_chances(p: Floats) -> Floats:
    """Chance of each action to be in the set if none before it is and one must be.

    It is p_a / (1 - prod over b >= a of (1 - p_b)), for p [..., A].
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        log_not = np.log1p(-p)
        log_none_left = log_not[..., ::-1].cumsum(axis=-1)[..., ::-1]
        chances = p / -np.expm1(log_none_left)
    # The last action that can come must: exactly, whatever the rounding. (None after it
    # is ever looked at.)
    return np.where(log_none_left == log_not, 1.0, chances)
