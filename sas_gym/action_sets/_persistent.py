"""Sets that last: laws with a memory, outside the SAS-MDP model."""

import numpy as np
from numpy.typing import ArrayLike

from sas_gym.action_sets._base import (
    ActionSets,
    Floats,
    Ints,
    Mask,
    check_table,
    checked_probabilities,
)
from sas_gym.action_sets._independent import Independent, as_action_sets
from sas_gym.action_sets._uniforms import uniforms

_PER_STATE = np.uint64(0xD1342543DE82EF95)


class PerEpisode(ActionSets):
    """Sets drawn once an episode: a state met again in it offers the same set again.

    Outside the SAS-MDP model: within an episode the past tells what a state will offer
    (with roads that stay closed this is the Canadian traveller problem). In numbered
    states the sets of two states are independent; elsewhere one set holds throughout.

    Args:
        law: The law of the sets of one episode, or just a probability.
    """

    is_sas_mdp = False

    def __init__(self, law: "ActionSets | ArrayLike") -> None:
        self.law = as_action_sets(law)
        if not self.law.is_sas_mdp:
            raise ValueError(
                f"PerEpisode takes a law that forgets, got {type(self.law).__name__}"
            )

    def num_uniforms(self, num_actions: int) -> int:
        """Return what the inner law needs."""
        return self.law.num_uniforms(num_actions)

    def fit(self, num_actions: int, num_states: int | None) -> "PerEpisode":
        """Fit the inner law."""
        return PerEpisode(self.law.fit(num_actions, num_states))

    def next_uniforms(self, row: Floats, fresh: Floats) -> Floats:
        """Keep the row for as long as the episode lasts."""
        return row

    def sets_from(
        self, row: Floats, state: Ints | None, possible: Mask | None = None
    ) -> Mask:
        """Make the set that the episode has in store for this state."""
        if state is not None:
            row = _row_of_state(row, state)
        return self.law.sets_from(row, state, possible)


class Markov(ActionSets):
    """Every action is an on/off chain of its own: failures that last, then mend.

    Outside the SAS-MDP model: what was available before tells what will be. The chains
    start in equilibrium, so at any one step the sets have the law of `Independent` with
    probability `turn_on / (turn_on + turn_off)`.

    Args:
        turn_on: Chance a step that an unavailable action returns, in (0, 1]; [] or [A].
        turn_off: Chance a step that an available action goes, in [0, 1); [] or [A].
    """

    is_sas_mdp = False

    def __init__(self, turn_on: ArrayLike, turn_off: ArrayLike) -> None:
        self.turn_on = checked_probabilities("turn_on", turn_on)
        self.turn_off = checked_probabilities("turn_off", turn_off)
        if not self.turn_on.all():
            raise ValueError("turn_on must be above 0, or an action could be lost")
        if (self.turn_off == 1).any():
            raise ValueError("turn_off must be below 1, or every action could be lost")
        self._equilibrium = Independent(self.turn_on / (self.turn_on + self.turn_off))

    @property
    def availability(self) -> Floats:
        """Share of the time that each action is available, [] or [A]."""
        return self._equilibrium.availability

    def num_uniforms(self, num_actions: int) -> int:
        """Return one uniform an action."""
        return num_actions

    def fit(self, num_actions: int, num_states: int | None) -> "Markov":
        """Spread the chances over the actions."""
        chances = []
        for name, table in (("turn_on", self.turn_on), ("turn_off", self.turn_off)):
            check_table(name, table, num_actions, None)
            chances.append(np.broadcast_to(table, num_actions))
        return Markov(*chances)

    def next_uniforms(self, row: Floats, fresh: Floats) -> Floats:
        """Move each chain a step, and keep its number uniform on [0, 1).

        An action is on while its number lies below `availability`. The fresh uniform
        decides on which side the next number lies, and what is left of it, stretched,
        is that number: so the sets can be made as those of `Independent` are.
        """
        p = self.availability
        on_next = np.where(row < p, 1 - self.turn_off, self.turn_on)
        with np.errstate(divide="ignore", invalid="ignore"):
            on = p * fresh / on_next
            off = p + (1 - p) * (fresh - on_next) / (1 - on_next)
        return np.where(fresh < on_next, on, off)

    def sets_from(
        self, row: Floats, state: Ints | None, possible: Mask | None = None
    ) -> Mask:
        """Offer the actions that are on."""
        return self._equilibrium.sets_from(row, state, possible)


def _row_of_state(row: Floats, state: Ints) -> Floats:
    """Scramble an episode's row, [N, U], into one of its own for every state [N]."""
    bits = (row * 2.0**53).astype(np.uint64)
    return uniforms(bits + state[:, None].astype(np.uint64) * _PER_STATE)
