"""Action sets that last for more than one step: outside the SAS-MDP model."""

from copy import copy

import numpy as np
from gymnasium import logger
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from sas_gym._types import Floats, Ints, Mask
from sas_gym.action_sets._base import (
    ActionSets,
    Number,
    OutcomeList,
    States,
    TaskForm,
    checked_probabilities,
    identity,
)
from sas_gym.action_sets._independent import Independent, as_action_sets
from sas_gym.action_sets._sampler import hashed_uniforms
from sas_gym.action_sets._things import Things, one_per_action

MANY_THINGS = 10_000
"""From so many things on, drawing all of them at every step is slow."""

# Odd, so that it permutes the 64-bit words (from LXM, as `_sampler`'s constants).
_PER_STATE = np.uint64(0xD1342543DE82EF95)


class PerEpisode(ActionSets):
    """Sets drawn once per episode: a state met again in it offers the same set again.

    Outside the SAS-MDP model: within an episode the past tells a state's next set.
    On a task with things that fail, such as a road map, each thing works or fails for a
    whole episode: both directions of a closed road stay closed wherever the driver is
    (the Canadian traveller problem). So does the outcome of `Outcomes`. Other sets are
    drawn once for each numbered state; without numbers one set holds throughout.

    Args:
        action_sets: Distribution of the sets of one episode; or just a probability, of
            each thing where the task has things; by default the task's own.
    """

    def __init__(self, action_sets: ActionSets | ArrayLike | None = None) -> None:
        self.action_sets = None if action_sets is None else as_action_sets(action_sets)
        self._number: Number = identity
        if self.action_sets is not None and not self.action_sets.is_sas_mdp:
            raise ValueError(
                "PerEpisode needs a distribution that depends on the current state "
                f"alone, got {type(self.action_sets).__name__}"
            )

    @property
    def is_sas_mdp(self) -> bool:
        """Return false: the sets of an episode depend on each other."""
        return False

    @property
    def is_of_the_world(self) -> bool:
        """Whether one draw decides in all states."""
        return self._inner.is_of_the_world

    @property
    def _inner(self) -> ActionSets:
        if self.action_sets is None:
            raise ValueError(
                "PerEpisode() takes the task's own distribution: use it in an "
                "environment, as action_sets=PerEpisode()"
            )
        return self.action_sets

    def num_uniforms(self, num_actions: int) -> int:
        """Return one uniform for things, to be hashed; else the inner number."""
        if isinstance(self._inner, Things):
            return 1
        return self._inner.num_uniforms(num_actions)

    def fit(self, task: TaskForm) -> "PerEpisode":
        """Fit the inner distribution; a bare probability goes to the task's things."""
        inner = self.action_sets
        if inner is None:
            inner = task.action_sets if task.things is None else task.things
        if isinstance(inner, Independent) and isinstance(task.things, Things):
            inner = task.things.with_availability(inner.availability, task)
        fitted = PerEpisode(inner.fit(task))
        fitted._number = task.number
        return fitted

    def next_uniforms(
        self, uniforms: Float[Floats, "N U"], fresh: Float[Floats, "N U"]
    ) -> Float[Floats, "N U"]:
        """Keep the uniforms until the episode ends."""
        return uniforms

    def sets_from(
        self,
        uniforms: Float[Floats, "N U"],
        state: States | None,
        possible: Bool[Mask, "N A"] | None,
    ) -> Bool[Mask, "N A"]:
        """Return the set that each state has in this episode."""
        inner = self._inner
        if isinstance(inner, Things):
            of_things = _hashed(uniforms, inner.things_at(state))
            return inner.sets_by(of_things, state, possible)
        number = None if inner.is_of_the_world else self._number(state)
        if number is not None:
            uniforms = _hashed(uniforms, number[:, None])
        return inner.sets_from(uniforms, state, possible)

    def check_states(
        self, state: States, possible: Bool[Mask, "N A"] | None, num_actions: int
    ) -> None:
        """Raise `ValueError` if in some state a set could be empty."""
        self._inner.check_states(state, possible, num_actions)

    def listed(self) -> OutcomeList | None:
        """Return the outcomes of an episode, or `None` if each state has its own."""
        if not self._inner.is_of_the_world:
            return None
        listed = self._inner.listed()
        return None if listed is None else OutcomeList(listed.probabilities, ())

    def sets_of(
        self,
        outcome: Int[Ints, " N"],
        state: States,
        possible: Bool[Mask, "N A"] | None,
    ) -> Bool[Mask, "N A"]:
        """Return the sets to which outcomes lead in some states."""
        return self._inner.sets_of(outcome, state, possible)


