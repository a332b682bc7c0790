"""The base class of a task: batched dynamics and their action sets."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import gymnasium as gym
import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.random import Generator

from sas_gym._types import Floats, Ints, Mask, NDArray
from sas_gym.action_sets import ActionSets, Things
from sas_gym.action_sets._base import States as States  # tasks name it by this one

if TYPE_CHECKING:
    from sas_gym.tasks._tabular import TabularSASMDP

Actions = Int[Ints, " N"]
Rewards = Float[Floats, " N"]
Terminations = Bool[Mask, " N"]


class Task(ABC):
    """The batched model of a problem: N environments reset and step in one call each.

    Subclasses write `reset`, `transition` and, if need be, `observe` in NumPy over a
    leading axis of environments, without masks, seeds or episode bookkeeping: `SASEnv`
    and `SASVectorEnv` add those. The methods return new arrays and leave their
    arguments unchanged.

    Example:
        >>> import numpy as np
        >>> from sas_gym import SASEnv
        >>> from sas_gym.action_sets import Independent
        >>> class Corridor(Task):
        ...     '''Walk five cells to the right; now and then a leg gives way.'''
        ...
        ...     num_states, num_actions = 5, 2
        ...     observation_space = gym.spaces.Discrete(5)
        ...     action_sets = Independent([1.0, 0.7])
        ...
        ...     def reset(self, num_envs, rng):
        ...         return np.zeros(num_envs, dtype=np.int64)
        ...
        ...     def transition(self, state, action, rng):
        ...         state = np.clip(state + 2 * action - 1, 0, 4)
        ...         return state, np.full(len(state), -1.0), state == 4
        >>> env = SASEnv(Corridor())
        >>> env.reset(seed=0)[0]
        {'observation': np.int64(0), 'action_mask': array([1, 1], dtype=int8)}
    """

    num_actions: int
    """Size of the base action set."""
    observation_space: gym.Space[Any]
    """Space of one environment's observation, without the mask."""
    action_sets: ActionSets
    """Distribution of the action sets, unless the user passes another one."""
    num_states: int | None = None
    """Number S of states if they are numbered from 0 to S - 1, else `None`."""
    things: Things | None = None
    """Roads, zones or suppliers whose failures make actions unavailable, if failures
    may last: `PerEpisode` and `Markov` apply to them."""
    rules_decide: bool = False
    """Whether the rules decide the action sets, as dice do: no others can be passed."""
    listed_states: ClassVar[None] = None
    """A tabular form lists here the states of the task it was made from."""
    behaviour_version: ClassVar[int]
    """Version of a shipped task, raised when its dynamics or random streams change:
    results of studies are keyed by it. A task of a user's own needs none."""
    always_ends: bool = False
    """Whether every episode ends by itself, so that none needs a time limit."""

    @abstractmethod
    def reset(self, num_envs: int, rng: Generator) -> States:
        """Draw the start states of so many environments."""

    @abstractmethod
    def transition(
        self, state: States, action: Actions, rng: Generator
    ) -> tuple[States, Rewards, Terminations]:
        """Take one action per environment.

        Args:
            state: The states.
            action: The actions, each from 0 to `num_actions` - 1.
            rng: Source of the dynamics' randomness.

        Returns:
            The next states, the rewards, and which environments terminated.
        """

    def observe(self, state: States) -> States:
        """Return the observation of each state: by default, a copy of the state."""
        return state.copy()

    def possible(self, state: States) -> Bool[Mask, "N A"] | None:
        """Return the actions that exist in each state, or `None` for all of them.

        Every action set is drawn within these.
        """
        return None

    def number(self, state: States) -> Int[Ints, " N"] | None:
        """Return the states as integers, or `None` if they are not numbered."""
        return None if self.num_states is None else state

    def states(self) -> States | None:
        """Return all states in the order of their numbers, or `None`.

        A task whose states are numbered, but are not the numbers themselves, overrides
        this together with `number`, to be planned for.
        """
        if self.num_states is None or type(self).number is not Task.number:
            return None
        return np.arange(self.num_states)

    @property
    def action_names(self) -> Sequence[str]:
        """Names of the actions, by default their numbers."""
        return [str(action) for action in range(self.num_actions)]

    def names_at(self, state: Any) -> Sequence[str]:
        """Return the names of the actions in a state: by default, `action_names`.

        Args:
            state: The state of one environment.
        """
        return self.action_names

    def describe(self, state: Any) -> str:
        """Return a state in words, in one line: by default, its numbers.

        Args:
            state: The state of one environment.
        """
        text = np.array2string(np.asarray(state), precision=3, max_line_width=10_000)
        return f"state {text}"

    def tabular(self) -> "TabularSASMDP | None":
        """Return the task as arrays, to be solved by `sas_gym.planning`, or `None`.

        A task with numbered states can override this.
        """
        return None

    def solve(self) -> "TaskSolution | None":
        """Return the optimum and an optimal policy, or `None`.

        A task that is too large for arrays can bring its own solver. The solution holds
        for the task's own action sets, undiscounted and without a time limit.
        """
        return None


class TaskSolution(NamedTuple):
    """The optimum that a task's own solver finds."""

    mean_return: float
    """Best mean return of an episode."""
    policy: Callable[[Any, NDArray[Any]], NDArray[Any]]
    """An optimal policy: from observations and action masks to actions."""
