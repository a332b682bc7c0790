"""Many lanes of a task as one Gymnasium vector environment."""

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from sas_gym.action_sets import ActionSets, Ints, Mask
from sas_gym.envs._batch import Observation, TaskBatch, TaskLike
from sas_gym.envs._single import check_render_mode
from sas_gym.masks import MASK_KEY, int_mask
from sas_gym.tasks._task import Task

if TYPE_CHECKING:
    from sas_gym.planning._tabular import TabularSASMDP


class SASVectorEnv(VectorEnv[Observation, ArrayLike, NDArray[Any]]):
    """N lanes of a task, stepped together without a loop.

    A lane that ends an episode begins the next one in the same step; its last
    observation is then in `infos["final_obs"]`, as with `SyncVectorEnv` in the mode
    `AutoresetMode.SAME_STEP`. One lane replays `SASEnv` exactly.

    Args:
        task: As for `SASEnv`.
        num_envs: Number N of lanes.
        max_episode_steps: Number of steps after which an episode is truncated.
        render_mode: `"rgb_array"` or `None`.
        **options: As for `SASEnv`.
    """

    metadata = {
        "render_modes": ["rgb_array"],
        "render_fps": 4,
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    def __init__(
        self,
        task: TaskLike,
        num_envs: int = 1,
        *,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        check_render_mode(render_mode, self.metadata["render_modes"])
        for name, number in (
            ("num_envs", num_envs),
            ("max_episode_steps", max_episode_steps),
        ):
            if number is not None and number < 1:
                raise ValueError(f"{name} must be at least 1, got {number}")
        self._lanes = TaskBatch(task, num_envs, **options)
        self.num_envs = num_envs
        self.single_observation_space = self._lanes.observation_space
        self.single_action_space = self._lanes.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.render_mode = render_mode
        self.max_episode_steps = max_episode_steps
        self._limit = max_episode_steps or np.inf
        self._elapsed = np.zeros(num_envs, dtype=np.int64)

    @property
    def task(self) -> Task:
        """The task."""
        return self._lanes.task

    @property
    def action_sets(self) -> ActionSets:
        """The law of the action sets."""
        return self._lanes.action_sets

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode in every lane. There are no options."""
        super().reset(seed=seed)
        self._lanes.reset_all(seed, self.np_random)
        self._elapsed[:] = 0
        return self._lanes.observe(), self._infos()

    def step(
        self, actions: ArrayLike
    ) -> tuple[Observation, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Take one action in every lane, each inside its action set."""
        reward, terminated = self._lanes.step(self._checked(actions), self.np_random)
        self._elapsed += 1
        truncated = self._elapsed >= self._limit
        done = terminated | truncated
        lanes = done.nonzero()[0]
        infos: dict[str, Any] = {}
        if lanes.size:
            infos = self._final(lanes, done)
            self._lanes.reset_at(lanes, self.np_random)
            self._elapsed[lanes] = 0
        infos |= self._infos()
        return self._lanes.observe(), reward, terminated, truncated, infos

    def action_masks(self) -> Mask:
        """Return which actions are available now, [N, A]. Reading draws nothing."""
        return self._lanes.mask.copy()

    def tabular(self) -> "TabularSASMDP":
        """Return the task as arrays, with the law of the action sets as played here."""
        return self.task.tabular().replace(action_sets=self.action_sets)

    def render(self) -> Any:
        """Draw every lane: a tuple of frames."""
        if self.render_mode is None:
            raise ValueError(
                "nothing to render: pass render_mode='rgb_array' to gymnasium.make_vec"
            )
        from sas_gym.rendering import frame  # matplotlib loads on first use

        lanes = zip(self._lanes.state, self._lanes.mask, strict=True)
        return tuple(frame(self.task, state, mask) for state, mask in lanes)

    def _checked(self, actions: ArrayLike) -> Ints:
        array = np.asarray(actions)
        if array.shape != (self.num_envs,) or array.dtype.kind not in "iu":
            raise ValueError(
                f"actions must be {self.num_envs} integers, one a lane; got shape "
                f"{array.shape} of {array.dtype}"
            )
        array = array.astype(np.int64, copy=False)
        num_actions = self.task.num_actions
        # As unsigned numbers, negative ones are large: one comparison finds both.
        if np.count_nonzero(array.view(np.uint64) >= num_actions):
            lanes = np.flatnonzero((array < 0) | (array >= num_actions)).tolist()
            raise ValueError(
                f"actions out of range in lanes {lanes}: the actions are 0 to "
                f"{num_actions - 1}"
            )
        return array

    def _infos(self) -> dict[str, Any]:
        everywhere = np.ones(self.num_envs, dtype=bool)
        return {MASK_KEY: int_mask(self._lanes.mask), f"_{MASK_KEY}": everywhere}

    def _final(self, lanes: NDArray[np.intp], done: Mask) -> dict[str, Any]:
        """Return the last observation and info of the lanes that are done.

        Gymnasium wants these observations as objects, one a lane: it is the only thing
        here that is done lane by lane, and only for the episodes that end.
        """
        observations = self._lanes.observe_each(lanes)
        final_obs = np.empty(self.num_envs, dtype=object)
        final_obs[lanes] = np.fromiter(observations, dtype=object, count=len(lanes))
        mask = np.zeros((self.num_envs, self.task.num_actions), dtype=np.int8)
        mask[lanes] = self._lanes.mask[lanes]
        return {
            "final_obs": final_obs,
            "_final_obs": done,
            "final_info": {MASK_KEY: mask, f"_{MASK_KEY}": done},
            "_final_info": done,
        }
