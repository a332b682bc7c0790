"""A SAS-MDP given by its arrays."""

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np
from jaxtyping import Bool, Float
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from sas_gym._arguments import check_integer
from sas_gym._sparse import sparse
from sas_gym._types import Floats, Ints, Mask
from sas_gym.action_sets import ActionSets, Things
from sas_gym.action_sets._base import some
from sas_gym.action_sets._independent import as_action_sets
from sas_gym.tasks._task import Actions, Rewards, States, Task, Terminations

_ROUNDING = 1e-9
_HUGE = 1e150


class TabularSASMDP(Task):
    """A SAS-MDP whose states are numbers, given by its arrays: playable and solvable.

    `SASEnv` and `SASVectorEnv` play it, `sas_gym.planning` solves it. A terminal state
    ends the episode and is worth 0; its rows of the arrays are never used.

    Args:
        transition: Probability of each next state: dense (S, A, S), or a SciPy sparse
            matrix (S * A, S) with row s * A + a for action a in state s. It is kept
            sparse. A row of zeros says that the state has no such action.
        reward: Mean reward of each action (S, A).
        action_sets: Distribution of the action sets, or just a probability.
        initial_distribution: Probability of each state to be the first (S,); by default
            uniform over the states that are not terminal.
        terminal_states: Numbers of the states that end an episode.
        gamma: Discount, in [0, 1].
        horizon: Number of steps after which an episode is truncated, or `None`. It is
            for planning: in play the environment counts the steps.
        task: The task of which these are the arrays, if any: it names states and
            actions, lists the states, and has the things that fail.

    Example:
        >>> from sas_gym import SASEnv
        >>> go, stay = [[0, 1], [0, 1]], [[1, 0], [0, 1]]
        >>> transition, reward = np.stack([go, stay], axis=1), [[-1, -2], [0, 0]]
        >>> mdp = TabularSASMDP(transition, reward, 0.5, terminal_states=[1])
        >>> SASEnv(mdp).reset(seed=0)[0]["observation"]
        np.int64(0)
    """

    num_states: int

    def __init__(
        self,
        transition: ArrayLike | sparse.sparray | sparse.spmatrix,
        reward: ArrayLike,
        action_sets: ActionSets | ArrayLike,
        *,
        initial_distribution: ArrayLike | None = None,
        terminal_states: Sequence[int] | NDArray[Any] = (),
        gamma: float = 1.0,
        horizon: int | None = None,
        task: Task | None = None,
    ) -> None:
        self.task = task
        self.reward = _rewards(reward)
        self.num_states, self.num_actions = self.reward.shape
        self.transition_matrix = _transitions(transition, *self.reward.shape)
        self.is_terminal = _terminal(terminal_states, self.num_states)
        self.possible_actions = self._possible_table()
        self.action_sets = self._checked_action_sets(action_sets)
        self.initial_distribution = self._start_probs(initial_distribution)
        self.gamma = _checked_gamma(gamma)
        self.horizon = _checked_horizon(horizon)
        self.observation_space = gym.spaces.Discrete(self.num_states)

    @classmethod
    def from_moves(
        cls,
        task: Task,
        possible: Bool[Mask, "S A"],
        terminal_states: Sequence[int] | NDArray[Any],
        **options: Any,
    ) -> "TabularSASMDP":
        """Return the arrays of a task whose moves draw nothing, as in a board game.

        Args:
            task: A task whose states are their numbers.
            possible: Actions that each state has.
            terminal_states: States in which an episode is over. A move that ends an
                episode elsewhere leads to the first one.
            **options: The rest goes to the constructor; by default an episode starts
                where `task.reset` starts it.
        """
        state, action = np.nonzero(possible)
        rng = np.random.default_rng(0)  # the moves draw nothing
        next_state, moved, ended = task.transition(state, action, rng)
        next_state = np.where(ended, terminal_states[0], next_state)
        num_states, num_actions = possible.shape
        row = state * num_actions + action
        reward = np.zeros(possible.shape)
        reward[state, action] = moved
        start = np.zeros(num_states)
        start[task.reset(1, rng)] = 1.0
        return cls(
            sparse.csr_array(
                (np.ones(len(row)), (row, next_state)),
                shape=(possible.size, num_states),
            ),
            reward,
            task.action_sets,
            terminal_states=terminal_states,
            task=task,
            **{"initial_distribution": start, **options},
        )

    def replace(self, **changes: Any) -> "TabularSASMDP":
        """Return a copy with some of the constructor's arguments changed."""
        checks: dict[str, Callable[[Any], Any]] = {
            "action_sets": self._checked_action_sets,
            "gamma": _checked_gamma,
            "horizon": _checked_horizon,
        }
        if set(changes) <= set(checks):
            # The arrays are shared: they have been checked already.
            changed = copy(self)
            for name, value in changes.items():
                setattr(changed, name, checks[name](value))
            return changed
        arguments = {
            "transition": self.transition_matrix,
            "reward": self.reward,
            "action_sets": self.action_sets,
            "initial_distribution": self.initial_distribution,
            "terminal_states": np.flatnonzero(self.is_terminal),
            "gamma": self.gamma,
            "horizon": self.horizon,
            "task": self.task,
        }
        unknown = sorted(set(changes) - set(arguments))
        if unknown:
            raise TypeError(
                f"unexpected arguments {unknown}: `replace` takes {sorted(arguments)}"
            )
        return TabularSASMDP(**{**arguments, **changes})

    def tabular(self) -> "TabularSASMDP":
        """Return the task itself."""
        return self

    @property
    def things(self) -> Things | None:  # type: ignore[override]  # a class attribute
        """The things that fail of the task of which these are the arrays."""
        return None if self.task is None else self.task.things

    @property
    def listed_states(self) -> States | None:  # type: ignore[override]
        """The states of that task, where they are not the numbers themselves."""
        if self.task is None or type(self.task).number is Task.number:
            return None
        return self.task.states()

    @property
    def action_names(self) -> Sequence[str]:
        """The names of that task's actions, or else their numbers."""
        return super().action_names if self.task is None else self.task.action_names

    def names_at(self, state: Any) -> Sequence[str]:
        """Return the names of the actions in a state."""
        if self.task is None:
            return super().names_at(state)
        return self.task.names_at(self._state_of_task(state))

    def describe(self, state: Any) -> str:
        """Return a state in words."""
        if self.task is None:
            return super().describe(state)
        return self.task.describe(self._state_of_task(state))

    def _state_of_task(self, state: Any) -> Any:
        listed = self.listed_states
        return state if listed is None else listed[state]

    def reset(self, num_envs: int, rng: Generator) -> States:
        """Draw from the start distribution."""
        return self._start_states[
            np.searchsorted(self._start_shares, rng.random(num_envs), side="right")
        ]

    def transition(
        self, state: States, action: Actions, rng: Generator
    ) -> tuple[States, Rewards, Terminations]:
        """Draw the next states, with one random number per environment."""
        matrix = self.transition_matrix
        row = state * self.num_actions + action
        place = np.searchsorted(self._places, row + rng.random(len(row)), side="right")
        # Rounding must not lead out of the row. (An unavailable action may have no row:
        # what it would have done is not used.)
        place = np.clip(place, matrix.indptr[row], matrix.indptr[row + 1] - 1)
        next_state: Ints = matrix.indices[place].astype(np.int64)
        return next_state, self.reward[state, action], self.is_terminal[next_state]

    def possible(self, state: States) -> Bool[Mask, "N A"] | None:
        """Return the actions whose transitions are given."""
        if self._all_possible:
            return None
        possible: Mask = self.possible_actions.take(state, axis=0)
        return possible

    @cached_property
    def _all_possible(self) -> bool:
        return bool(self.possible_actions.all())

    @cached_property
    def _places(self) -> Floats:
        """Where each entry's share ends, on a line with one unit per row."""
        matrix = self.transition_matrix
        row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        ends = np.cumsum(matrix.data)
        before = np.concatenate([[0.0], ends])[matrix.indptr[row]]
        places: Floats = row + (ends - before)
        return places

    @cached_property
    def _start_states(self) -> Ints:
        return np.flatnonzero(self.initial_distribution)

    @cached_property
    def _start_shares(self) -> Floats:
        """Upper ends of the start states' shares of the unit interval, but the last."""
        shares: Floats = self.initial_distribution[self._start_states].cumsum()[:-1]
        return shares

    def _possible_table(self) -> Bool[Mask, "S A"]:
        possible = (np.diff(self.transition_matrix.indptr) > 0).reshape(
            self.num_states, self.num_actions
        )
        without_action = ~possible.any(axis=1)
        stuck = np.flatnonzero(without_action & ~self.is_terminal)
        if stuck.size:
            raise ValueError(
                f"transition is zero for every action in states {some(stuck)}: give "
                "them an action, or list them in terminal_states"
            )
        # A terminal state may leave out its transitions, but it too shows a set.
        table: Mask = possible | without_action[:, None]
        return table

    def _checked_action_sets(self, action_sets: ActionSets | ArrayLike) -> ActionSets:
        fitted = as_action_sets(action_sets).fit(self)
        state = np.arange(self.num_states)
        fitted.check_states(state, self.possible(state), self.num_actions)
        return fitted

    def _start_probs(
        self, initial_distribution: ArrayLike | None
    ) -> Float[Floats, " S"]:
        if initial_distribution is None:
            if self.is_terminal.all():
                raise ValueError("terminal_states must leave a state to start from")
            return ~self.is_terminal / np.count_nonzero(~self.is_terminal)
        mu = np.asarray(initial_distribution, dtype=np.float64)
        if mu.shape != (self.num_states,):
            raise ValueError(
                "initial_distribution must have one entry per state, shape "
                f"({self.num_states},); got shape {mu.shape}"
            )
        if not ((mu >= 0).all() and abs(mu.sum() - 1) < _ROUNDING):
            raise ValueError(
                "initial_distribution must be probabilities that sum to 1; got sum "
                f"{mu.sum()}, smallest {mu.min()}"
            )
        ended = np.flatnonzero((mu > 0) & self.is_terminal)
        if ended.size:
            raise ValueError(
                f"initial_distribution must be 0 in terminal states; it is not in "
                f"states {some(ended)}"
            )
        return mu


