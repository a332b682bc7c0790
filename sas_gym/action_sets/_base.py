"""What a law of the action set is."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

NEVER_EMPTY = "an action set is never empty"


class ActionSets(ABC):
    """A law of the action set, phi(s, alpha) in the literature.

    A law is a pure function from uniform numbers to sets: it owns no randomness, so one
    object serves any number of lanes and environments, and one row of uniforms always
    gives one set. What distinguishes laws in time is how a lane's row changes from step
    to step (`next_uniforms`); what distinguishes them in space is how a row becomes a set
    (`sets_from`). No law ever gives an empty set: each is its stated distribution
    *conditioned on not being empty*, as if an empty draw were drawn again.
    """

    is_sas_mdp: ClassVar[bool] = True
    """Whether the set depends on the current state alone, as a SAS-MDP demands."""

    @abstractmethod
    def num_uniforms(self, num_actions: int) -> int:
        """Return how many uniforms make one set: the length U of a row."""

    @abstractmethod
    def fit(self, num_actions: int, num_states: int | None) -> "ActionSets":
        """Return this law for a task of a given size.

        Args:
            num_actions: Size of the base action set.
            num_states: Number of states, or `None` where they are not numbered.

        Raises:
            ValueError: If the law is made for another size.
        """

    def next_uniforms(self, row: Floats, fresh: Floats) -> Floats:
        """Return the rows from which the next sets of an episode are made.

        Args:
            row: The rows of the step before, [N, U]; at first they are fresh ones.
            fresh: New independent uniforms, [N, U].
        """
        return fresh

    @abstractmethod
    def sets_from(
        self, row: Floats, state: Ints | None, possible: Mask | None = None
    ) -> Mask:
        """Make one non-empty set out of each row.

        Args:
            row: Uniform numbers, [N, U].
            state: Number of each lane's state, [N], or `None` where there is none.
            possible: Actions that the state allows at all, [N, A]; all by default.

        Returns:
            The action sets as a mask with a True in every row, [N, A].
        """


def checked_probabilities(name: str, values: ArrayLike) -> Floats:
    """Return probabilities as an array, or raise `ValueError`."""
    try:
        table = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers in [0, 1]; got {values!r}") from error
    wrong = ~((table >= 0) & (table <= 1))
    if wrong.any() or table.size == 0:
        culprits = np.unique(table[wrong])[:5].tolist() or "an empty array"
        raise ValueError(f"{name} must be numbers in [0, 1]; got {culprits}")
    return table


def check_table(
    name: str, table: Floats, num_columns: int, num_states: int | None
) -> None:
    """Check that a table is [], [num_columns] or [num_states, num_columns]."""
    if table.ndim == 2 and num_states is None:
        raise ValueError(
            f"{name} has one row a state, {table.shape}, but the states of this task "
            f"are not numbered: give one number, or one an action ({num_columns})"
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


def some(indices: Ints) -> str:
    """Name a few of many culprits."""
    more = f" and {len(indices) - 5} more" if len(indices) > 5 else ""
    return f"{indices[:5].tolist()}{more}"
