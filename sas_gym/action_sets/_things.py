"""Things that fail: roads, zones, suppliers, on which actions depend."""

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from sas_gym._types import Floats, Ints, Mask
from sas_gym.action_sets._base import (
    ActionSets,
    Number,
    OutcomeList,
    States,
    TaskForm,
    check_listable,
    checked_probabilities,
    identity,
    some,
)
from sas_gym.action_sets._independent import has_one_each

ALWAYS = -1
"""In place of a thing: the action needs none and is always available."""


class Things(ActionSets):
    """An action is available while the thing works that it needs.

    By itself every thing is drawn anew at every step. `PerEpisode` and `Markov` make
    failures last: a road that is closed stays closed while the driver moves.

    Nothing is drawn again to avoid an empty set: every state needs an action that is
    always there, of the thing -1 or of one whose probability is 1.

    Args:
        thing_of: Number of the thing that each action needs, counted from 0: for all
            states (A,), or for each state (S, A); -1 for an action that needs none.
        availability: Probability that a thing works: one number, or one per thing (K,).

    Example:
        >>> two_ways = Things([0, 0, -1], 0.5)  # one road in two lanes; and waiting
        >>> two_ways.sets_from(np.array([[0.4] * 3, [0.6] * 3]), None, None).astype(int)
        array([[1, 1, 1],
               [0, 0, 1]])
    """

    def __init__(self, thing_of: ArrayLike, availability: ArrayLike) -> None:
        self.thing_of = _checked_things(thing_of)
        self.num_things = int(self.thing_of.max()) + 1
        table = checked_probabilities("availability", availability)
        if table.ndim > 1 or (table.ndim and len(table) != self.num_things):
            raise ValueError(
                f"availability must be one number or one per thing, shape "
                f"({self.num_things},); got shape {table.shape}"
            )
        table = np.broadcast_to(table, self.num_things)
        self.availability: Floats = table
        self.uncertain: Ints = np.flatnonzero((table > 0) & (table < 1))
        """The things that work at times; outcomes say which of them do."""
        # One entry more, for the index -1.
        self._p = np.append(self.availability, 1.0)
        self._number: Number = identity
        # The uniform of a thing is that of the first action in a state that needs it.
        same = self.thing_of[..., :, None] == self.thing_of[..., None, :]
        self._first = same.argmax(axis=-1)

    @property
    def is_of_the_world(self) -> bool:
        """Return true: a thing works or fails for all states that need it."""
        return True

    def num_uniforms(self, num_actions: int) -> int:
        """Return one uniform per action; actions that need one thing share theirs."""
        return num_actions

    def fit(self, task: TaskForm) -> "Things":
        """Check that the things are given for every action and state."""
        if self.thing_of.shape[-1] != task.num_actions:
            raise ValueError(
                f"thing_of must have one column per action, {task.num_actions}; got "
                f"shape {self.thing_of.shape}"
            )
        if self.thing_of.ndim == 2 and len(self.thing_of) != task.num_states:
            raise ValueError(
                f"thing_of must have one row for each of the {task.num_states} states; "
                f"got shape {self.thing_of.shape}"
            )
        return self._copy(self.availability, task)

    def with_availability(self, availability: ArrayLike, task: TaskForm) -> "Things":
        """Return the same things with other probabilities, fitted to a task."""
        return self._copy(availability, task)

    def things_at(self, state: States | None) -> Int[Ints, "#N A"]:
        """Return the thing that each action needs in some states."""
        if self.thing_of.ndim == 1:
            return self.thing_of[None]
        number: Ints = self._number(state)
        things: Ints = self.thing_of.take(number, axis=0)
        return things

    def sets_from(
        self,
        uniforms: Float[Floats, "N U"],
        state: States | None,
        possible: Bool[Mask, "N A"] | None,
    ) -> Bool[Mask, "N A"]:
        """Compare each thing's uniform with its probability."""
        first = self._first[None]
        if self.thing_of.ndim == 2:
            first = self._first.take(self._number(state), axis=0)
        needed = np.take_along_axis(uniforms, first, axis=1)
        return self.sets_by(needed, state, possible)

    def sets_by(
        self,
        uniforms: Float[Floats, "N A"],
        state: States | None,
        possible: Bool[Mask, "N A"] | None,
    ) -> Bool[Mask, "N A"]:
        """Return the sets for the uniform of the thing that each action needs."""
        mask = uniforms < self._p[self.things_at(state)]
        return self._within(mask, state, possible)

    def sets_of(
        self,
        outcome: Int[Ints, " N"],
        state: States,
        possible: Bool[Mask, "N A"] | None,
    ) -> Bool[Mask, "N A"]:
        """Return the sets where the bits of an outcome say which things work."""
        places = np.arange(len(self.uncertain))[::-1]
        works = np.tile(self.availability == 1, (len(outcome), 1))
        works[:, self.uncertain] = outcome[:, None] >> places & 1
        return self.sets_where(works, state, possible)

    def sets_where(
        self,
        works: Bool[Mask, "N K"],
        state: States | None,
        possible: Bool[Mask, "N A"] | None,
    ) -> Bool[Mask, "N A"]:
        """Return the sets where it is known which things work."""
        always = np.ones((len(works), 1), dtype=bool)
        works = np.concatenate([works, always], axis=1)
        mask = np.take_along_axis(works, self.things_at(state), axis=1)
        return self._within(mask, state, possible)

    def listed(self) -> OutcomeList:
        """Return every combination of things that work, and its probability.

        Things that always work, or never do, are in all of them.
        """
        check_listable(2.0 ** len(self.uncertain), f"{len(self.uncertain)} things have")
        probabilities = np.ones(1)
        for p in self.availability[self.uncertain]:
            probabilities = np.outer(probabilities, [1 - p, p]).ravel()
        return OutcomeList(probabilities)

    def check_states(
        self, state: States, possible: Bool[Mask, "N A"] | None, num_actions: int
    ) -> None:
        """Raise `ValueError` if a state has no action that is always there."""
        always: Mask = self._p[self.things_at(state)] == 1
        always = np.broadcast_to(always, (len(state), num_actions))
        self._within(always, state, possible)

    def _within(
        self,
        mask: Bool[Mask, "N A"],
        state: States | None,
        possible: Bool[Mask, "N A"] | None,
    ) -> Bool[Mask, "N A"]:
        """Return the possible actions of sets, or raise an error for an empty one."""
        if possible is not None:
            mask = mask & possible
        if not has_one_each(mask):
            stuck = ~mask.any(axis=1)
            number = None if state is None else self._number(state)
            where = ""
            if number is not None:
                where = f" in states {some(np.unique(number[stuck]))}"
            raise ValueError(
                f"when all things fail at once, no action is left{where}, and nothing "
                "is drawn again: give these states an action that is always there, "
                "such as waiting (wait_cost=... on a road map), or a thing that never "
                "fails (of Markov, turn_off=0)"
            )
        return mask

    def _copy(self, availability: ArrayLike, task: TaskForm) -> "Things":
        made = Things(self.thing_of, availability)
        made._number = task.number
        return made


def one_per_action(num_actions: int, availability: ArrayLike) -> Things:
    """Return things of which every action needs its own."""
    return Things(np.arange(num_actions), availability)


def _checked_things(thing_of: ArrayLike) -> Ints:
    array = np.asarray(thing_of)
    is_table = array.ndim in (1, 2) and array.dtype.kind in "iu" and array.size
    if not is_table or array.min() < ALWAYS or array.max() < 0:
        raise ValueError(
            "thing_of must be numbers of things, at least one of them, for each action "
            "(A,) or for each state and action (S, A), and -1 for an action that needs "
            f"none; got {thing_of!r}"
        )
    return array.astype(np.int64)