def _rewards(reward: ArrayLike) -> Float[Floats, "S A"]:
    array = np.asarray(reward, dtype=np.float64)
    if array.ndim != 2 or array.size == 0:
        raise ValueError(
            "reward must have one row per state and one column per action; got shape "
            f"{array.shape}"
        )
    if not np.isfinite(array).all():
        states = np.flatnonzero(~np.isfinite(array).all(axis=1))
        raise ValueError(f"reward must be finite; it is not in states {some(states)}")
    huge = np.flatnonzero((np.abs(array) > _HUGE).any(axis=1))
    if huge.size:
        raise ValueError(
            f"rewards larger than {_HUGE} overflow when they are added up: rescale "
            f"those of states {some(huge)}"
        )
    return array


def _transitions(
    transition: Any, num_states: int, num_actions: int
) -> sparse.csr_array:
    """Return the transitions as one sparse row per state and action, (S * A, S)."""
    flat = (num_states * num_actions, num_states)
    if not sparse.issparse(transition):
        transition = np.asarray(transition, dtype=np.float64)
        if transition.shape == (num_states, num_actions, num_states):
            transition = transition.reshape(flat)
    if transition.shape != flat:
        raise ValueError(
            "transition must have the shape "
            f"{(num_states, num_actions, num_states)}, by the shape of reward, or "
            f"sparse {flat}; got {transition.shape}"
        )
    matrix = sparse.csr_array(transition, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    total = matrix.sum(axis=1)
    wrong = (total != 0) & ~(np.abs(total - 1) < _ROUNDING)
    wrong[matrix.nonzero()[0][~(matrix.data > 0)]] = True
    if wrong.any():
        state, action = divmod(int(np.flatnonzero(wrong)[0]), num_actions)
        raise ValueError(
            f"transition of action {action} in state {state} must be probabilities "
            "that sum to 1, or all zero if the state has no such action; got the sum "
            f"{total[state * num_actions + action]}"
        )
    return matrix


def _terminal(
    states: Sequence[int] | NDArray[Any], num_states: int
) -> Bool[Mask, " S"]:
    numbers = np.asarray(states)
    if numbers.size and numbers.dtype.kind not in "iu":
        raise ValueError(f"terminal_states must be numbers of states; got {states!r}")
    numbers = numbers.astype(np.int64)
    outside = numbers[(numbers < 0) | (numbers >= num_states)]
    if outside.size:
        raise ValueError(
            f"terminal_states {some(outside)} do not exist: the states are 0 to "
            f"{num_states - 1}"
        )
    is_terminal = np.zeros(num_states, dtype=bool)
    is_terminal[numbers] = True
    return is_terminal


def _checked_gamma(gamma: float) -> float:
    if not 0 <= gamma <= 1:
        raise ValueError(f"gamma must be in [0, 1], got {gamma}")
    return gamma


def _checked_horizon(horizon: int | None) -> int | None:
    if horizon is not None:
        check_integer("horizon", horizon, least=1)
    return horizon
