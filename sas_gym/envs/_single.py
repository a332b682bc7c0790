"""A task as a Gymnasium environment."""

from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import ArrayLike

from sas_gym._types import Mask
from sas_gym.action_sets import ActionSets
from sas_gym.action_sets._plain import PlainSpec
from sas_gym.envs._batch import Observation, TaskBatch, TaskLike
from sas_gym.envs._levels import Levels
from sas_gym.masks import MASK_KEY, REPAIRED_KEY, OnUnavailable, int_mask
from sas_gym.tasks._task import Task

if TYPE_CHECKING:
    from sas_gym.rendering import Frame
    from sas_gym.tasks._tabular import TabularSASMDP


class SASEnv(PlainSpec, gym.Env[Observation, SupportsIndex]):
    """A task whose action set changes from step to step.

    The action set of a step is drawn once and returned in three ways:
    `obs["action_mask"]`, `info["action_mask"]` (int8, as `Discrete.sample` takes it)
    and `action_masks()` (bool, as sb3-contrib calls it).

    `gymnasium.make(id, ...)` takes every argument below but `task`, and truncates the
    episodes, which this class leaves to it.

    Args:
        task: The task; or its class, or that class's name as `"module:Class"`. The
            module is imported: such a string must be trusted, as a model file must be.
        action_sets: Distribution of the action sets, in place of the task's own; or
            just the probability that an action is available (one number, one per
            action, or one row per state).
        level: Name of a set of arguments, one of the keys of `levels`; other arguments
            override it.
        levels: Sets of arguments by name, such as an id brings with it: see
            `sas_gym.catalogue()`.
        mask_in_observation: Whether observations are dicts with the keys `observation`
            and `action_mask`, or the bare observation.
        on_unavailable: Treatment of an unavailable action: `"raise"` an error, or
            replace it by a random available one (`"repair"`; `info["repaired"]` says
            so).
            Gymnasium's own `check_env` acts without masks and needs `"repair"`.
        unavailable_penalty: Cost of a replaced action, subtracted from its reward.
        render_mode: `"rgb_array"` or `None`; `gymnasium.make` also takes `"human"`, and
            opens a window by `gymnasium.wrappers.HumanRendering`.
        **task_kwargs: The rest goes to the task's class: see Arguments on its page, for
            instance `help(sas_gym.Maze)`.

    Example:
        >>> env = SASEnv("sas_gym:Maze", availability=0.5, on_unavailable="repair")
        >>> obs, info = env.reset(seed=0)
        >>> obs["observation"]
        array([0.25, 0.1 ], dtype=float32)
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}

    def __init__(
        self,
        task: TaskLike,
        *,
        action_sets: ActionSets | ArrayLike | None = None,
        level: str | None = None,
        levels: Levels | None = None,
        mask_in_observation: bool = True,
        on_unavailable: OnUnavailable = "raise",
        unavailable_penalty: float = 0.0,
        render_mode: str | None = None,
        **task_kwargs: Any,
    ) -> None:
        check_render_mode(render_mode, self.metadata["render_modes"])
        self._batch = TaskBatch(
            task,
            num_envs=1,
            action_sets=action_sets,
            level=level,
            levels=levels,
            mask_in_observation=mask_in_observation,
            on_unavailable=on_unavailable,
            unavailable_penalty=unavailable_penalty,
            **task_kwargs,
        )
        self.observation_space = self._batch.observation_space
        self.action_space = self._batch.action_space
        self.render_mode = render_mode
        self._settings = {
            "action_sets": None if self.task.rules_decide else self.action_sets,
            "mask_in_observation": mask_in_observation,
            "on_unavailable": on_unavailable,
            "unavailable_penalty": unavailable_penalty,
        }
        self._num_actions = self.task.num_actions
        self._playing = False

    @property
    def task(self) -> Task:
        """The task."""
        return self._batch.task

    @property
    def action_sets(self) -> ActionSets:
        """Distribution of the action sets."""
        return self._batch.action_sets

    @property
    def state(self) -> Any:
        """The current state."""
        return self._batch.state[0]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode. There are no options."""
        super().reset(seed=seed)
        self._batch.reset_all(seed, self.np_random)
        self._playing = True
        return self._observe()

    def step(
        self, action: SupportsIndex
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take an action that is in the current action set."""
        if not self._playing:
            raise ResetNeeded("call reset() before step(): no episode is running")
        actions = np.array([self._checked(action)])
        reward, terminated = self._batch.move(actions, self.np_random)
        self._batch.draw()
        ended = bool(terminated[0])
        self._playing = not ended
        observation, info = self._observe()
        return observation, float(reward[0]), ended, False, info

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments with which a `SASVectorEnv` of the task plays alike."""
        return dict(self._settings)

    def action_masks(self) -> Mask:
        """Return which actions are available now. Reading draws nothing."""
        mask: Mask = self._batch.mask[0].copy()
        return mask

    def tabular(self) -> "TabularSASMDP":
        """Return the task as arrays, with the action sets of this environment."""
        return self._batch.tabular()

    def render(self) -> "Frame | None":
        """Draw the state and the action set."""
        if self.render_mode is None:
            gym.logger.warn(
                "render() draws nothing without a render mode: pass "
                "render_mode='rgb_array' or 'human' to gymnasium.make"
            )
            return None
        from sas_gym.rendering import frame  # matplotlib loads on first use

        batch = self._batch
        return frame(self.task, self.state, batch.mask[0], batch.story(0))

    def _checked(self, action: SupportsIndex) -> int:
        try:
            number = index(action)
        except TypeError as error:
            raise ValueError(
                f"an action must be an integer, got the {type(action).__name__} "
                f"{action!r}"
            ) from error
        if not 0 <= number < self._num_actions:
            raise ValueError(
                f"action {number} is out of range: the actions are 0 to "
                f"{self._num_actions - 1}"
            )
        return number

    def _observe(self) -> tuple[Observation, dict[str, Any]]:
        info: dict[str, Any] = {MASK_KEY: int_mask(self._batch.mask[0])}
        if self._batch.repairs:
            info[REPAIRED_KEY] = bool(self._batch.repaired[0])
        return self._batch.observe_first(), info


def check_render_mode(render_mode: str | None, known: list[str]) -> None:
    """Raise `ValueError` for an unknown render mode."""
    if render_mode is not None and render_mode not in known:
        raise ValueError(
            f"render_mode must be one of {known}, got {render_mode!r}; for a window, "
            "make the environment by gymnasium.make(id, render_mode='human')"
        )
