"""Action sets that persist over steps: outside the SAS-MDP model."""

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from sas_gym._types import Floats, Ints, Mask
from sas_gym.action_sets._base import ActionSets, check_table, checked_probabilities
from sas_gym.action_sets._independent import Independent, as_action_sets
from sas_gym.action_sets._sampler import hashed_uniforms

# Odd, so that it permutes the 64-bit words (from LXM, as `_sampler`'s constants).
_PER_STATE = np.uint64(0xD1342543DE82EF95)


class PerEpisode(ActionSets):
    """Sets drawn once per episode: a state met again in it offers the same set again.

    Outside the SAS-MDP model: within an episode the past says what a state will offer
    (with roads that stay closed this is the Canadian traveller problem). In numbered
    states the sets of two states are independent; elsewhere one set holds throughout.

    Args:
        action_sets: Distribution of the sets of one episode, or just a probability.
    """

    is_sas_mdp = False

    def __init__(self, action_sets: ActionSets | ArrayLike) -> None:
        self.action_sets = as_action_sets(action_sets)
        if not self.action_sets.is_sas_mdp:
            raise ValueError(
                "PerEpisode needs a distribution that depends on the current state "
                f"alone, got {type(self.action_sets).__name__}"
            )

    def num_uniforms(self, num_actions: int) -> int:
        """Return what the inner distribution needs."""
        return self.action_sets.num_uniforms(num_actions)

    def fit(self, num_actions: int, num_states: int | None) -> "PerEpisode":
        """Fit the inner distribution."""
        return PerEpisode(self.action_sets.fit(num_actions, num_states))

    def next_uniforms(
        self, uniforms: Float[Floats, "N U"], fresh: Float[Floats, "N U"]
    ) -> Float[Floats, "N U"]:
        """Keep the uniforms for as long as the episode lasts."""
        return uniforms

    def sets_from(
        self,
        uniforms: Float[Floats, "N U"],
        state: Int[Ints, " N"] | None,
        possible: Bool[Mask, "N A"] | None,
    ) -> Bool[Mask, "N A"]:
        """Return the set that each state has in this episode."""
        if state is not None:
            uniforms = _uniforms_of_state(uniforms, state)
        return self.action_sets.sets_from(uniforms, state, possible)


class Markov(ActionSets):
    """Every action is an on/off Markov chain of its own: failures that last.

    Outside the SAS-MDP model: what was available before says what will be. The chains
    start in equilibrium, so at any one step the sets are distributed as `Independent`
    with probability `turn_on / (turn_on + turn_off)`.

    Args:
        turn_on: Probability per step that an unavailable action becomes available, in
            (0, 1]; one number or one per action.
        turn_off: Probability per step that an available action becomes unavailable, in
            [0, 1); one number or one per action.
    """

    is_sas_mdp = False

    def __init__(self, turn_on: ArrayLike, turn_off: ArrayLike) -> None:
        self.turn_on = checked_probabilities("turn_on", turn_on)
        self.turn_off = checked_probabilities("turn_off", turn_off)
        if not self.turn_on.all():
            raise ValueError(
                "turn_on must be above 0, or an action could be unavailable for ever"
            )
        if (self.turn_off == 1).any():
            raise ValueError(
                "turn_off must be below 1, or all actions could be unavailable at once"
            )
        self._equilibrium = Independent(self.turn_on / (self.turn_on + self.turn_off))

    @property
    def availability(self) -> Floats:
        """Share of the time that each action is available: a scalar or (A,)."""
        return self._equilibrium.availability

    def num_uniforms(self, num_actions: int) -> int:
        """Return one uniform per action."""
        return num_actions

    def fit(self, num_actions: int, num_states: int | None) -> "Markov":
        """Spread the probabilities over the actions."""
        rates = []
        for name, table in (("turn_on", self.turn_on), ("turn_off", self.turn_off)):
            check_table(name, table, num_actions, None)
            rates.append(np.broadcast_to(table, num_actions))
        return Markov(*rates)

    def next_uniforms(
        self, uniforms: Float[Floats, "N U"], fresh: Float[Floats, "N U"]
    ) -> Float[Floats, "N U"]:
        """Move each chain one step, and keep its number uniform on [0, 1).

        An action is on while its number lies below `availability`. The fresh uniform
        decides on which side the next number lies, and what is left of it, stretched,
        is that number: so the sets can be made as those of `Independent` are.
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
        state: Int[Ints, " N"] | None,
        possible: Bool[Mask, "N A"] | None,
    ) -> Bool[Mask, "N A"]:
        """Offer the actions that are on."""
        return self._equilibrium.sets_from(uniforms, state, possible)


def _uniforms_of_state(
    uniforms: Float[Floats, "N U"], state: Int[Ints, " N"]
) -> Float[Floats, "N U"]:
    """Hash an episode's uniforms into those of each of its states."""
    bits = (uniforms * 2.0**53).astype(np.uint64)
    return hashed_uniforms(bits + state[:, None].astype(np.uint64) * _PER_STATE)
