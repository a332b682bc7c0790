"""The base class of the distributions of the action sets."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from numpy.typing import ArrayLike

from sas_gym._types import Floats, Ints, Mask, NDArray

States = Shaped[NDArray[Any], "N ..."]
"""The states of N environments, along the first axis."""

ROUNDING = 1e-9

MAX_OUTCOMES = 4096
"""Largest number of outcomes that a distribution lists for the planner."""


class TaskForm(Protocol):
    """The sides of a task that a distribution is fitted to."""

    @property
    def num_actions(self) -> int:
        """Size of the base action set."""

    @property
    def num_states(self) -> int | None:
        """Number of states, or `None` where they are not numbered."""

    @property
    def things(self) -> "ActionSets | None":
        """The things that fail and so make actions unavailable, as `Things`."""

    @property
    def action_sets(self) -> "ActionSets":
        """The task's own distribution."""

    @property
    def listed_states(self) -> "States | None":
        """Each number's state for `Outcomes`, where that is not the number itself."""

    def number(self, state: States, /) -> Int[Ints, " N"] | None:
        """Return the states as integers, or `None` if they are not numbered."""


@dataclass(frozen=True)
class Sizes:
    """The form of a task whose states are their numbers.

    Args:
        num_actions: Size of the base action set.
        num_states: Number of states, or `None` where they are not numbered.
    """

    num_actions: int
    num_states: int | None = None
    things: "ActionSets | None" = None
    listed_states: None = None

    @property
    def action_sets(self) -> "ActionSets":
        """Raise an error: there is no task that could have its own distribution."""
        raise ValueError(
            "there is no task whose own distribution could be used: pass one"
        )

    def number(self, state: States | None) -> Int[Ints, " N"] | None:
        """Return the states themselves."""
        return state


Number = Callable[[Any], Any]
"""From states to their numbers, or to `None` where they have none."""


def identity(state: Any) -> Any:
    """Return states that are their own numbers."""
    return state


@dataclass(frozen=True)
class OutcomeList:
    """The outcomes that decide the sets, and how they follow each other."""

    probabilities: Float[Floats, " K"]
    """Probability of each outcome: at every step, or at first where they last."""
    transitions: Sequence[Floats] | None = None
    """`None` where a new outcome is drawn at every step. Else independent chains, whose
    states make up an outcome, the first chain's most significant: the probability of
    each state after each. No chain: the outcome stays for the whole episode."""

    @property
    def lasts(self) -> bool:
        """Whether the next outcome depends on the current one."""
        return self.transitions is not None

    def mean_next(self, values: Float[Floats, "*B K"]) -> Float[Floats, "*B K"]:
        """Return the mean of values over the next outcome, given the current one."""
        if self.transitions is None:
            return np.broadcast_to(
                (values @ self.probabilities)[..., None], values.shape
            )
        batch = values.shape[:-1]
        mean = values.reshape(-1, *(len(chain) for chain in self.transitions))
        for chain in self.transitions:
            # The axis of the chain goes to the end: after all, they are in order again.
            mean = np.tensordot(mean, chain, axes=(1, 1))
        return mean.reshape(*batch, -1)


def check_listable(num_outcomes: float, of_what: str) -> None:
    """Raise `ValueError` for more outcomes than the planner takes."""
    if num_outcomes > MAX_OUTCOMES:
        raise ValueError(
            f"{of_what} {num_outcomes:.6g} outcomes, and the planner lists at most "
            f"{MAX_OUTCOMES}: play episodes instead (episode_returns)"
        )


class ActionSets(ABC):
    """A distribution of the action sets, phi(s, alpha) in the literature.

    It is a pure function from uniform numbers to sets: it owns no randomness, so one
    object serves any number of environments, and the same uniforms always give the same
    set. Distributions differ in time by how the uniforms of an environment change from
    step to step (`next_uniforms`), and otherwise by how uniforms become a set
    (`sets_from`). No set is ever empty: either the distribution is the stated one
    *conditioned on not being empty*, as if an empty draw were drawn again; or, where
    outcomes or things decide, every state must have an action that is always there.
    """

    @property
    def is_sas_mdp(self) -> bool:
        """Whether the set depends on the current state alone, as a SAS-MDP demands."""
        return True

    @property
    def is_of_the_world(self) -> bool:
        """Whether one draw decides in all states, as dice and closed roads do."""
        return False

    @abstractmethod
    def num_uniforms(self, num_actions: int) -> int:
        """Return how many uniforms one set needs."""

    @abstractmethod
    def fit(self, task: TaskForm) -> "ActionSets":
        """Return this distribution for a task.

        Args:
            task: The task: its sizes, the numbers of its states and its things.

        Raises:
            ValueError: If the distribution is made for another task.
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

        It is called where `is_sas_mdp` is false.

        Args:
            uniforms: The uniforms of the step before; at first they are fresh ones.
            fresh: New independent uniforms.
        """
        return fresh

    @abstractmethod
    def sets_from(
        self,
        uniforms: Float[Floats, "N U"],
        state: States | None,
        possible: Bool[Mask, "N A"] | None,
    ) -> Bool[Mask, "N A"]:
        """Return one non-empty set of possible actions per row of uniforms.

        Args:
            uniforms: Numbers in [0, 1).
            state: Each environment's state, as the task has it; `None` where the
                distribution is the same in every state.
            possible: Actions that each state has at all; `None` for all actions.

        Raises:
            ValueError: If in some state no possible action is ever available.
        """

    def check_states(
        self, state: States, possible: Bool[Mask, "N A"] | None, num_actions: int
    ) -> None:
        """Raise `ValueError` if in some state a set could be empty.

        Args:
            state: States of the task.
            possible: Actions that each state has at all; `None` for all actions.
            num_actions: Size of the base action set.
        """
        if possible is not None:
            # The lowest uniforms: whatever can be available is.
            lowest = np.zeros((len(state), self.num_uniforms(num_actions)))
            self.sets_from(lowest, state, possible)

    def listed(self) -> OutcomeList | None:
        """Return the outcomes that decide, or `None` if they cannot be listed.

        Raises:
            ValueError: If there are too many of them.
        """
        return None

    def sets_of(
        self,
        outcome: Int[Ints, " N"],
        state: States,
        possible: Bool[Mask, "N A"] | None,
    ) -> Bool[Mask, "N A"]:
        """Return the sets to which outcomes of `listed` lead in some states.

        Args:
            outcome: Number of each outcome.
            state: The states.
            possible: Actions that each state has at all; `None` for all actions.
        """
        raise NotImplementedError(f"{type(self).__name__} lists no outcomes")


def checked_probabilities(name: str, values: ArrayLike) -> Floats:
    """Return probabilities as an array, or raise `ValueError`."""
    try:
        table = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be probabilities in [0, 1]; got {values!r}"
        ) from error
    # A sum of shares may exceed 1 by a rounding error.
    table = np.where((table > 1) & (table <= 1 + ROUNDING), 1.0, table)
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
