"""A SAS-MDP given by its arrays."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from sas_gym.action_sets import ActionSets, Floats, Ints, Mask, as_action_sets
from sas_gym.action_sets._base import some
from sas_gym.action_sets._confined import confine
from sas_gym.tasks._task import States, Task

_ROUNDING = 1e-9


class TabularSASMDP(Task):
    """A SAS-MDP whose states are numbers, told by its arrays: playable and solvable.

    `SASEnv` and `SASVectorEnv` play it, `sas_gym.planning` solves it. A terminal state
    ends the episode and is worth 0; what its arrays say is never used.

    Args:
        transition: Probability of each next state: dense [S, A, S], or a SciPy sparse
            matrix [S * A, S] whose row s * A + a is that of action a in state s. It is
            kept sparse. A row of zeros says that the state lacks the action.
        reward: Mean reward of each action, [S, A].
        action_sets: Law of the action sets, or just a probability.
        initial_distribution: Chance of each state to be the first, [S]; by default
            uniform over those that are not terminal.
        terminal_states: Numbers of the states that end an episode.
        gamma: Discount, in [0, 1].
        horizon: Number of steps after which an episode is cut, or `None`. It is for
            planning: in play the environment counts the steps.

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
    ) -> None:
        self.reward = _rewards(reward)
        self.num_states, self.num_actions = self.reward.shape
        self.transition_matrix = _transitions(transition, *self.reward.shape)
        self.is_terminal = _terminal(terminal_states, self.num_states)
        self.possible_actions = self._possible()
        self.action_sets = self._law(action_sets)
        self.initial_distribution = self._start(initial_distribution)
        if not 0 <= gamma <= 1:
            raise ValueError(f"gamma must be in [0, 1], got {gamma}")
        if horizon is not None and horizon < 1:
            raise ValueError(f"horizon must be at least 1, or None; got {horizon}")
        self.gamma = gamma
        self.horizon = horizon
        self.observation_space = gym.spaces.Discrete(self.num_states)

    def replace(self, **changes: Any) -> "TabularSASMDP":
        """Return a copy with some of the constructor's arguments changed."""
        arguments = {
            "transition": self.transition_matrix,
            "reward": self.reward,
            "action_sets": self.action_sets,
            "initial_distribution": self.initial_distribution,
            "terminal_states": np.flatnonzero(self.is_terminal),
            "gamma": self.gamma,
            "horizon": self.horizon,
        }
        unknown = sorted(set(changes) - set(arguments))
        if unknown:
            raise TypeError(f"a TabularSASMDP has no {unknown} to replace")
        return TabularSASMDP(**{**arguments, **changes})

    def tabular(self) -> "TabularSASMDP":
        """Return the task itself."""
        return self

    def reset(self, num_envs: int, rng: Generator) -> States:
        """Draw from the start distribution."""
        return self._start_states[
            np.searchsorted(self._start_shares, rng.random(num_envs), side="right")
        ]

    def transition(
        self, state: States, action: Ints, rng: Generator
    ) -> tuple[States, Floats, Mask]:
        """Draw the next states, with one random number a lane."""
        matrix = self.transition_matrix
        row = state * self.num_actions + action
        place = np.searchsorted(self._places, row + rng.random(len(row)), side="right")
        # Rounding must not lead out of the row. (A refused action may have no row: what
        # it would have done is not used.)
        place = np.clip(place, matrix.indptr[row], matrix.indptr[row + 1] - 1)
        next_state: Ints = matrix.indices[place].astype(np.int64)
        return next_state, self.reward[state, action], self.is_terminal[next_state]

    def possible(self, state: States) -> Mask:
        """Return the actions whose transitions are given."""
        possible: Mask = self.possible_actions[state]
        return possible

    @cached_property
    def _places(self) -> Floats:
        """Where each entry's share of its row ends, on a line with a unit a row."""
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

    def _possible(self) -> Mask:
        possible = (np.diff(self.transition_matrix.indptr) > 0).reshape(
            self.num_states, self.num_actions
        )
        lacking = ~possible.any(axis=1)
        stuck = np.flatnonzero(lacking & ~self.is_terminal)
        if stuck.size:
            raise ValueError(
                f"transition is zero for every action in states {some(stuck)}: give "
                "them an action, or list them in terminal_states"
            )
        # A terminal state may leave out its transitions, but it too shows a set.
        every: Mask = possible | lacking[:, None]
        return every

    def _law(self, action_sets: ActionSets | ArrayLike) -> ActionSets:
        law = as_action_sets(action_sets)
        if not law.is_sas_mdp:
            raise ValueError(
                f"{type(law).__name__} is outside the SAS-MDP model: its sets depend "
                "on the past, so no value of a state alone is right, and it cannot be "
                "planned with"
            )
        law = law.fit(self.num_actions, self.num_states)
        return confine(law, self.possible_actions)

    def _start(self, initial_distribution: ArrayLike | None) -> Floats:
        if initial_distribution is None:
            if self.is_terminal.all():
                raise ValueError("terminal_states must leave a state to start from")
            return ~self.is_terminal / np.count_nonzero(~self.is_terminal)
        mu = np.asarray(initial_distribution, dtype=np.float64)
        if mu.shape != (self.num_states,):
            raise ValueError(
                f"initial_distribution must have one number a state, "
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
                f"initial_distribution starts in the terminal states {some(ended)}"
            )
        return mu


def _rewards(reward: ArrayLike) -> Floats:
    array = np.asarray(reward, dtype=np.float64)
    if array.ndim != 2 or array.size == 0:
        raise ValueError(
            f"reward must have a row a state and a column an action; got shape "
            f"{array.shape}"
        )
    if not np.isfinite(array).all():
        states = np.flatnonzero(~np.isfinite(array).all(axis=1))
        raise ValueError(f"reward must be finite; it is not in states {some(states)}")
    return array


def _transitions(
    transition: Any, num_states: int, num_actions: int
) -> sparse.csr_array:
    """Return transitions as one sparse row a state and action, [S * A, S]."""
    flat = (num_states * num_actions, num_states)
    if not sparse.issparse(transition):
        transition = np.asarray(transition, dtype=np.float64)
        if transition.shape == (num_states, num_actions, num_states):
            transition = transition.reshape(flat)
    if transition.shape != flat:
        raise ValueError(
            f"transition must have the shape {(num_states, num_actions, num_states)} "
            f"of the rewards, or sparse {flat}; got {transition.shape}"
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
            f"that sum to 1, or zeros for an action that the state lacks; got sum "
            f"{total[state * num_actions + action]}"
        )
    return matrix


def _terminal(states: Sequence[int] | NDArray[Any], num_states: int) -> Mask:
    numbers = np.asarray(states)
    if numbers.size and numbers.dtype.kind not in "iu":
        raise ValueError(f"terminal_states must be numbers of states; got {states!r}")
    numbers = numbers.astype(np.int64)
    outside = numbers[(numbers < 0) | (numbers >= num_states)]
    if outside.size:
        raise ValueError(
            f"terminal_states {some(outside)} are no states: the states are 0 to "
            f"{num_states - 1}"
        )
    is_terminal = np.zeros(num_states, dtype=bool)
    is_terminal[numbers] = True
    return is_terminal
