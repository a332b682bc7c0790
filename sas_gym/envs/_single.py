"""One lane of a task as a Gymnasium environment."""

from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded

from sas_gym.action_sets import ActionSets, Mask
from sas_gym.envs._batch import Observation, TaskBatch, TaskLike
from sas_gym.masks import MASK_KEY, int_mask, with_mask
from sas_gym.tasks._task import Task

if TYPE_CHECKING:
    from sas_gym.planning._tabular import TabularSASMDP
    from sas_gym.rendering import Window


class SASEnv(gym.Env[Observation, SupportsIndex]):
    """A task whose action set changes from step to step.

    The set of a step is drawn once and told in three ways: `obs["action_mask"]`,
    `info["action_mask"]` (int8, as `Discrete.sample` takes it) and `action_masks()`
    (bool, as sb3-contrib calls it). Truncation is left to `gymnasium.make`.

    Args:
        task: The task; or its class (or `"module:Class"`), which then gets those of
            the further arguments that `TaskBatch` does not know.
        render_mode: `"rgb_array"`, `"human"` or `None`.
        **options: As for `TaskBatch`: `action_sets`, `mask_in_observation`,
            `on_unavailable`, `unavailable_penalty`, and the task's own.
    """

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 4}

    def __init__(
        self, task: TaskLike, *, render_mode: str | None = None, **options: Any
    ) -> None:
        check_render_mode(render_mode, self.metadata["render_modes"])
        self._lanes = TaskBatch(task, 1, **options)
        self.observation_space = self._lanes.observation_space
        self.action_space = self._lanes.action_space
        self.render_mode = render_mode
        self._num_actions = self.task.num_actions
        self._playing = False
        self._window: Window | None = None

    @property
    def task(self) -> Task:
        """The task."""
        return self._lanes.task

    @property
    def action_sets(self) -> ActionSets:
        """The law of the action sets."""
        return self._lanes.action_sets

    @property
    def state(self) -> Any:
        """The current state."""
        return self._lanes.state[0]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode. There are no options."""
        super().reset(seed=seed)
        self._lanes.reset_all(seed, self.np_random)
        self._playing = True
        return self._observe()

    def step(
        self, action: SupportsIndex
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take an action that is in the current action set."""
        if not self._playing:
            raise ResetNeeded("call reset() before step(): no episode is under way")
        actions = np.array([self._checked(action)])
        reward, terminated = self._lanes.step(actions, self.np_random)
        ended = bool(terminated[0])
        self._playing = not ended
        observation, info = self._observe()
        return observation, float(reward[0]), ended, False, info

    def action_masks(self) -> Mask:
        """Return which actions are available now, [A]. Reading draws nothing."""
        mask: Mask = self._lanes.mask[0].copy()
        return mask

    def tabular(self) -> "TabularSASMDP":
        """Return the task as arrays, with the law of the action sets as played here."""
        return self.task.tabular().replace(action_sets=self.action_sets)

    def render(self) -> Any:
        """Draw the state and the action set: a frame, in the mode `rgb_array`."""
        if self.render_mode == "rgb_array":
            return self._frame()
        if self.render_mode is None:
            gym.logger.warn(
                "render() draws nothing without a render mode: pass "
                "render_mode='rgb_array' or 'human' to gymnasium.make"
            )
        return None

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            self._window.close()
            self._window = None

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
        if self.render_mode == "human":
            self._show()
        observation, mask = (
            self.task.observe(self._lanes.state)[0],
            self._lanes.mask[0],
        )
        if self._lanes.mask_in_observation:
            observation = with_mask(observation, mask)
        return observation, {MASK_KEY: int_mask(mask)}

    def _frame(self) -> Any:
        from sas_gym.rendering import frame  # matplotlib loads on first use

        return frame(self.task, self.state, self._lanes.mask[0])

    def _show(self) -> None:
        from sas_gym.rendering import Window

        if self._window is None:
            self._window = Window(str(self), self.metadata["render_fps"])
        self._window.show(self._frame())


def check_render_mode(render_mode: str | None, known: list[str]) -> None:
    """Raise `ValueError` for a render mode that there is not."""
    if render_mode is not None and render_mode not in known:
        raise ValueError(f"render_mode must be one of {known}, got {render_mode!r}")
