"""What a distribution of the action sets is."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from sas_gym._types import Floats, Ints, Mask


class ActionSets(ABC):
    """A distribution of the action sets, phi(s, alpha) in the literature.

    It is a pure function from uniform numbers to sets: it owns no randomness, so one
    object serves any number of environments, and the same uniforms always give the same
    set. Distributions differ in time by how the uniforms of an environment change from
    step to step (`next_uniforms`), and otherwise by how uniforms become a set
    (`sets_from`). No set is ever empty: each distribution is the stated one
    *conditioned on not being empty*, as if an empty draw were drawn again.
    """

    is_sas_mdp: ClassVar[bool] = True
    """Whether the set depends on the current state alone, as a SAS-MDP demands."""

    @abstractmethod
    def num_uniforms(self, num_actions: int) -> int:
        """Return how many uniforms one set needs."""

    @abstractmethod
    def fit(self, num_actions: int, num_states: int | None) -> "ActionSets":
        """Return this distribution for a task of a given size.

        Args:
            num_actions: Size of the base action set.
            num_states: Number of states, or `None` where they are not numbered.

        Raises:
            ValueError: If the distribution is made for another size.
        """

    @property
    def is_same_in_every_state(self) -> bool:
        """Whether sets are made of fresh uniforms alone, where all is possible.

        If so, many steps are drawn in one call, ahead of the states.
        """
        return False

    def stays_within(self, possible: Bool[Mask, "S A"]) -> bool:
        """Return whether no set can hold more than each state's possible actions.

        If so, sets need not be drawn within these. `False` is always right.
        """
        return False

    def next_uniforms(
        self, uniforms: Float[Floats, "N U"], fresh: Float[Floats, "N U"]
    ) -> Float[Floats, "N U"]:
        """Return the uniforms from which the next sets of an episode are made.

        Args:
            uniforms: Those of the step before; at first they are fresh ones.
            fresh: New independent ones.
        """
        return fresh

    @abstractmethod
    def sets_from(
        self,
        uniforms: Float[Floats, "N U"],
        state: Int[Ints, " N"] | None,
        possible: Bool[Mask, "N A"] | None,
    ) -> Bool[Mask, "N A"]:
        """Return one non-empty set of possible actions per row of uniforms.

        Args:
            uniforms: Numbers in [0, 1).
            state: Number of each environment's state, or `None` where it has none.
            possible: Actions that each state has at all; `None` for all actions.

        Raises:
            ValueError: If in some state no possible action is ever available.
        """


def checked_probabilities(name: str, values: ArrayLike) -> Floats:
    """Return probabilities as an array, or raise `ValueError`."""
    try:
        table = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be probabilities in [0, 1]; got {values!r}"
        ) from error
    wrong = ~((table >= 0) & (table <= 1))
    if wrong.any() or table.size == 0:
        culprits = np.unique(table[wrong])[:5].tolist() or "an empty array"
        raise ValueError(f"{name} must be probabilities in [0, 1]; got {culprits}")
    return table


def check_table(
    name: str, table: Floats, num_columns: int, num_states: int | None
) -> None:
    """Check that a table is a scalar, one row, or one row per state."""
    if table.ndim == 2 and num_states is None:
        raise ValueError(
            f"{name} has one row per state, shape {table.shape}, but the states of "
            f"this task are not numbered: give one number, or a single row of "
            f"{num_columns} entries"
        )
    if table.ndim and table.shape[-1] != num_columns:
        raise ValueError(
            f"{name} must have {num_columns} columns; got shape {table.shape}"
        )
    if table.ndim == 2 and len(table) != num_states:
        raise ValueError(
            f"{name} must have one row for each of the {num_states} states; got shape "
            f"{table.shape}"
        )


def check_never_empty(
    is_feasible: Bool[Mask, " N"], state: Int[Ints, " N"] | None
) -> None:
    """Raise `ValueError` where no possible action has a positive probability."""
    infeasible = np.flatnonzero(~is_feasible)
    if infeasible.size:
        where = (
            ""
            if state is None
            else f" in states {some(np.unique(state[~is_feasible]))}"
        )
        raise ValueError(
            f"no possible action is ever available{where}, but an action set is never "
            "empty: give at least one possible action a positive probability"
        )


def some(indices: Ints) -> str:
    """Name a few of many culprits."""
    more = f" and {len(indices) - 5} more" if len(indices) > 5 else ""
    return f"{indices[:5].tolist()}{more}"
