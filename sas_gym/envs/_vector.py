"""A task as a Gymnasium vector environment."""

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from sas_gym._arguments import check_integer
from sas_gym._types import Ints, Mask
from sas_gym.action_sets import ActionSets
from sas_gym.envs._batch import Observation, TaskBatch, TaskLike, observation_at
from sas_gym.envs._single import check_render_mode
from sas_gym.masks import MASK_KEY, OnUnavailable, int_mask
from sas_gym.tasks._task import Task

if TYPE_CHECKING:
    from sas_gym.planning._tabular import TabularSASMDP
    from sas_gym.rendering import Frame


class SASVectorEnv(VectorEnv[Observation, ArrayLike, NDArray[Any]]):
    """N environments of one task, stepped together without a loop.

    An environment that ends an episode starts the next one in the same step, as with
    `SyncVectorEnv` in the mode `AutoresetMode.SAME_STEP`. With one environment it
    replays `SASEnv` exactly. The infos are Gymnasium's:

    * `action_mask`: the current action sets as int8, one row per environment;
      `_action_mask`: which environments provide theirs, here all.
    * `final_obs`, `final_info`, when an episode has ended: the last observation (an
      object per environment, `None` where none ended) and its `action_mask`;
      `_final_obs`, `_final_info`: where an episode ended.

    `gymnasium.make_vec(id, num_envs, ...)` takes every argument below but `task`.

    Args:
        task: The task; or its class, or that class's name as `"module:Class"`. The
            module is imported: such a string must be trusted, as a model file must be.
        num_envs: Number N of environments.
        max_episode_steps: Number of steps after which an episode is truncated.
        action_sets: Distribution of the action sets, in place of the task's own; or
            just the probability that an action is available (one number, one per
            action, or one row per state).
        mask_in_observation: Whether observations are dicts with the keys `observation`
            and `action_mask`, or the bare observation.
        on_unavailable: What an unavailable action does: `"raise"` an error, or nothing
            (`"noop"`: a step passes, and the state stays, see `Task.idle`).
        unavailable_penalty: What such a no-op costs beyond the task's idle reward.
        render_mode: `"rgb_array"` or `None`.
        autoreset_mode: Must be `AutoresetMode.SAME_STEP`; for another mode make single
            environments, by `gymnasium.make_vec(id, num_envs, "sync",
            vector_kwargs={"autoreset_mode": ...})`.
        **task_kwargs: The rest goes to the task's class: see Arguments on its page, for
            instance `help(sas_gym.Maze)`.

    Example:
        >>> env = SASVectorEnv("sas_gym:Maze", 64, max_episode_steps=80)
        >>> obs, infos = env.reset(seed=0)
        >>> obs["action_mask"].shape
        (64, 16)
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
        action_sets: ActionSets | ArrayLike | None = None,
        mask_in_observation: bool = True,
        on_unavailable: OnUnavailable = "raise",
        unavailable_penalty: float = 0.0,
        render_mode: str | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        **task_kwargs: Any,
    ) -> None:
        check_render_mode(render_mode, self.metadata["render_modes"])
        _check_autoreset_mode(autoreset_mode)
        check_integer("num_envs", num_envs, least=1)
        if max_episode_steps is not None:
            check_integer("max_episode_steps", max_episode_steps, least=1)
        self._batch = TaskBatch(
            task,
            num_envs,
            action_sets=action_sets,
            mask_in_observation=mask_in_observation,
            on_unavailable=on_unavailable,
            unavailable_penalty=unavailable_penalty,
            **task_kwargs,
        )
        self.num_envs = num_envs
        self.single_observation_space = self._batch.observation_space
        self.single_action_space = self._batch.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.render_mode = render_mode
        self.max_episode_steps = max_episode_steps
        self._limit = max_episode_steps or np.inf
        self._elapsed = np.zeros(num_envs, dtype=np.int64)

    @property
    def task(self) -> Task:
        """The task."""
        return self._batch.task

    @property
    def action_sets(self) -> ActionSets:
        """Distribution of the action sets."""
        return self._batch.action_sets

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode in every environment, or in some.

        Args:
            seed: One seed for all environments, which draw from one stream.
            options: `{"reset_mask": mask}` resets only the environments where the
                boolean mask is true, as in Gymnasium; there are no other options.
        """
        if not (seed is None or isinstance(seed, int | np.integer)):
            raise ValueError(
                f"seed must be one integer for all environments, got {seed!r}: they "
                "draw from one stream. For a seed per environment make single ones, by "
                "gymnasium.make_vec(id, num_envs, 'sync')"
            )
        reset_mask = (options or {}).get("reset_mask")
        if reset_mask is not None:
            return self._reset_some(reset_mask, seed)
        super().reset(seed=seed)
        self._batch.reset_all(seed, self.np_random)
        self._elapsed[:] = 0
        return self._batch.observe(), self._infos()

    def step(
        self, actions: ArrayLike
    ) -> tuple[Observation, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Take one action per environment, each in its action set."""
        reward, terminated = self._batch.step(self._checked(actions), self.np_random)
        self._elapsed += 1
        truncated = self._elapsed >= self._limit
        done = terminated | truncated
        ended = done.nonzero()[0]
        infos: dict[str, Any] = {}
        if ended.size:
            infos = self._final_infos(ended, done)
            self._batch.reset_at(ended, self.np_random)
            self._elapsed[ended] = 0
        infos |= self._infos()
        return self._batch.observe(), reward, terminated, truncated, infos

    def _reset_some(
        self, reset_mask: NDArray[Any], seed: int | None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode where a mask says so; the others go on."""
        mask = np.asarray(reset_mask)
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_ or not mask.any():
            raise ValueError(
                f"options['reset_mask'] must be {self.num_envs} booleans, one per "
                f"environment and not all false; got {reset_mask!r}"
            )
        if seed is not None:
            raise ValueError(
                "a seed restarts all environments: pass it without 'reset_mask'"
            )
        envs = mask.nonzero()[0]
        self._batch.reset_at(envs, self.np_random)
        self._elapsed[envs] = 0
        return self._batch.observe(), self._infos()

    def action_masks(self) -> Mask:
        """Return which actions are available now, [N, A]. Reading draws nothing."""
        return self._batch.mask.copy()

    def tabular(self) -> "TabularSASMDP":
        """Return the task as arrays, with the action sets of this environment."""
        return self._batch.tabular()

    def render(self) -> "tuple[Frame, ...]":
        """Draw every environment: a tuple of frames."""
        if self.render_mode is None:
            raise ValueError(
                "nothing to render: pass render_mode='rgb_array' to gymnasium.make_vec"
            )
        from sas_gym.rendering import frame  # matplotlib loads on first use

        pairs = zip(self._batch.state, self._batch.mask, strict=True)
        return tuple(frame(self.task, state, mask) for state, mask in pairs)

    def _checked(self, actions: ArrayLike) -> Ints:
        array = np.asarray(actions)
        if array.shape != (self.num_envs,) or array.dtype.kind not in "iu":
            raise ValueError(
                f"actions must be {self.num_envs} integers, one per environment; got "
                f"shape {array.shape} of {array.dtype}"
            )
        array = array.astype(np.int64, copy=False)
        num_actions = self.task.num_actions
        # As unsigned numbers, negative ones are large: one comparison finds both.
        if np.count_nonzero(array.view(np.uint64) >= num_actions):
            envs = np.flatnonzero((array < 0) | (array >= num_actions)).tolist()
            raise ValueError(
                f"actions out of range in environments {envs}: the actions are 0 to "
                f"{num_actions - 1}"
            )
        return array

    def _infos(self) -> dict[str, Any]:
        everywhere = np.ones(self.num_envs, dtype=bool)
        return {MASK_KEY: int_mask(self._batch.mask), f"_{MASK_KEY}": everywhere}

    def _final_infos(self, ended: NDArray[np.intp], done: Mask) -> dict[str, Any]:
        """Return the last observation and info of the episodes that ended.

        Gymnasium wants these observations as one object per environment: it is the only
        loop over environments here, and it runs over the ended ones alone.
        """
        last = self._batch.observe(ended)
        final_obs = np.empty(self.num_envs, dtype=object)
        for row, env in enumerate(ended.tolist()):
            final_obs[env] = observation_at(last, row)
        mask = np.zeros((self.num_envs, self.task.num_actions), dtype=np.int8)
        mask[ended] = self._batch.mask[ended]
        return {
            "final_obs": final_obs,
            "_final_obs": done,
            "final_info": {MASK_KEY: mask, f"_{MASK_KEY}": done},
            "_final_info": done,
        }


def _check_autoreset_mode(mode: AutoresetMode | str) -> None:
    if mode not in (AutoresetMode.SAME_STEP, AutoresetMode.SAME_STEP.value):
        raise ValueError(
            f"autoreset_mode must be AutoresetMode.SAME_STEP, got {mode!r}: for other "
            "modes make single environments, by gymnasium.make_vec(id, num_envs, "
            f"'sync', vector_kwargs={{'autoreset_mode': {mode!s}}})"
        )
