"""Lanes of a task: what the single and the vector environment both drive."""

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.error import ResetNeeded
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from sas_gym.action_sets import ActionSets, Floats, Ints, Mask, as_action_sets
from sas_gym.dynamics import Dynamics, States
from sas_gym.masks import (
    KEY,
    OnUnavailable,
    check_on_unavailable,
    int_mask,
    masked_space,
    refusal,
)
from sas_gym.sampling import ALL_LANES, LaneIndex, SetProcess

Observation = Any
DynamicsLike = Dynamics | Callable[..., Dynamics] | str


class Lanes:
    """N lanes of one task: their states and action sets, and how they move.

    Args:
        dynamics: The task; or its class, or that class's name `"module:Class"`, which
            then gets the further keyword arguments.
        num_lanes: Number N of lanes.
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
        dynamics: DynamicsLike,
        num_lanes: int,
        *,
        action_sets: ActionSets | ArrayLike | None = None,
        mask_in_observation: bool = True,
        on_unavailable: OnUnavailable = "raise",
        unavailable_penalty: float = 0.0,
        **arguments: Any,
    ) -> None:
        check_on_unavailable(on_unavailable, unavailable_penalty)
        self.dynamics = _build(dynamics, arguments)
        num_actions, num_states = self.dynamics.num_actions, self.dynamics.num_states
        # The task's own law offers only what is possible, and need not be told it.
        self._own_law = action_sets is None
        law = self.dynamics.action_sets if action_sets is None else action_sets
        self.action_sets = as_action_sets(law).fit(num_actions, num_states)
        self._sets = SetProcess(self.action_sets, num_actions, num_lanes)
        self.mask_in_observation = mask_in_observation
        self._raises = on_unavailable == "raise"
        self._refused_reward = self.dynamics.idle_reward - unavailable_penalty
        self._num_lanes = num_lanes
        # Where each lane begins in the mask, taken as one row: the fastest look-up.
        self._offsets = np.arange(num_lanes) * num_actions
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
        bare = self.dynamics.observation_space
        if not self.mask_in_observation:
            return bare
        return masked_space(bare, self.dynamics.num_actions)

    @property
    def action_space(self) -> gym.spaces.Discrete[np.int64]:
        """Space of one lane's action: the base action set."""
        return gym.spaces.Discrete(self.dynamics.num_actions)

    def begin_all(self, seed: int | None, rng: Generator) -> None:
        """Begin an episode in every lane; a seed starts the sets' stream anew."""
        if seed is not None or self._state is None:
            self._sets.seed(seed)
        self._state = state = self.dynamics.reset(self._num_lanes, rng)
        self._mask = self._sets.begin(ALL_LANES, *self._situation(state))

    def begin(self, lanes: NDArray[np.intp], rng: Generator) -> None:
        """Begin a new episode in some lanes."""
        self.state[lanes] = state = self.dynamics.reset(len(lanes), rng)
        self.mask[lanes] = self._sets.begin(lanes, *self._situation(state))

    def step(self, action: Ints, rng: Generator) -> tuple[Floats, Mask]:
        """Act in every lane; return the rewards [N] and which lanes terminated [N]."""
        available = self.mask.take(self._offsets + action)
        all_available = np.count_nonzero(available) == self._num_lanes
        if self._raises and not all_available:
            where = np.flatnonzero(~available)
            lanes = where.tolist() if self._num_lanes > 1 else None
            raise refusal(action[where[0]], self.mask[where[0]], lanes)
        state, reward, terminated = self.dynamics.transition(self.state, action, rng)
        if not all_available:
            refused = ~available
            state[refused] = self.state[refused]
            reward[refused] = self._refused_reward
            terminated[refused] = False
        self._state = state
        self._mask = self._sets.advance(*self._situation(state))
        return reward, terminated

    def observe(self, lanes: LaneIndex = ALL_LANES) -> Observation:
        """Return the observations of some lanes, batched."""
        observation = self.dynamics.observe(self.state[lanes])
        if not self.mask_in_observation:
            return observation
        return {"observation": observation, KEY: int_mask(self.mask[lanes])}

    def observe_each(self, lanes: LaneIndex = ALL_LANES) -> Iterator[Observation]:
        """Yield the observations of some lanes one by one."""
        batch = self.observe(lanes)
        if not self.mask_in_observation:
            return iter(batch)
        pairs = zip(batch["observation"], batch[KEY], strict=True)
        return ({"observation": seen, KEY: mask} for seen, mask in pairs)

    def _situation(self, state: States) -> tuple[Ints | None, Mask | None]:
        """Return all that a law of action sets may know of the states."""
        possible = None if self._own_law else self.dynamics.possible(state)
        return self.dynamics.number(state), possible


def _build(dynamics: DynamicsLike, arguments: dict[str, Any]) -> Dynamics:
    """Return the task that was meant."""
    if isinstance(dynamics, Dynamics):
        if arguments:
            raise TypeError(
                f"unexpected arguments {sorted(arguments)}: a task that is built "
                "already takes no more"
            )
        return dynamics
    make: Callable[..., Any] = (
        load_env_creator(dynamics) if isinstance(dynamics, str) else dynamics
    )
    task = make(**arguments)
    if not isinstance(task, Dynamics):
        raise TypeError(f"{dynamics!r} makes no Dynamics, but {task!r}")
    return task
