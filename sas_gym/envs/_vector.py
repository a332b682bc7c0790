"""A task as a Gymnasium vector environment."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from sas_gym._arguments import check_integer
from sas_gym._types import Ints, Mask
from sas_gym.action_sets import ActionSets
from sas_gym.action_sets._plain import PlainSpec
from sas_gym.envs._batch import Observation, TaskBatch, TaskLike
from sas_gym.envs._levels import Levels
from sas_gym.envs._single import check_render_mode
from sas_gym.masks import MASK_KEY, REPAIRED_KEY, OnUnavailable, int_mask
from sas_gym.tasks._task import States, Task

if TYPE_CHECKING:
    from sas_gym.rendering import Frame
    from sas_gym.tasks._tabular import TabularSASMDP


_NOWHERE = np.empty(0, dtype=np.intp)
_ONE_STEP = np.array(1)


class SASVectorEnv(PlainSpec, VectorEnv[Observation, ArrayLike, NDArray[Any]]):
    """N environments of one task, stepped together without a loop.

    By default an environment that ends an episode starts the next one in the same step.
    With one environment it replays `SyncVectorEnv` of a `SASEnv` exactly, in every mode
    of autoreset. The infos are Gymnasium's:

    * `action_mask`: the current action sets as int8, one row per environment;
      `_action_mask`: which environments provide theirs, here all.
    * `final_obs`, `final_info`, when an episode has ended and another one started: the
      last observation (an object per environment, `None` where none ended) and its
      `action_mask`; `_final_obs`, `_final_info`: where an episode ended.
    * `repaired`, with `on_unavailable="repair"`: where the step's action was replaced;
      false where an episode has just started. The last step of an episode that another
      one follows has its entry in `final_info`.

    `gymnasium.make_vec(id, num_envs, ...)` takes every argument below but `task`.

    Two of Gymnasium's wrappers are wrong with `SAME_STEP` before Gymnasium 1.4:
    `NormalizeReward` leaves out the first reward of every episode and adds returns of
    one episode to the next, and `RecordEpisodeStatistics` leaves out first steps.
    Upgrade Gymnasium, or normalise by Stable-Baselines3's `VecNormalize`.

    A seed holds for all episodes: the action sets of an episode follow from the seed,
    the environment's number, the episode's number and the step, and a reset at the end
    of an episode goes on counting. Stable-Baselines3's `DummyVecEnv` and
    `SubprocVecEnv` pass a seed to the first reset alone, and options likewise.

    Args:
        task: The task; or its class, or that class's name as `"module:Class"`. The
            module is imported: such a string must be trusted, as a model file must be.
        num_envs: Number N of environments.
        max_episode_steps: Number of steps after which an episode is truncated.
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
        render_mode: `"rgb_array"` or `None`.
        autoreset_mode: When a new episode starts, as with `SyncVectorEnv`: in the step
            that ends another (`SAME_STEP`, which `sas_agents` needs), in the step after
            it, whose action is ignored (`NEXT_STEP`, for Gymnasium's wrappers of vector
            observations), or when `reset` is called (`DISABLED`).
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
        level: str | None = None,
        levels: Levels | None = None,
        mask_in_observation: bool = True,
        on_unavailable: OnUnavailable = "raise",
        unavailable_penalty: float = 0.0,
        render_mode: str | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        **task_kwargs: Any,
    ) -> None:
        check_render_mode(render_mode, self.metadata["render_modes"])
        check_integer("num_envs", num_envs, least=1)
        if max_episode_steps is not None:
            check_integer("max_episode_steps", max_episode_steps, least=1)
        mode = AutoresetMode(autoreset_mode)
        self.metadata = {**self.metadata, "autoreset_mode": mode}
        self._batch = TaskBatch(
            task,
            num_envs,
            action_sets=action_sets,
            level=level,
            levels=levels,
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
        self._limit = np.array(max_episode_steps or np.iinfo(np.int64).max)
        self._num_actions = np.array(self.task.num_actions, dtype=np.uint64)
        self._elapsed = np.zeros(num_envs, dtype=np.int64)
        self._everywhere = np.ones(num_envs, dtype=bool)
        self._same_step = mode is AutoresetMode.SAME_STEP
        # Where an episode ended and, with another mode, was not restarted yet.
        self._over = _NOWHERE

    @property
    def task(self) -> Task:
        """The task."""
        return self._batch.task

    @property
    def action_sets(self) -> ActionSets:
        """Distribution of the action sets."""
        return self._batch.action_sets

    def reset(
        self,
        *,
        seed: int | Sequence[int] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode in every environment, or in some.

        Args:
            seed: One seed for all environments, or a list with one per environment. The
                action sets of an environment with a seed of its own are those of a
                single environment with that seed; the dynamics of all environments draw
                from one stream, to which all seeds contribute.
            options: `{"reset_mask": mask}` resets only the environments where the
                boolean mask is true, as in Gymnasium; there are no other options.
        """
        self._check_seed(seed)
        reset_mask = (options or {}).get("reset_mask")
        if reset_mask is not None:
            return self._reset_some(reset_mask, seed)
        if isinstance(seed, Sequence):
            self.np_random = np.random.default_rng(seed)
        else:
            super().reset(seed=seed)
        self._batch.reset_all(seed, self.np_random)
        self._elapsed[:] = 0
        self._over = _NOWHERE
        return self._batch.observe(), self._infos()

    def step(
        self, actions: ArrayLike
    ) -> tuple[Observation, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Take one action per environment, each in its action set."""
        array, over = self._checked(actions), self._over
        if over.size:
            running, rng = self._running(), self.np_random
            reward, terminated = self._batch.move_some(running, array, rng)
        else:
            reward, terminated = self._batch.move(array, self.np_random)
        self._elapsed += _ONE_STEP
        truncated = self._elapsed >= self._limit
        done = terminated | truncated
        ended = done.nonzero()[0]
        restarted = ended if self._same_step else over
        infos: dict[str, Any] = {}
        if restarted.size:
            last = self._batch.draw_and_restart(restarted, self.np_random)
            if self._same_step:
                infos = self._final_infos(ended, done, *last)
        else:
            self._batch.draw()
        if ended.size:
            # The step that only restarts an episode is not counted.
            self._elapsed[ended] = 0 if self._same_step else -1
        if not self._same_step:
            self._over = ended
        infos |= self._infos(restarted)
        return self._batch.observe(), reward, terminated, truncated, infos

    def _running(self) -> NDArray[np.intp]:
        """Return the environments whose episodes were not ended by an earlier step."""
        over = self._over
        if self.metadata["autoreset_mode"] is AutoresetMode.DISABLED:
            raise ResetNeeded(
                f"the episodes of environments {over.tolist()} have ended: call "
                "reset(options={'reset_mask': ...}) with their booleans true"
            )
        return np.delete(np.arange(self.num_envs), over)

    def _reset_some(
        self, reset_mask: NDArray[Any], seed: Any
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
        self._over = self._over[~mask[self._over]]
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

        batch = self._batch
        return tuple(
            frame(self.task, batch.state[env], batch.mask[env], batch.story(env))
            for env in range(self.num_envs)
        )

    def _checked(self, actions: ArrayLike) -> Ints:
        array = np.asarray(actions)
        if array.shape != (self.num_envs,) or array.dtype.kind not in "iu":
            raise ValueError(
                f"actions must be {self.num_envs} integers, one per environment; got "
                f"shape {array.shape} of {array.dtype}"
            )
        array = array.astype(np.int64, copy=False)
        # As unsigned numbers, negative ones are large: one comparison finds both.
        outside = array.view(np.uint64) >= self._num_actions
        if np.count_nonzero(outside):
            raise ValueError(
                f"actions out of range in environments {outside.nonzero()[0].tolist()}:"
                f" the actions are 0 to {self.task.num_actions - 1}"
            )
        return array

    def _check_seed(self, seed: Any) -> None:
        """Raise `ValueError` unless it is a seed, or one per environment."""
        seeds = seed if isinstance(seed, Sequence) else [0 if seed is None else seed]
        if not all(isinstance(each, int | np.integer) for each in seeds):
            raise ValueError(
                f"seed must be an integer, or a list of integers, got {seed!r}"
            )
        if isinstance(seed, Sequence) and len(seed) != self.num_envs:
            raise ValueError(
                f"a list of seeds must have one per environment, {self.num_envs}; got "
                f"{len(seed)}"
            )

    def _infos(self, just_started: NDArray[np.intp] = _NOWHERE) -> dict[str, Any]:
        """Return the current infos.

        Args:
            just_started: Environments whose episodes started in this step.
        """
        infos: dict[str, Any] = {
            MASK_KEY: int_mask(self._batch.mask),
            f"_{MASK_KEY}": self._everywhere.copy(),
        }
        if self._batch.repairs:
            repaired = self._batch.repaired.copy()
            repaired[just_started] = False
            infos |= {
                REPAIRED_KEY: repaired,
                f"_{REPAIRED_KEY}": self._everywhere.copy(),
            }
        return infos

    def _final_infos(
        self, ended: NDArray[np.intp], done: Mask, state: States, mask: Mask
    ) -> dict[str, Any]:
        """Return the last observation and info of the episodes that ended.

        Gymnasium wants these observations as one object per environment: it is the only
        loop over environments here, and it runs over the ended ones alone.
        """
        last = self._batch.observe_each(
            state.take(ended, axis=0), mask.take(ended, axis=0)
        )
        final_obs = np.empty(self.num_envs, dtype=object)
        for env, observation in zip(ended.tolist(), last, strict=True):
            final_obs[env] = observation
        final_info = {MASK_KEY: int_mask(mask & done[:, None]), f"_{MASK_KEY}": done}
        if self._batch.repairs:
            repaired = self._batch.repaired & done
            final_info |= {REPAIRED_KEY: repaired, f"_{REPAIRED_KEY}": done}
        return {
            "final_obs": final_obs,
            "_final_obs": done,
            "final_info": final_info,
            "_final_info": done,
        }
