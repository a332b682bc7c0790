"""What a task is: its task, batched, and the law of its action sets."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from numpy.random import Generator
from numpy.typing import NDArray

from sas_gym.action_sets import ActionSets, Floats, Ints, Mask

if TYPE_CHECKING:
    from sas_gym.planning._tabular import TabularSASMDP

States = NDArray[Any]
"""The states of N lanes, with the lane axis first."""


class Task(ABC):
    """A task: N lanes of it reset, step and are observed in one call each.

    Subclasses write these three functions in NumPy over a leading lane axis, without
    masks, seeds or episode book-keeping: `SASEnv` and `SASVectorEnv` add those. They
    return new arrays and leave their arguments as they are.

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
    """Space of one lane's observation, without the mask."""
    action_sets: ActionSets
    """Law of the action sets, unless the user gives another; within `possible`."""
    num_states: int | None = None
    """Number of states where they are numbers 0 to S - 1, else `None`."""
    idle_reward: float = 0.0
    """Reward of a step in which nothing happens, as when an action is refused."""

    @abstractmethod
    def reset(self, num_envs: int, rng: Generator) -> States:
        """Draw start states, [N, ...]."""

    @abstractmethod
    def transition(
        self, state: States, action: Ints, rng: Generator
    ) -> tuple[States, Floats, Mask]:
        """Take one action in every lane.

        Args:
            state: States, [N, ...].
            action: Numbers of the actions, [N].
            rng: Source of the dynamics' randomness.

        Returns:
            The next states [N, ...], the rewards [N], and which lanes terminated [N].
        """

    def observe(self, state: States) -> NDArray[Any]:
        """Return what the agent sees of each state, [N, ...]: by default, all of it."""
        return state

    def possible(self, state: States) -> Mask | None:
        """Return the actions that each state has at all, [N, A], or `None` for all.

        A law that the user gives is confined to these.
        """
        return None

    def number(self, state: States) -> Ints | None:
        """Return the states' numbers, [N], or `None` where they have none."""
        return None if self.num_states is None else state

    def tabular(self) -> "TabularSASMDP":
        """Return the task as arrays, to be solved by `sas_gym.planning`.

        Raises:
            ValueError: If its states are not numbers with known transitions.
        """
        raise ValueError(
            f"{type(self).__name__} does not give itself as arrays: only a task with "
            "numbered states, whose class defines `tabular`, can"
        )
