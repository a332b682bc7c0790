"""Policies that planning gives, usable as agents."""

from collections.abc import Mapping
from os import PathLike
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sas_gym.action_sets import Floats, Ints
from sas_gym.action_sets._base import some
from sas_gym.masks import MASK_KEY
from sas_gym.planning._action_probs import best_action_probs, rank
from sas_gym.planning._tabular import TabularSASMDP

NO_ACTION = -1
"""Fills the end of a ranking where a state lacks actions."""

Memory = tuple[NDArray[Any], ...]


class TabularPolicy(Protocol):
    """What `policy_evaluation` needs of a policy."""

    def action_probs(self, mdp: TabularSASMDP) -> Floats:
        """Chance of each action in every state, over the sets: [S, A] or [T, S, A]."""


class DecisionListPolicy:
    """Takes the first available action of a list that each state, or step, has.

    An optimal policy of a SAS-MDP can be given in this form (Boutilier et al., 2018).
    It acts like an agent of Stable-Baselines3: `predict` takes single and batched
    observations. With a list a step it counts the steps in the `state` that `predict`
    gives and takes, as recurrent agents do.

    Args:
        rankings: Actions of each state from the best to the worst, [S, A], or of each
            step and state, [T, S, A]. `NO_ACTION` (-1) at the end of a list fills it.

    Example:
        >>> policy = DecisionListPolicy([[1, 0, 2], [0, 2, -1]])
        >>> policy.ranking(state=1)
        [0, 2]
        >>> obs = {"observation": np.array([0, 1]), "action_mask": np.ones((2, 3))}
        >>> policy.predict(obs)[0]
        array([1, 0])
    """

    def __init__(self, rankings: ArrayLike) -> None:
        self.rankings = _checked_rankings(rankings)
        num_actions = self.rankings.shape[-1]
        # Place of each action in its list; one that is in none comes after all others.
        # As an index NO_ACTION is a column more, at the end, which is then dropped.
        shape = (*self.rankings.shape[:-1], num_actions + 1)
        table = np.full(shape, num_actions)
        places = np.broadcast_to(np.arange(num_actions), self.rankings.shape)
        np.put_along_axis(table, self.rankings, places, axis=-1)
        self._places: Ints = table[..., :num_actions]

    @classmethod
    def from_preferences(cls, scores: Floats) -> "DecisionListPolicy":
        """Rank the actions by scores, [S, A] or [T, S, A]; -inf for a lacking one."""
        order = rank(scores)
        sorted_scores = np.take_along_axis(scores, order, axis=-1)
        return cls(np.where(sorted_scores > -np.inf, order, NO_ACTION))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "DecisionListPolicy":
        """Read what `save` wrote."""
        with np.load(path) as file:
            return cls(file["rankings"])

    def save(self, path: str | PathLike[str]) -> None:
        """Write the lists to a NumPy archive, `.npz`."""
        np.savez_compressed(path, rankings=self.rankings)

    @property
    def horizon(self) -> int | None:
        """Number of steps that have lists of their own, or `None`."""
        return len(self.rankings) if self.rankings.ndim == 3 else None

    def ranking(self, state: int, step: int = 0) -> list[int]:
        """Return a state's actions from the best to the worst."""
        lists = self.rankings if self.horizon is None else self.rankings[step]
        return [int(action) for action in lists[state] if action != NO_ACTION]

    def action_probs(self, mdp: TabularSASMDP) -> Floats:
        """Chance of each action in every state, over the sets: [S, A] or [T, S, A]."""
        scores = np.where(mdp.possible_actions, -1.0 * self._places, -np.inf)
        if self.horizon is None:
            return best_action_probs(mdp.action_sets, scores)
        return np.stack([best_action_probs(mdp.action_sets, step) for step in scores])

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
            state: What the last call returned, or `None` at first.
            episode_start: Where an episode begins, [N].
            deterministic: Without meaning: the policy is.

        Returns:
            The actions, and what to pass on as `state`.
        """
        numbers = np.asarray(observation["observation"])
        mask = np.atleast_2d(observation[MASK_KEY])
        step = _steps(len(mask), state, episode_start)
        actions = self._choose(np.atleast_1d(numbers), mask, step)
        memory = None if self.horizon is None else (step + 1,)
        return (actions[0] if numbers.ndim == 0 else actions), memory

    def __call__(self, observation: Any, action_mask: NDArray[Any]) -> NDArray[Any]:
        """Choose actions as `sas_gym.episode_returns` wants it, if steps are alike."""
        if self.horizon is not None:
            raise ValueError(
                "the lists differ by the step: use `predict`, which counts"
            )
        if isinstance(observation, Mapping):
            observation = observation["observation"]
        return self._choose(np.asarray(observation), action_mask, np.zeros(1, np.int64))

    def _choose(self, number: NDArray[Any], mask: NDArray[Any], step: Ints) -> Ints:
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
            raise ValueError(f"no action is available in lanes {some(empty)}")
        chosen: Ints = place.argmin(axis=1)
        return chosen


def _steps(
    num_envs: int, state: Memory | None, episode_start: NDArray[np.bool_] | None
) -> Ints:
    """Return how many steps of its episode each lane has behind it, [N]."""
    step = np.zeros(num_envs, np.int64) if state is None else state[0]
    if episode_start is None:
        return step
    return np.where(episode_start, 0, step)


def _checked_rankings(rankings: ArrayLike) -> Ints:
    array = np.asarray(rankings)
    if array.ndim not in (2, 3) or array.size == 0 or array.dtype.kind not in "iu":
        raise ValueError(
            "rankings must be lists of actions, [S, A] or [T, S, A]; got shape "
            f"{array.shape} of {array.dtype}"
        )
    num_actions = array.shape[-1]
    # A list and the actions that it lacks, one NO_ACTION each, are all the actions.
    lists = np.sort(array.reshape(-1, num_actions), axis=1)
    wrong = (lists < NO_ACTION) | (lists >= num_actions)
    wrong[:, 1:] |= (lists[:, 1:] == lists[:, :-1]) & (lists[:, 1:] != NO_ACTION)
    wrong = wrong.any(axis=1) | (lists[:, -1] == NO_ACTION)
    if wrong.any():
        culprit = array.reshape(-1, num_actions)[wrong][0].tolist()
        raise ValueError(
            f"a ranking must name different actions of 0 to {num_actions - 1}, best "
            f"first, and then {NO_ACTION}; got {culprit}"
        )
    return array.astype(np.int64)
