"""Policies that planners return, usable as agents."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike, NDArray

from sas_gym._types import Floats, Ints, Mask
from sas_gym.action_sets._action_probs import best_action_probs, rank
from sas_gym.action_sets._base import some
from sas_gym.masks import MASK_KEY
from sas_gym.tasks._tabular import TabularSASMDP
from sas_gym.tasks._task import Task

NO_ACTION = -1
"""Fills the end of a ranking where a state has fewer actions."""

MAX_LINES = 30
"""Number of states whose rankings are printed."""

Memory = tuple[NDArray[Any], ...]


@runtime_checkable
class TabularPolicy(Protocol):
    """A policy that gives its action probabilities, for `policy_evaluation`."""

    def action_probs(self, mdp: TabularSASMDP) -> Float[Floats, "*T S A"]:
        """Probability of each action in every state, over the sets."""


class DecisionListPolicy:
    """Takes the first available action of a ranking that each state, or step, has.

    An optimal policy of a SAS-MDP can be given in this form (Boutilier et al., 2018).
    It acts like an agent of Stable-Baselines3: `predict` takes single and batched
    observations. With one ranking per step it counts the steps in the `state` that
    `predict` returns and takes, as recurrent agents do.

    Args:
        rankings: Actions of each state from the best to the worst (S, A), or of each
            step and state (T, S, A). `NO_ACTION` (-1) at the end fills a ranking.
        task: The task, whose names of states and actions `print` shows.

    Example:
        >>> policy = DecisionListPolicy([[1, 0, 2], [0, 2, -1]])
        >>> policy.ranking(state=1)
        [0, 2]
        >>> obs = {"observation": np.array([0, 1]), "action_mask": np.ones((2, 3))}
        >>> policy.predict(obs)[0]
        array([1, 0])
    """

    def __init__(self, rankings: ArrayLike, task: Task | None = None) -> None:
        self.rankings = _checked_rankings(rankings)
        self.task = task
        num_actions = self.rankings.shape[-1]
        # Place of each action in its ranking; one that is in none comes after all
        # others. As an index NO_ACTION is one more column, which is then dropped.
        shape = (*self.rankings.shape[:-1], num_actions + 1)
        table = np.full(shape, num_actions)
        places = np.broadcast_to(np.arange(num_actions), self.rankings.shape)
        np.put_along_axis(table, self.rankings, places, axis=-1)
        self._places: Ints = table[..., :num_actions]

    @classmethod
    def from_preferences(
        cls,
        preferences: Float[Floats, "*T S A"],
        possible: Bool[Mask, "S A"],
        task: Task | None = None,
    ) -> "DecisionListPolicy":
        """Rank the actions that each state has by preferences, the largest first.

        Args:
            preferences: Ranks of the actions of each state, or of each step and state.
            possible: Actions that each state has.
            task: The task, whose names of states and actions `print` shows.
        """
        order = rank(np.where(possible, preferences, -np.inf))
        place = np.arange(possible.shape[-1])
        is_ranked = place < possible.sum(-1, keepdims=True)
        return cls(np.where(is_ranked, order, NO_ACTION), task)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "DecisionListPolicy":
        """Read a policy from the file that `save` wrote."""
        with np.load(path) as file:
            return cls(file["rankings"])

    def save(self, path: str | PathLike[str]) -> None:
        """Write the rankings to a NumPy archive, `.npz`."""
        np.savez_compressed(path, rankings=self.rankings)

    @property
    def horizon(self) -> int | None:
        """Number of steps that have rankings of their own, or `None`."""
        return len(self.rankings) if self.rankings.ndim == 3 else None

    def ranking(self, state: int, step: int = 0) -> list[int]:
        """Return a state's actions from the best to the worst."""
        rankings = self.rankings if self.horizon is None else self.rankings[step]
        return [int(action) for action in rankings[state] if action != NO_ACTION]

    def __str__(self) -> str:
        num_states = self.rankings.shape[-2]
        lines = [self.line(state) for state in range(min(num_states, MAX_LINES))]
        if num_states > MAX_LINES:
            lines.append(f"... and {num_states - MAX_LINES} more states")
        if self.horizon is not None:
            lines.append(f"(at the first of {self.horizon} steps)")
        return "\n".join(lines)

    def line(self, state: int, step: int = 0) -> str:
        """Return a state's ranking in words, such as "at 12: to 13, else 7, else wait".

        Args:
            state: Number of the state.
            step: Number of the step, where each step has rankings of its own.
        """
        ranking = self.ranking(state, step)
        if self.task is None:
            return f"state {state}: {', else '.join(map(str, ranking))}"
        states = self.task.states()
        here = state if states is None else states[state]
        names = self.task.names_at(here)
        words = _without_repetition([names[action] for action in ranking])
        return f"{self.task.describe(here)}: {', else '.join(words)}"

    def action_probs(self, mdp: TabularSASMDP) -> Float[Floats, "*T S A"]:
        """Probability of each action in every state, over the sets."""
        preferences = -self._places.astype(np.float64)
        if self.horizon is None:
            return best_action_probs(mdp.action_sets, preferences, mdp.possible_actions)
        return np.stack(
            [
                best_action_probs(mdp.action_sets, step, mdp.possible_actions)
                for step in preferences
            ]
        )

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
            The actions, and the value to pass on as `state`.
        """
        numbers = np.asarray(observation["observation"])
        mask = np.atleast_2d(observation[MASK_KEY])
        step = steps_so_far(len(mask), state, episode_start)
        actions = self._choose(np.atleast_1d(numbers), mask, step)
        memory = None if self.horizon is None else (step + 1,)
        return (actions[0] if numbers.ndim == 0 else actions), memory

    def __call__(self, observation: Any, action_mask: NDArray[Any]) -> NDArray[Any]:
        """Choose actions as `sas_gym.episode_returns` calls a policy."""
        if self.horizon is not None:
            raise ValueError(
                "the policy has its own rankings for each step: use `predict`, which "
                "counts the steps"
            )
        if isinstance(observation, Mapping):
            observation = observation["observation"]
        return self._choose(np.asarray(observation), action_mask, np.zeros(1, np.int64))

    def _choose(
        self, number: NDArray[Any], mask: NDArray[Any], step: Int[Ints, " #N"]
    ) -> Int[Ints, " N"]:
        num_states, num_actions = self._places.shape[-2:]
        is_number = number.dtype.kind in "iu"
        if not is_number or number.min() < 0 or number.max() >= num_states:
            raise ValueError(
                f"an observation must be the number of a state, 0 to {num_states - 1}; "
                f"got {number[:5]}"
            )
        place = self._places[number]
        if self.horizon is not None:
            place = self._places[np.minimum(step, self.horizon - 1), number]
        place = np.where(mask, place, num_actions + 1)
        empty = np.flatnonzero(place.min(axis=1) > num_actions)
        if empty.size:
            raise ValueError(f"no action is available in environments {some(empty)}")
        chosen: Ints = place.argmin(axis=1)
        return chosen


def _without_repetition(names: Sequence[str]) -> list[str]:
    """Leave out the first word of a name where the name before has it too."""
    shortened, before = [], ""
    for name in names:
        word, _, rest = name.partition(" ")
        shortened.append(rest if rest and word == before else name)
        before = word if rest else ""
    return shortened


def steps_so_far(
    num_envs: int, state: Memory | None, episode_start: NDArray[np.bool_] | None
) -> Int[Ints, " N"]:
    """Return how many steps of its episode each environment has behind it."""
    step = np.zeros(num_envs, np.int64) if state is None else state[0]
    if episode_start is None:
        return step
    return np.where(episode_start, 0, step)


def _checked_rankings(rankings: ArrayLike) -> Ints:
    array = np.asarray(rankings)
    if array.ndim not in (2, 3) or array.size == 0 or array.dtype.kind not in "iu":
        raise ValueError(
            "rankings must be numbers of actions, of shape (S, A) or (T, S, A); got "
            f"shape {array.shape} of {array.dtype}"
        )
    num_actions = array.shape[-1]
    rows = np.sort(array.reshape(-1, num_actions), axis=1)
    wrong = (rows < NO_ACTION) | (rows >= num_actions)
    wrong[:, 1:] |= (rows[:, 1:] == rows[:, :-1]) & (rows[:, 1:] != NO_ACTION)
    wrong = wrong.any(axis=1) | (rows[:, -1] == NO_ACTION)
    if wrong.any():
        culprit = array.reshape(-1, num_actions)[wrong][0].tolist()
        raise ValueError(
            f"a ranking must name different actions of 0 to {num_actions - 1}, best "
            f"first, and then {NO_ACTION}; got {culprit}"
        )
    return array.astype(np.int64)