class Markov(ActionSets):
    """Every thing that fails is an on/off Markov chain of its own: failures that last.

    Outside the SAS-MDP model: past sets tell about the next ones. On a task
    with things, such as a road map, a closed road stays closed while the driver moves;
    on other tasks every action is a thing. The chains start in equilibrium, so at any
    one step each thing works with probability `turn_on / (turn_on + turn_off)`.

    Nothing is drawn again to avoid an empty set: every state needs an action that is
    always there, as waiting is on a road map, or a thing with `turn_off` 0.

    Every thing is drawn at every step: from about 10,000 things on that is slow, and
    `PerEpisode`, which draws only the things at hand, is not.

    Args:
        turn_on: Probability per step that a thing starts to work again, in (0, 1]; one
            number or one per thing (per action, where the task has no things).
        turn_off: Probability per step that a thing fails, in [0, 1); one number or one
            per thing.
    """

    def __init__(self, turn_on: ArrayLike, turn_off: ArrayLike) -> None:
        self.turn_on = checked_probabilities("turn_on", turn_on)
        self.turn_off = checked_probabilities("turn_off", turn_off)
        if not self.turn_on.all():
            raise ValueError("turn_on must be above 0, or a thing could fail for ever")
        if (self.turn_off == 1).any():
            raise ValueError(
                "turn_off must be below 1, or a thing could not work for two steps"
            )
        self._things: Things | None = None

    @property
    def is_sas_mdp(self) -> bool:
        """Return false: the sets of an episode depend on each other."""
        return False

    @property
    def is_of_the_world(self) -> bool:
        """Return true: a thing works or fails for all states that need it."""
        return True

    @property
    def availability(self) -> Floats:
        """Share of the steps at which each thing works: a scalar or (K,)."""
        share: Floats = self.turn_on / (self.turn_on + self.turn_off)
        return share

    @property
    def things(self) -> Things:
        """The things, once the distribution is fitted to a task."""
        if self._things is None:
            raise ValueError("Markov needs a task: call fit(task) first")
        return self._things

    def num_uniforms(self, num_actions: int) -> int:
        """Return one uniform per thing."""
        return num_actions if self._things is None else self._things.num_things

    def fit(self, task: TaskForm) -> "Markov":
        """Spread the probabilities over the things, or over the actions."""
        things = task.things
        if not isinstance(things, Things):
            things = one_per_action(task.num_actions, 1.0)
        size = things.num_things
        fitted = copy(self)
        for name in ("turn_on", "turn_off"):
            table = getattr(self, name)
            if table.ndim > 1 or (table.ndim and len(table) != size):
                of_what = "action" if task.things is None else "thing that fails"
                raise ValueError(
                    f"{name} must be one number or one per {of_what}, shape ({size},); "
                    f"got shape {table.shape}"
                )
            setattr(fitted, name, np.broadcast_to(table, size))
        fitted._things = things.with_availability(fitted.availability, task)
        if size > MANY_THINGS:
            logger.warn(
                f"Markov draws each of {size} things at every step, which is slow from "
                f"about {MANY_THINGS} on: PerEpisode draws only the things at hand"
            )
        return fitted

    def next_uniforms(
        self, uniforms: Float[Floats, "N U"], fresh: Float[Floats, "N U"]
    ) -> Float[Floats, "N U"]:
        """Move each chain one step, and keep its number uniform on [0, 1).

        A thing works while its number lies below `availability`. The fresh uniform
        decides on which side the next number lies. The rest of it, stretched, is that
        number.
        """
        p = self.availability
        on_next = np.where(uniforms < p, 1 - self.turn_off, self.turn_on)
        with np.errstate(divide="ignore", invalid="ignore"):
            on = p * fresh / on_next
            off = p + (1 - p) * (fresh - on_next) / (1 - on_next)
        return np.where(fresh < on_next, on, off)

    def sets_from(
        self,
        uniforms: Float[Floats, "N U"],
        state: States | None,
        possible: Bool[Mask, "N A"] | None,
    ) -> Bool[Mask, "N A"]:
        """Offer the actions whose things work."""
        works: Mask = uniforms < self.things.availability
        return self.things.sets_where(works, state, possible)

    def check_states(
        self, state: States, possible: Bool[Mask, "N A"] | None, num_actions: int
    ) -> None:
        """Raise `ValueError` if a state has no action that is always there."""
        self.things.check_states(state, possible, num_actions)

    def listed(self) -> OutcomeList:
        """Return every combination of things that work, and the chain of each thing."""
        listed, uncertain = self.things.listed(), self.things.uncertain
        rates = zip(self.turn_on[uncertain], self.turn_off[uncertain], strict=True)
        chains = [np.array([[1 - on, on], [off, 1 - off]]) for on, off in rates]
        return OutcomeList(listed.probabilities, chains)

    def sets_of(
        self,
        outcome: Int[Ints, " N"],
        state: States,
        possible: Bool[Mask, "N A"] | None,
    ) -> Bool[Mask, "N A"]:
        """Return the sets where the bits of an outcome say which things work."""
        return self.things.sets_of(outcome, state, possible)


def _hashed(
    uniforms: Float[Floats, "N #U"], number: Int[Ints, "#N #U"]
) -> Float[Floats, "N U"]:
    """Hash an episode's uniforms into new ones for each state or thing."""
    bits = (uniforms * 2.0**53).astype(np.uint64)
    return hashed_uniforms(bits + number.astype(np.uint64) * _PER_STATE)
