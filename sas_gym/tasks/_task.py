"""What a task is: batched dynamics and the distribution of its action sets."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium as gym
from jaxtyping import Bool, Float, Int, Shaped
from numpy.random import Generator

from sas_gym._types import Floats, Ints, Mask, NDArray
from sas_gym.action_sets import ActionSets

if TYPE_CHECKING:
    from sas_gym.tasks._tabular import TabularSASMDP

States = Shaped[NDArray[Any], "N ..."]
"""The states of N environments, along the first axis."""
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
    """Number S of states if they are the integers 0 to S - 1, else `None`."""
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

    def tabular(self) -> "TabularSASMDP | None":
        """Return the task as arrays, to be solved by `sas_gym.planning`, or `None`.

        A task with numbered states can override this.
        """
        return None
