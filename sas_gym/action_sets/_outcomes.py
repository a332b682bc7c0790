"""One draw that decides the available actions: dice, a request, free capacity."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from sas_gym._types import Floats, Ints, Mask
from sas_gym.action_sets._base import (
    ROUNDING,
    ActionSets,
    OutcomeList,
    States,
    TaskForm,
    check_listable,
    checked_probabilities,
)

Available = Callable[[States, Int[Ints, " N"]], Bool[Mask, "N A"]]
"""From N states and N outcomes to the sets of available actions."""


class Outcomes(ActionSets):
    """One random outcome decides, in every state, which actions are available.

    The outcome is not part of the state: the effect of an action must depend on the
    state and the action alone. Nothing is drawn again to avoid an empty set: an outcome
    that leaves no action is an error, and the cure is an action that is always there,
    or that is there when nothing else is, such as to wait or to give up.

    Args:
        probabilities: Probability of each outcome (K,): at every step or, with
            `transitions`, at the first step of an episode.
        available: A function of N states and N numbers of outcomes that returns which
            actions are available, booleans of shape (N, A).
        transitions: Probability of each next outcome after each outcome (K, K), for
            outcomes that last: outside the SAS-MDP model. By default every step has a
            new outcome.

    Example:
        >>> def at_most(state, outcome):
        ...     '''Pay 1, 2 or 3 coins, at most as many as the die shows; or none.'''
        ...     return np.arange(4) <= np.minimum(state, outcome + 1)[:, None]
        >>> die = Outcomes([1 / 3] * 3, at_most)
        >>> die.sets_from(np.array([[0.5], [0.9]]), np.array([5, 1]), None).astype(int)
        array([[1, 1, 1, 0],
               [1, 1, 0, 0]])
    """

    def __init__(
        self,
        probabilities: ArrayLike,
        available: Available,
        transitions: ArrayLike | None = None,
    ) -> None:
        self.probabilities = _checked_shares("probabilities", probabilities, 1)
        self.available = available
        self.transitions: Floats | None = None
        self._listed_states: States | None = None
        num_outcomes = len(self.probabilities)
        self._ends = _ends(self.probabilities)
        if transitions is not None:
            self.transitions = _checked_shares("transitions", transitions, 2)
            if self.transitions.shape != (num_outcomes, num_outcomes):
                raise ValueError(
                    f"transitions must have one row and one column for each of the "
                    f"{num_outcomes} outcomes; got shape {self.transitions.shape}"
                )
            if not self.probabilities.all():
                raise ValueError(
                    "probabilities must be above 0 for outcomes that last: leave out "
                    "those that never come first, or give them a small probability"
                )
            self._next_ends = _ends(self.transitions)

    @property
    def is_sas_mdp(self) -> bool:
        """Whether every step has a new outcome."""
        return self.transitions is None

    @property
    def is_of_the_world(self) -> bool:
        """Return true: one outcome decides in all states."""
        return True

    def num_uniforms(self, num_actions: int) -> int:
        """Return the one uniform that picks the outcome."""
        return 1

    def fit(self, task: TaskForm) -> "Outcomes":
        """Look up a task's states by their numbers, where the numbers are its states.

        A task's tabular form has numbers in place of the task's states.
        """
        if task.listed_states is None or self._listed_states is not None:
            return self
        fitted = Outcomes(self.probabilities, self.available, self.transitions)
        fitted._listed_states = task.listed_states
        return fitted

    def outcome(self, uniforms: Float[Floats, "N 1"]) -> Int[Ints, " N"]:
        """Return the outcome in whose share of the unit interval each uniform lies."""
        return self._ends[:-1].searchsorted(uniforms[:, 0], side="right")

    def next_uniforms(
        self, uniforms: Float[Floats, "N 1"], fresh: Float[Floats, "N 1"]
    ) -> Float[Floats, "N 1"]:
        """Move the chain of outcomes one step.

        The fresh uniform picks the next outcome by the transitions. The rest of it,
        stretched, is the place in that outcome's share of the unit interval.
        """
        if self.transitions is None:
            return fresh
        current = self.outcome(uniforms)
        ends = self._next_ends[current]
        following = (fresh >= ends[:, :-1]).sum(axis=1)
        rows = np.arange(len(ends))
        share = self.transitions[current, following]
        place = 1 - (ends[rows, following] - fresh[:, 0]) / share
        end = self._ends[following]
        moved = end - (1 - place) * self.probabilities[following]
        # Rounding must not lead out of the outcome's share.
        start = np.where(following > 0, self._ends[following - 1], 0.0)
        kept: Floats = np.clip(moved, start, np.nextafter(end, 0.0))
        return kept[:, None]

    def sets_from(
        self,
        uniforms: Float[Floats, "N 1"],
        state: States | None,
        possible: Bool[Mask, "N A"] | None,
    ) -> Bool[Mask, "N A"]:
        """Return the sets of the outcomes that the uniforms pick."""
        if state is None:
            raise ValueError(
                "Outcomes needs the states of a task: use it as the action_sets of a "
                "sas_gym.Task"
            )
        return self.sets_of(self.outcome(uniforms), state, possible)

    def sets_of(
        self,
        outcome: Int[Ints, " N"],
        state: States,
        possible: Bool[Mask, "N A"] | None,
    ) -> Bool[Mask, "N A"]:
        """Return the sets to which outcomes lead in some states."""
        if self._listed_states is not None:
            state = self._listed_states[state]
        mask: Mask = np.asarray(self.available(state, outcome))
        if possible is not None:
            mask = mask & possible
        if not mask.any(axis=1).all():
            row = int((~mask.any(axis=1)).argmax())
            raise ValueError(
                f"outcome {int(outcome[row])} leaves no action in state "
                f"{state[row].tolist()}, and an action set is never empty: give the "
                "state an action that is there when nothing else is, such as to wait "
                "or to give up"
            )
        return mask

    def check_states(
        self, state: States, possible: Bool[Mask, "N A"] | None, num_actions: int
    ) -> None:
        """Raise `ValueError` if some state and outcome leave no action."""
        for outcome in np.flatnonzero(self.probabilities):
            mask = self.sets_of(np.full(len(state), outcome), state, possible)
            if mask.shape != (len(state), num_actions) or mask.dtype != np.bool_:
                raise ValueError(
                    "available(states, outcomes) must return booleans of shape "
                    f"{(len(state), num_actions)}; got shape {mask.shape} of "
                    f"{mask.dtype}"
                )

    def listed(self) -> OutcomeList:
        """Return the outcomes and their probabilities."""
        check_listable(len(self.probabilities), "Outcomes has")
        chains = None if self.transitions is None else (self.transitions,)
        return OutcomeList(self.probabilities, chains)


def _checked_shares(name: str, values: ArrayLike, ndim: int) -> Floats:
    """Return probabilities that sum to 1 along the last axis."""
    table = checked_probabilities(name, values)
    total = table.sum(axis=-1, keepdims=True)
    if table.ndim != ndim or not np.allclose(total, 1.0, rtol=0.0, atol=ROUNDING):
        shape = "(K,)" if ndim == 1 else "(K, K)"
        raise ValueError(
            f"{name} must be of shape {shape} and sum to 1 in every row; got shape "
            f"{table.shape}, sums {np.ravel(total)[:5].tolist()}"
        )
    shares: Floats = table / total
    return shares


def _ends(shares: Float[Floats, "*B K"]) -> Float[Floats, "*B K"]:
    """Return where each share of the unit interval ends; the last, and its like, at 1.

    Shares of 0 at the end are no room for a rounding error.
    """
    ends = shares.cumsum(axis=-1)
    is_last = np.flip(np.flip(shares, -1).cumsum(axis=-1), -1) - shares <= 0
    return np.where(is_last, 1.0, ends)
