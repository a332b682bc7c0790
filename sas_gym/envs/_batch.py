"""TaskBatch of a task: what the single and the vector environment both drive."""

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.error import ResetNeeded
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from sas_gym.action_sets import ActionSets, Floats, Ints, Mask, as_action_sets
from sas_gym.action_sets._sampler import ALL_ENVS, ActionSetSampler, EnvIndex
from sas_gym.masks import (
    MASK_KEY,
    OnUnavailable,
    check_on_unavailable,
    int_mask,
    masked_space,
    unavailable_action_error,
)
from sas_gym.tasks._task import States, Task

Observation = Any
TaskLike = Task | Callable[..., Task] | str


class TaskBatch:
    """N lanes of one task: their states and action sets, and how they move.

    Args:
        task: The task; or its class, or that class's name `"module:Class"`, which
            then gets the further keyword arguments.
        num_envs: Number N of lanes.
        action_sets: Law of the action sets, or just a probability, in place of the
            task's own.
        mask_in_observation: Whether observations are dicts with `observation` and
            `action_mask`, or bare.
        on_unavailable: What an unavailable action does: `"raise"` an error, or nothing
            (`"noop"`: a step passes, the state stays).
        unavailable_penalty: What such a no-op costs beyond the task's idle reward.
        **arguments: Arguments of the task's class.
    """

    def __init__(
        self,
        task: TaskLike,
        num_envs: int,
        *,
        action_sets: ActionSets | ArrayLike | None = None,
        mask_in_observation: bool = True,
        on_unavailable: OnUnavailable = "raise",
        unavailable_penalty: float = 0.0,
        **arguments: Any,
    ) -> None:
        check_on_unavailable(on_unavailable, unavailable_penalty)
        self.task = _build(task, arguments)
        num_actions, num_states = self.task.num_actions, self.task.num_states
        # The task's own law offers only what is possible, and need not be told it.
        self._own_law = action_sets is None
        law = self.task.action_sets if action_sets is None else action_sets
        self.action_sets = as_action_sets(law).fit(num_actions, num_states)
        self._sets = ActionSetSampler(self.action_sets, num_actions, num_envs)
        self.mask_in_observation = mask_in_observation
        self._raises = on_unavailable == "raise"
        self._refused_reward = self.task.idle_reward - unavailable_penalty
        self._num_lanes = num_envs
        # Where each lane begins in the mask, taken as one row: the fastest look-up.
        self._offsets = np.arange(num_envs) * num_actions
        self._state: States | None = None
        self._mask: Mask | None = None

    @property
    def state(self) -> States:
        """The states, [N, ...]."""
        if self._state is None:
            raise ResetNeeded("call reset() first: no episode is under way")
        return self._state

    @property
    def mask(self) -> Mask:
        """The action sets, [N, A]. Reading draws nothing."""
        if self._mask is None:
            raise ResetNeeded("call reset() first: no action set is drawn yet")
        return self._mask

    @property
    def observation_space(self) -> gym.Space[Any]:
        """Space of one lane's observation."""
        bare = self.task.observation_space
        if not self.mask_in_observation:
            return bare
        return masked_space(bare, self.task.num_actions)

    @property
    def action_space(self) -> gym.spaces.Discrete[np.int64]:
        """Space of one lane's action: the base action set."""
        return gym.spaces.Discrete(self.task.num_actions)

    def reset_all(self, seed: int | None, rng: Generator) -> None:
        """Begin an episode in every lane; a seed starts the sets' stream anew."""
        if seed is not None or self._state is None:
            self._sets.seed(seed)
        self._state = state = self.task.reset(self._num_lanes, rng)
        self._mask = self._sets.reset_at(ALL_ENVS, *self._situation(state))

    def reset_at(self, lanes: NDArray[np.intp], rng: Generator) -> None:
        """Begin a new episode in some lanes."""
        self.state[lanes] = state = self.task.reset(len(lanes), rng)
        self.mask[lanes] = self._sets.reset_at(lanes, *self._situation(state))

    def step(self, action: Ints, rng: Generator) -> tuple[Floats, Mask]:
        """Act in every lane; return the rewards [N] and which lanes terminated [N]."""
        available = self.mask.take(self._offsets + action)
        all_available = np.count_nonzero(available) == self._num_lanes
        if self._raises and not all_available:
            where = np.flatnonzero(~available)
            lanes = where.tolist() if self._num_lanes > 1 else None
            raise unavailable_action_error(action[where[0]], self.mask[where[0]], lanes)
        state, reward, terminated = self.task.transition(self.state, action, rng)
        if not all_available:
            refused = ~available
            state[refused] = self.state[refused]
            reward[refused] = self._refused_reward
            terminated[refused] = False
        self._state = state
        self._mask = self._sets.advance(*self._situation(state))
        return reward, terminated

    def observe(self, lanes: EnvIndex = ALL_ENVS) -> Observation:
        """Return the observations of some lanes, batched."""
        observation = self.task.observe(self.state[lanes])
        if not self.mask_in_observation:
            return observation
        return {"observation": observation, MASK_KEY: int_mask(self.mask[lanes])}

    def observe_each(self, lanes: EnvIndex = ALL_ENVS) -> Iterator[Observation]:
        """Yield the observations of some lanes one by one."""
        batch = self.observe(lanes)
        if not self.mask_in_observation:
            return iter(batch)
        pairs = zip(batch["observation"], batch[MASK_KEY], strict=True)
        return ({"observation": seen, MASK_KEY: mask} for seen, mask in pairs)

    def _situation(self, state: States) -> tuple[Ints | None, Mask | None]:
        """Return all that a law of action sets may know of the states."""
        possible = None if self._own_law else self.task.possible(state)
        return self.task.number(state), possible


def _build(task: TaskLike, arguments: dict[str, Any]) -> Task:
    """Return the task that was meant."""
    if isinstance(task, Task):
        if arguments:
            raise TypeError(
                f"unexpected arguments {sorted(arguments)}: a task that is built "
                "already takes no more"
            )
        return task
    make: Callable[..., Any] = load_env_creator(task) if isinstance(task, str) else task
    built = make(**arguments)
    if not isinstance(built, Task):
        raise TypeError(f"{task!r} makes no Task, but {built!r}")
    return built
