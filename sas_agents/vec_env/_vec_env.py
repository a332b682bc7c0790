"""Environments as Stable-Baselines3's `VecEnv`, with the masks in the observations."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.wrappers import TimeLimit
from numpy.typing import NDArray
from stable_baselines3.common.env_util import make_vec_env as sb3_make_vec_env
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    SubprocVecEnv,
    VecEnv,
    VecEnvWrapper,
    unwrap_vec_normalize,
)
from stable_baselines3.common.vec_env.base_vec_env import (
    VecEnvIndices,
    VecEnvObs,
    VecEnvStepReturn,
)

from sas_agents.vec_env._infos import (
    EnvInfos,
    EpisodeMonitor,
    ended_infos,
    entries_of,
    infos_at,
)
from sas_gym import SASEnv, SASVectorEnv, Task
from sas_gym.masks import (
    MASK_KEY,
    check_masks,
    mask_sizes,
    masked_space,
    with_mask,
)


def make_vec_env(
    env_id: str | Callable[..., gym.Env[Any, Any]] | Task,
    n_envs: int = 1,
    seed: int | None = None,
    start_index: int = 0,
    monitor_dir: str | None = None,
    wrapper_class: Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]] | None = None,
    env_kwargs: dict[str, Any] | None = None,
    vec_env_cls: type[DummyVecEnv | SubprocVecEnv] | None = None,
    vec_env_kwargs: dict[str, Any] | None = None,
    monitor_kwargs: dict[str, Any] | None = None,
    wrapper_kwargs: dict[str, Any] | None = None,
) -> VecEnv:
    """Make copies of an environment in parallel, with episode statistics.

    The arguments are those of Stable-Baselines3's function of this name, to which the
    call goes unless the environment has a vector form of its own: a task of `sas_gym`
    has, and so has an id with a vector entry point that resets in the same step. That
    form steps all copies at once; it is used if none of `start_index`, `wrapper_class`,
    `vec_env_cls` and the last three arguments asks for single environments.

    Args:
        env_id: An id, a function that makes an environment, or a task of `sas_gym`.
        n_envs: Number of environments in parallel.
        seed: Seed of the first reset.
        start_index: Rank of the first environment, which names its monitor file and is
            added to the seed of its action space.
        monitor_dir: Directory for the episode statistics; made if it does not exist.
            By default they are not written.
        wrapper_class: Wrapper of each single environment.
        env_kwargs: Arguments of the environment.
        vec_env_cls: Class of the `VecEnv`, such as `SubprocVecEnv`.
        vec_env_kwargs: Its arguments.
        monitor_kwargs: Arguments of each environment's `Monitor`.
        wrapper_kwargs: Arguments of the wrapper.
    """
    env_kwargs = env_kwargs or {}
    asks_for_single = (
        start_index,
        wrapper_class,
        vec_env_cls,
        vec_env_kwargs,
        monitor_kwargs,
        wrapper_kwargs,
    )
    vector_env = None
    if not any(asks_for_single):
        vector_env = native_vector_env(env_id, n_envs, env_kwargs)
    if vector_env is None:
        single: Any = (
            partial(single_env, env_id) if isinstance(env_id, Task) else env_id
        )
        return sb3_make_vec_env(
            single,
            n_envs,
            seed,
            start_index,
            monitor_dir,
            wrapper_class,
            env_kwargs,
            vec_env_cls,
            vec_env_kwargs,
            monitor_kwargs,
            wrapper_kwargs,
        )
    venv = VectorEnvAdapter(vector_env)
    venv.seed(seed)
    if monitor_dir is not None:
        Path(monitor_dir).mkdir(parents=True, exist_ok=True)
    return EpisodeMonitor(venv, monitor_dir)


def native_vector_env(
    env_id: Any, n_envs: int, env_kwargs: dict[str, Any]
) -> VectorEnv[Any, Any, Any] | None:
    """Return a vector form that `VectorEnvAdapter` takes, `None` if there is none."""
    options = {"render_mode": "rgb_array"} | env_kwargs
    if isinstance(env_id, Task):
        return SASVectorEnv(env_id, n_envs, **options)
    if not isinstance(env_id, str) or not has_vector_form(env_id):
        return None
    vector_env = gym.make_vec(
        env_id, num_envs=n_envs, vectorization_mode="vector_entry_point", **options
    )
    if vector_env.metadata.get("autoreset_mode") is AutoresetMode.SAME_STEP:
        return vector_env
    vector_env.close()
    return None


def single_env(
    task: Task, max_episode_steps: int | None = None, **options: Any
) -> gym.Env[Any, Any]:
    """Make the single environment of a task, with the arguments of its vector form."""
    env = SASEnv(task, **{"render_mode": "rgb_array"} | options)
    return env if max_episode_steps is None else TimeLimit(env, max_episode_steps)


def has_vector_form(env_id: str) -> bool:
    """Return whether an id has one; the module of `"module:Id-v0"` is imported."""
    module, _, name = env_id.rpartition(":")
    if module:
        import_module(module)
    return gym.spec(name).vector_entry_point is not None


class VectorEnvAdapter(VecEnv):
    """A Gymnasium vector environment behind the interface of `VecEnv`.

    Args:
        vector_env: The vector environment; it must start an episode in the step that
            ends another, as Stable-Baselines3 expects (`AutoresetMode.SAME_STEP`).
    """

    def __init__(self, vector_env: VectorEnv[Any, Any, Any]) -> None:
        mode = vector_env.metadata.get("autoreset_mode")
        if mode is not AutoresetMode.SAME_STEP:
            raise ValueError(
                "expected a vector environment with AutoresetMode.SAME_STEP, got "
                f"{mode}: make it with autoreset_mode=AutoresetMode.SAME_STEP"
            )
        self.vector_env = vector_env
        # Others may write the next observations into the same arrays.
        self._returns_new_arrays = isinstance(vector_env.unwrapped, SASVectorEnv)
        self._actions: NDArray[Any] | None = None
        super().__init__(
            vector_env.num_envs,
            vector_env.single_observation_space,
            vector_env.single_action_space,
        )

    def reset(self) -> VecEnvObs:
        """Start an episode everywhere; seed and options are used for one reset."""
        options = self._options[0]
        if any(other != options for other in self._options):
            raise ValueError(
                "all environments are reset by one call: set_options() needs the same "
                "options for each"
            )
        observations, infos = self.vector_env.reset(
            seed=self._seeds[0], options=options or None
        )
        self._reset_seeds()
        self._reset_options()
        self.reset_infos = infos_at(infos, np.arange(self.num_envs), self.num_envs)
        return self._kept(observations)

    def step_async(self, actions: NDArray[Any]) -> None:
        """Remember the actions."""
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Take the step."""
        observations, rewards, terminated, truncated, infos = self.vector_env.step(
            self._actions
        )
        dones = terminated | truncated
        ended = dones.nonzero()[0]
        known: dict[int, dict[str, Any]] = {}
        cut: list[int] = []
        if ended.size:
            is_cut = ~terminated[ended]
            cut = ended[is_cut].tolist()
            for env, last, first in ended_infos(infos, ended, self.num_envs, is_cut):
                known[env], self.reset_infos[env] = last, first
        # Typed as a list by SB3, which only reads, sets and iterates over its entries.
        env_infos: Any = EnvInfos(infos, self.num_envs, known, cut)
        return self._kept(observations), rewards.astype(np.float32), dones, env_infos

    def _kept(self, observations: Any) -> VecEnvObs:
        """Return observations that the next step leaves as they are."""
        kept: VecEnvObs
        kept = observations if self._returns_new_arrays else deepcopy(observations)
        return kept

    def close(self) -> None:
        """Close the vector environment."""
        self.vector_env.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute, the same for every environment."""
        value = getattr(self.vector_env, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(
        self, attr_name: str, value: Any, indices: VecEnvIndices = None
    ) -> None:
        """Set an attribute, of all environments at once."""
        if len(list(self._get_indices(indices))) != self.num_envs:
            raise ValueError(
                f"all environments share the attribute {attr_name!r}: set it without "
                "indices"
            )
        setattr(self.vector_env, attr_name, value)

    def env_method(
        self,
        method_name: str,
        *method_args: Any,
        indices: VecEnvIndices = None,
        **method_kwargs: Any,
    ) -> list[Any]:
        """Call a method of the vector environment; return one result per index.

        What the method returns for all environments together, such as `None`, is the
        result of each.
        """
        results = getattr(self.vector_env, method_name)(*method_args, **method_kwargs)
        envs = np.array(list(self._get_indices(indices)), dtype=np.intp)
        return list(entries_of(results, envs, self.num_envs))

    def env_is_wrapped(
        self,
        wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]],
        indices: VecEnvIndices = None,
    ) -> list[bool]:
        """Return that no single environment is wrapped."""
        return [False for _ in self._get_indices(indices)]

    def get_images(self) -> list[NDArray[np.uint8] | None]:
        """Return one frame per environment."""
        frames: Any = self.vector_env.render()
        return list(frames)


class VecMaskInObservation(VecEnvWrapper):
    """Put the masks that a `VecEnv` provides elsewhere into its observations.

    They come from `info["action_mask"]` or from a method `action_masks()`. The method
    cannot provide the set of a final state, as the environment is reset by then: all
    actions are taken to be available there.

    Stable-Baselines3's `VecFrameStack` takes no masks: stack the frames below,
    `VecMaskInObservation(VecFrameStack(venv, n_stack))`, of environments made with
    `mask_in_observation=False`.

    Args:
        venv: The environments to wrap.
    """

    def __init__(self, venv: VecEnv) -> None:
        if unwrap_vec_normalize(venv) is not None:
            raise ValueError(
                "masks must be in the observations before these are normalised: write "
                "VecNormalize(VecMaskInObservation(venv), norm_obs_keys=[...])"
            )
        self._mask_sizes = mask_sizes(venv.action_space)
        space = masked_space(venv.observation_space, sum(self._mask_sizes))
        super().__init__(venv, space)

    def reset(self) -> VecEnvObs:
        """Reset every environment."""
        obs = self.venv.reset()
        return with_mask(obs, self._masks(self.unwrapped.reset_infos))

    def step_wait(self) -> VecEnvStepReturn:
        """Finish a step in every environment."""
        obs, rewards, dones, infos = self.venv.step_wait()
        for info in (infos[index] for index in np.flatnonzero(dones)):
            final_mask = check_masks(
                info.get(MASK_KEY, np.ones(sum(self._mask_sizes))),
                self._mask_sizes,
                f"info[{MASK_KEY!r}]",
                batch_shape=(),
                final=True,
            )
            info["terminal_observation"] = with_mask(
                info["terminal_observation"], final_mask
            )
        # Of wrappers and environment, only the latter keeps these up to date.
        resets = self.unwrapped.reset_infos
        current = [
            resets[index] if done else infos[index] for index, done in enumerate(dones)
        ]
        return with_mask(obs, self._masks(current)), rewards, dones, infos

    def _masks(self, infos: list[dict[str, Any]]) -> NDArray[np.bool_]:
        if all(MASK_KEY in info for info in infos):
            masks = [info[MASK_KEY] for info in infos]
        elif self.venv.has_attr("action_masks"):
            masks = self.venv.env_method("action_masks")
        else:
            raise ValueError(
                "the environment provides no action mask: put it into the observation "
                "(key 'action_mask'), return info['action_mask'] from reset and step, "
                "or write a method action_masks()"
            )
        return check_masks(
            np.stack(masks), self._mask_sizes, batch_shape=(self.num_envs,)
        )
