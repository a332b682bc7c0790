"""A batch of environments of one task, behind both Gymnasium interfaces."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.error import ResetNeeded
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from sas_gym._types import ALL_ENVS, EnvIndex, Floats, Ints, Mask
from sas_gym.action_sets import ActionSets, Outcomes
from sas_gym.action_sets._independent import as_action_sets
from sas_gym.action_sets._plain import from_plain
from sas_gym.action_sets._sampler import ActionSetSampler
from sas_gym.envs._levels import Levels, with_level
from sas_gym.envs._task_checks import (
    check_attributes,
    check_dynamics,
    check_every_state_has_a_set,
    few_states,
)
from sas_gym.masks import (
    OnUnavailable,
    check_on_unavailable,
    each_with_mask,
    masked_space,
    repair_generator,
    sample_actions,
    unavailable_action_error,
    with_mask,
)
from sas_gym.tasks._task import States, Task

if TYPE_CHECKING:
    from sas_gym.rendering import Story
    from sas_gym.tasks._tabular import TabularSASMDP

Observation = Any
_NO_ACTION = -1
TaskLike = Task | Callable[..., Task] | str


class TaskBatch:
    """N environments of one task: their states and action sets.

    `SASEnv`, with N = 1, and `SASVectorEnv` drive it; their docstrings explain the
    arguments.
    """

    def __init__(
        self,
        task: TaskLike,
        num_envs: int,
        *,
        action_sets: ActionSets | ArrayLike | None = None,
        level: str | None = None,
        levels: Levels | None = None,
        mask_in_observation: bool = True,
        on_unavailable: OnUnavailable = "raise",
        unavailable_penalty: float = 0.0,
        **task_kwargs: Any,
    ) -> None:
        check_on_unavailable(on_unavailable, unavailable_penalty)
        action_sets, task_kwargs = with_level(level, levels, action_sets, task_kwargs)
        self.task = _build(task, task_kwargs)
        check_attributes(self.task, action_sets is not None)
        num_actions = self.task.num_actions
        if action_sets is None:
            action_sets = self.task.action_sets
        elif self.task.rules_decide:
            raise ValueError(
                f"the rules of {type(self.task).__name__} decide which actions are "
                "available: it takes no action_sets"
            )
        sets = as_action_sets(from_plain(action_sets))
        self.action_sets = sets.fit(self.task)
        check_every_state_has_a_set(self.task, self.action_sets)
        check_dynamics(self.task, self.action_sets)
        self._draws_within_possible = not self._stays_within_possible()
        self._sets = ActionSetSampler(self.action_sets, num_actions, num_envs)
        self.mask_in_observation = mask_in_observation
        self.repairs = on_unavailable == "repair"
        self.repaired = np.zeros(num_envs, dtype=bool)
        """Where the last step's action was replaced, if unavailable ones are."""
        self.last_action = np.full(num_envs, _NO_ACTION)
        """The last action that was taken in each environment."""
        self.returns = np.zeros(num_envs)
        """The return of each running episode so far."""
        self._acted_in: States = self.returns  # until the first action
        self._repair_rng = np.random.default_rng()
        self._penalty = unavailable_penalty
        self._num_envs = num_envs
        # Where each row of the mask starts in the flat mask: the fastest look-up.
        self._rows = np.arange(num_envs)
        self._offsets = self._rows * num_actions
        self._state: States | None = None
        self._mask: Mask | None = None

    @property
    def state(self) -> States:
        """The states of the N environments."""
        if self._state is None:
            raise ResetNeeded("call reset() first: no episode is running")
        return self._state

    @property
    def mask(self) -> Mask:
        """The action sets as masks [N, A]. Reading draws nothing."""
        if self._mask is None:
            raise ResetNeeded("call reset() first: no action set has been drawn yet")
        return self._mask

    @property
    def observation_space(self) -> gym.Space[Any]:
        """Space of one environment's observation."""
        bare = self.task.observation_space
        if not self.mask_in_observation:
            return bare
        return masked_space(bare, self.task.num_actions)

    @property
    def action_space(self) -> "gym.spaces.Discrete[np.int64]":
        """Space of one environment's action: the base action set."""
        return gym.spaces.Discrete(self.task.num_actions)

    def reset_all(self, seed: int | Sequence[int] | None, rng: Generator) -> None:
        """Start an episode everywhere; a seed restarts the stream of action sets."""
        if seed is not None or self._state is None:
            self._sets.seed(seed)
            self._repair_rng = repair_generator(seed)
        self.repaired = np.zeros(self._num_envs, dtype=bool)
        self._start_story(ALL_ENVS)
        self._state = state = self.task.reset(self._num_envs, rng)
        self._mask = self._sets.reset_at(ALL_ENVS, *self._distribution_inputs(state))

    def reset_at(self, envs: NDArray[np.intp], rng: Generator) -> None:
        """Start a new episode in some of the environments."""
        state = self.task.reset(len(envs), rng)
        self._state = self.state.copy()
        self._state[envs] = state
        self.repaired = self.repaired.copy()
        self.repaired[envs] = False
        self._start_story(envs)
        inputs = self._distribution_inputs(state)
        self.mask[envs] = self._sets.reset_at(envs, *inputs)

    def move(self, action: Ints, rng: Generator) -> tuple[Floats, Mask]:
        """Act in every environment; return the rewards and which ones terminated.

        The next action sets are not drawn yet: `draw` or `draw_and_restart` follows.
        """
        available = self.mask.take(self._offsets + action)
        if np.count_nonzero(available) < self._num_envs:
            action = self._repair(~available, action, self._rows)
        self.repaired = ~available
        self._acted_in = self.state
        self._state, reward, terminated = self.task.transition(self.state, action, rng)
        reward = self._less_penalty(reward, self.repaired)
        self.last_action = action
        self.returns += reward
        return reward, terminated

    def move_some(
        self, envs: NDArray[np.intp], action: Ints, rng: Generator
    ) -> tuple[Floats, Mask]:
        """Act in some of the environments only: elsewhere the reward is 0."""
        reward, terminated = np.zeros(self._num_envs), np.zeros(self._num_envs, bool)
        self.repaired = np.zeros(self._num_envs, bool)
        if envs.size:
            action = action[envs]
            unavailable = ~self.mask[envs, action]
            if unavailable.any():
                action = self._repair(unavailable, action, envs)
            self._acted_in = self.state
            # In a new array: a task may return its states as observations.
            self._state = self.state.copy()
            self._state[envs], reward[envs], terminated[envs] = self.task.transition(
                self.state[envs], action, rng
            )
            self.repaired[envs] = unavailable
            self.last_action = self.last_action.copy()
            self.last_action[envs] = action
        reward = self._less_penalty(reward, self.repaired)
        self.returns += reward
        return reward, terminated

    def _repair(self, unavailable: Mask, action: Ints, envs: NDArray[np.intp]) -> Ints:
        """Replace unavailable actions by random available ones, or raise an error.

        Args:
            unavailable: Which of the actions are unavailable.
            action: The actions of some environments.
            envs: Numbers of the environments.
        """
        culprits = envs[unavailable]
        if not self.repairs:
            raise unavailable_action_error(
                action[unavailable][0],
                self.mask[culprits[0]],
                culprits.tolist() if self._num_envs > 1 else None,
            )
        repaired = action.copy()
        repaired[unavailable] = sample_actions(self.mask[culprits], self._repair_rng)
        return repaired

    def _less_penalty(self, reward: Floats, repaired: Mask) -> Floats:
        """Return rewards less the penalty where an action was replaced."""
        return reward - self._penalty * repaired if self._penalty else reward

    def draw(self) -> None:
        """Draw the next action set of every environment."""
        self._mask = self._sets.advance(*self._distribution_inputs(self.state))

    def draw_and_restart(
        self, ended: NDArray[np.intp], rng: Generator
    ) -> tuple[States, Mask]:
        """Draw the next action sets, and start new episodes in some environments.

        One call for both: at every step some of many environments start again.

        Returns:
            States and action sets of all environments before the new episodes.
        """
        num_envs, num_ended = self._num_envs, len(ended)
        state = np.concatenate([self.state, self.task.reset(num_ended, rng)])
        mask = self._sets.advance(*self._distribution_inputs(state), ended)
        rows = self._rows.copy()
        rows[ended] = np.arange(num_envs, num_envs + num_ended)
        self._state, self._mask = state.take(rows, axis=0), mask.take(rows, axis=0)
        self._start_story(ended)
        return state[:num_envs], mask[:num_envs]

    def story(self, env: int) -> "Story":
        """Return the last action, the return and the outcome of an environment."""
        from sas_gym.rendering import Story  # matplotlib loads on first use

        last = int(self.last_action[env])
        outcome = None
        if isinstance(self.action_sets, Outcomes):
            outcome = int(self.action_sets.outcome(self._sets.uniforms())[env])
        name = None
        if last != _NO_ACTION:
            name = self.task.names_at(self._acted_in[env])[last]
        return Story(float(self.returns[env]), name, outcome)

    def _start_story(self, envs: EnvIndex) -> None:
        """Forget the last action and the return of environments that start again."""
        self.last_action = self.last_action.copy()
        self.last_action[envs] = _NO_ACTION
        self.returns[envs] = 0.0

    def observe(self) -> Observation:
        """Return the observations of all environments, batched."""
        return self._join(self.task.observe(self.state), self.mask)

    def observe_each(self, state: States, mask: Mask) -> Sequence[Observation]:
        """Return the observations of some states and action sets, one by one."""
        observations = self.task.observe(state)
        if self.mask_in_observation:
            return each_with_mask(observations, mask)
        return each_observation(observations)

    def observe_first(self) -> Observation:
        """Return the observation of the first environment alone."""
        # Cut out before the mask joins it: a third faster than to cut the dict.
        observation = each_observation(self.task.observe(self.state))[0]
        return self._join(observation, self.mask[0])

    def tabular(self) -> "TabularSASMDP":
        """Return the task as arrays, with the action sets that are played here."""
        mdp = self.task.tabular()
        if mdp is None:
            raise ValueError(
                f"{type(self.task).__name__} has no tabular form: number its states "
                "(num_states) and define tabular() in its class"
            )
        return mdp.replace(action_sets=self.action_sets)

    def _join(self, observation: Observation, mask: Mask) -> Observation:
        return with_mask(observation, mask) if self.mask_in_observation else observation

    def _distribution_inputs(self, state: States) -> tuple[States, Mask | None]:
        """Return the states, and the possible actions where sets need them."""
        within = self._draws_within_possible
        return state, self.task.possible(state) if within else None

    def _stays_within_possible(self) -> bool:
        """Return whether the sets are within the possible actions by themselves.

        Looked up once for all numbered states: at every step it took a seventh of the
        time of a road map.
        """
        states = few_states(self.task)
        possible = None if states is None else self.task.possible(states)
        return possible is not None and self.action_sets.stays_within(possible)


