"""Planning where outcomes last: over pairs of a state and an outcome."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from sas_gym._types import Floats, Ints, Mask
from sas_gym.action_sets._base import OutcomeList
from sas_gym.masks import MASK_KEY
from sas_gym.planning._policies import Memory, steps_so_far
from sas_gym.tasks._tabular import TabularSASMDP

MAX_ENTRIES = 50_000_000
"""Largest number of entries (state, outcome, action) that are planned with."""

_TOLERANCE = 1e-11
_MAX_SWEEPS = 1_000_000

Choice = Callable[[Float[Floats, "S K A"]], Float[Floats, "S K A"]]
"""From the values of actions to the probability of each."""


class LastingMDP:
    """A SAS-MDP whose outcomes last, as an MDP over pairs of a state and an outcome.

    Letters: S states, K outcomes, A actions.

    Args:
        mdp: A SAS-MDP whose action sets list their outcomes.

    Raises:
        ValueError: If the outcomes cannot be listed, or are too many.
    """

    def __init__(self, mdp: TabularSASMDP) -> None:
        listed = mdp.action_sets.listed()
        if listed is None:
            raise ValueError(
                f"the outcomes of {type(mdp.action_sets).__name__} cannot be listed, "
                "as each state has its own: play episodes instead (episode_returns)"
            )
        self.mdp = mdp
        self.outcomes: OutcomeList = listed
        self.num_outcomes = len(listed.probabilities)
        num_entries = mdp.num_states * self.num_outcomes * mdp.num_actions
        if num_entries > MAX_ENTRIES:
            raise ValueError(
                f"{mdp.num_states} states, {self.num_outcomes} outcomes and "
                f"{mdp.num_actions} actions are {num_entries} entries to plan with, "
                f"and at most {MAX_ENTRIES} are taken: play episodes instead "
                "(episode_returns)"
            )
        state = np.repeat(np.arange(mdp.num_states), self.num_outcomes)
        self.masks: Bool[Mask, "S K A"] = mdp.action_sets.sets_of(
            np.tile(np.arange(self.num_outcomes), mdp.num_states),
            state,
            mdp.possible(state),
        ).reshape(mdp.num_states, self.num_outcomes, mdp.num_actions)

    @property
    def mask_shows_the_outcome(self) -> bool:
        """Whether different outcomes have different masks in every running state."""
        packed = np.packbits(self.masks[~self.mdp.is_terminal], axis=2)
        return all(len(np.unique(sets, axis=0)) == len(sets) for sets in packed)

    def action_values(self, values: Float[Floats, "S K"]) -> Float[Floats, "S K A"]:
        """Return r + gamma times the mean value of the next state and outcome."""
        mdp = self.mdp
        after = mdp.transition_matrix @ self.outcomes.mean_next(values)
        after = after.reshape(mdp.num_states, mdp.num_actions, self.num_outcomes)
        q: Floats = mdp.reward[:, None] + mdp.gamma * after.transpose(0, 2, 1)
        return q

    def values(self, choose: Choice) -> Float[Floats, "S K"]:
        """Return the values of a way to choose, up to the horizon if there is one.

        Args:
            choose: From the values of actions to the probability of each.
        """
        mdp = self.mdp
        if mdp.gamma == 1 and mdp.horizon is None:
            self._check_ends(choose)
        values = np.zeros((mdp.num_states, self.num_outcomes))
        for _ in range(_MAX_SWEEPS if mdp.horizon is None else mdp.horizon):
            before, values = values, self._backup(values, choose)
            scale = _TOLERANCE * (1 + np.abs(values).max())
            if mdp.horizon is None and np.abs(values - before).max() <= scale:
                return values
        if mdp.horizon is None:
            raise RuntimeError(
                f"the values have not converged in {_MAX_SWEEPS} sweeps: set a "
                "discount or a time limit"
            )
        return values

    def mean_return(self, values: Float[Floats, "S K"]) -> float:
        """Return the mean value of the start."""
        start = self.mdp.initial_distribution
        return float(start @ values @ self.outcomes.probabilities)

    def best(self, q: Float[Floats, "S K A"]) -> Float[Floats, "S K A"]:
        """Choose the best available action; of equal ones the lower number."""
        greedy = np.where(self.masks, q, -np.inf).argmax(axis=2)
        chosen: Floats = np.eye(q.shape[2])[greedy]
        return chosen

    def _backup(
        self, values: Float[Floats, "S K"], choose: Choice
    ) -> Float[Floats, "S K"]:
        q = self.action_values(values)
        mean = (choose(q) * q).sum(axis=2)
        return np.where(self.mdp.is_terminal[:, None], 0.0, mean)

    def _check_ends(self, choose: Choice) -> None:
        """Raise `ValueError` if from some state and outcome no end can be reached."""
        shape = (self.mdp.num_states, self.num_outcomes)
        ends = np.repeat(self.mdp.is_terminal[:, None], shape[1], axis=1)
        taken = self.masks
        if choose != self.best:
            taken = choose(np.zeros(self.masks.shape)) > 0
        for _ in range(ends.size):
            follows = self.outcomes.mean_next(ends.astype(np.float64)) > 0
            after = self.mdp.transition_matrix @ follows.astype(np.float64) > 0
            after = after.reshape(shape[0], -1, shape[1]).transpose(0, 2, 1)
            more = ends | (taken & after).any(axis=2)
            if np.array_equal(more, ends):
                break
            ends = more
        endless = np.flatnonzero(~ends.all(axis=1))
        if endless.size:
            raise ValueError(
                "without a discount every episode must end, but with some outcome no "
                f"terminal state can be reached from states {endless[:5].tolist()}: "
                "set gamma < 1 or a time limit"
            )


@dataclass(frozen=True)
class LastingSolution:
    """The optimum where outcomes last and the mask shows the outcome."""

    values: Float[Floats, "S K"]
    """Value of each state and outcome at the start."""
    mean_return: float
    """Mean value of the start."""
    policy: "OutcomePolicy"
    """The policy that takes the best available action."""


def solve_lasting(mdp: TabularSASMDP) -> LastingSolution:
    """Plan over states and outcomes, where the mask shows the outcome.

    Args:
        mdp: A SAS-MDP whose action sets last and list their outcomes.

    Raises:
        ValueError: If the outcomes cannot be listed, or if a mask hides its outcome.
    """
    lasting = LastingMDP(mdp)
    if not lasting.mask_shows_the_outcome:
        raise ValueError(
            "in some state different outcomes show the same mask, so an agent cannot "
            "know the outcome, and planning over states and outcomes gives no optimum: "
            "planning.informed_return is the value for an agent that sees the outcome, "
            "an upper bound"
        )
    steps: list[Ints] = []

    def choose(q: Float[Floats, "S K A"]) -> Float[Floats, "S K A"]:
        chosen = lasting.best(q)
        if mdp.horizon is None:
            steps.clear()
        steps.append(chosen.argmax(axis=2))
        return chosen

    values = lasting.values(lasting.best if mdp.horizon is None else choose)
    if mdp.horizon is None:
        choose(lasting.action_values(values))
    policy = OutcomePolicy(np.stack(steps[::-1]), lasting.masks)
    return LastingSolution(values, lasting.mean_return(values), policy)


class OutcomePolicy:
    """Takes the best action of each state and outcome; the mask shows the outcome.

    Args:
        best: The action of each step, state and outcome; of one step, for all steps.
        masks: The mask that each outcome shows in each state.
    """

    def __init__(self, best: Int[Ints, "T S K"], masks: Bool[Mask, "S K A"]) -> None:
        self.best = best
        self._packed = np.packbits(masks, axis=2)

    def predict(
        self,
        observation: Mapping[str, Any],
        state: Memory | None = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = True,
    ) -> tuple[NDArray[Any], Memory | None]:
        """Choose actions, as `predict` of Stable-Baselines3 does.

        Args:
            observation: `observation`, the number of the state, and `action_mask`; of
                one environment, or batched.
            state: The second value that the last call returned, or `None` at first.
            episode_start: Which environments start an episode.
            deterministic: Ignored: the policy is deterministic.

        Returns:
            The actions, and the steps so far, to be passed on as `state`.
        """
        number = np.asarray(observation["observation"])
        mask = np.atleast_2d(observation[MASK_KEY])
        step = steps_so_far(len(mask), state, episode_start)
        actions = self._choose(np.atleast_1d(number), mask, step)
        memory = None if len(self.best) == 1 else (step + 1,)
        return (actions[0] if number.ndim == 0 else actions), memory

    def __call__(self, observation: Any, action_mask: NDArray[Any]) -> NDArray[Any]:
        """Choose actions as `sas_gym.episode_returns` calls a policy."""
        if len(self.best) > 1:
            raise ValueError(
                "the policy has its own actions for each step: use `predict`, which "
                "counts the steps"
            )
        if isinstance(observation, Mapping):
            observation = observation["observation"]
        step = np.zeros(len(action_mask), np.int64)
        return self._choose(np.asarray(observation), action_mask, step)

    def _choose(
        self, number: NDArray[Any], mask: NDArray[Any], step: Int[Ints, " N"]
    ) -> Int[Ints, " N"]:
        shown = np.packbits(mask.astype(bool), axis=1)[:, None]
        matches = (self._packed[number] == shown).all(axis=2)
        if not matches.any(axis=1).all():
            row = int((~matches.any(axis=1)).argmax())
            raise ValueError(
                f"no outcome shows the mask {np.flatnonzero(mask[row]).tolist()} in "
                f"state {int(number[row])}"
            )
        step = np.minimum(step, len(self.best) - 1)
        chosen: Ints = self.best[step, number, matches.argmax(axis=1)]
        return chosen