def each_observation(batch: Observation) -> Sequence[Observation]:
    """Return the observations of a batch one by one, as `Task.observe` returns them."""
    if not isinstance(batch, dict):
        rows_of_array: Sequence[Observation] = batch
        return rows_of_array
    rows = zip(*batch.values(), strict=True)
    return [dict(zip(batch, row, strict=True)) for row in rows]


def _task_class(name: str) -> type[Task]:
    """Return the class that a string names; nothing else it may name is called.

    Its module is imported, so that such a string must be trusted.
    """
    found: Any = load_env_creator(name)
    if not (isinstance(found, type) and issubclass(found, Task)):
        raise TypeError(
            f"task {name!r} must name a subclass of sas_gym.Task as 'module:Class', "
            f"but names {found!r}"
        )
    return found


def _build(task: TaskLike, task_kwargs: dict[str, Any]) -> Task:
    """Return the task, built from its class if need be."""
    if isinstance(task, Task):
        if task_kwargs:
            raise TypeError(
                f"unexpected arguments {sorted(task_kwargs)}: {task!r} is a task that "
                "is already built; pass them to its class"
            )
        return task
    make: Callable[..., Any] = _task_class(task) if isinstance(task, str) else task
    built = make(**task_kwargs)
    if not isinstance(built, Task):
        raise TypeError(f"{task!r} must make a sas_gym.Task, but made {built!r}")
    return built
