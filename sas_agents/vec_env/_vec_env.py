"""Environments as Stable-Baselines3's `VecEnv`, with the masks in the observations."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.wrappers import TimeLimit
from numpy.typing import NDArray
from stable_baselines3.common.env_util import make_vec_env as sb3_make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv
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
from sas_agents.vec_env._mask_in_observation import single_with_mask, vec_with_mask
from sas_gym import SASEnv, SASVectorEnv, Task
from sas_gym._mask_source import MaskName


def make_vec_env(
    env_id: str | Callable[..., gym.Env[Any, Any]] | Task | gym.Env[Any, Any],
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
    mask_in_observation: bool = True,
    mask: MaskName | None = None,
) -> VecEnv:
    """Make copies of an environment in parallel, with episode statistics.

    The observations carry the action mask, wherever the environment has it: in the
    observation, in the info or in a method `action_masks()`. So agents, callbacks,
    `evaluate_policy` and `VecNormalize` take the environments without a wrapper.

    All arguments but the last two are arguments of Stable-Baselines3's function of the
    same name, which makes the environments unless they have a vector form: a task of
    `sas_gym` has one, and so has an id with a vector entry point that resets in the
    same step.
    The vector form steps all copies at once. It is used unless `start_index`,
    `wrapper_class`, `vec_env_cls`, `mask` or one of the three other `_kwargs` asks for
    single environments.

    Args:
        env_id: An id, a function that makes an environment, or a task of `sas_gym`; for
            one environment in all also the environment itself.
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
        mask_in_observation: Whether to bring the mask into the observation. `False` is
            for agents that take no masks, or find them elsewhere: observations are as
            the environment makes them, and the ids and tasks of `sas_gym` leave the
            mask out. The same argument in `env_kwargs` says it, too.
        mask: Where the environment has its mask, if in another place: another key, the
            name of another method, or a function of the environment; see
            `sas_gym.MaskInObservation`.
    """
    env_kwargs = env_kwargs or {}
    env_id = maker_of(env_id, n_envs)
    in_observation = env_kwargs.get("mask_in_observation", mask_in_observation)
    if not in_observation and takes_argument(env_id, "mask_in_observation"):
        env_kwargs = {**env_kwargs, "mask_in_observation": False}
    asks_for_single = (
        start_index,
        wrapper_class,
        vec_env_cls,
        vec_env_kwargs,
        monitor_kwargs,
        wrapper_kwargs,
        mask,
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
            partial(masked, mask, wrapper_class) if in_observation else wrapper_class,
            env_kwargs,
            vec_env_cls,
            vec_env_kwargs,
            monitor_kwargs,
            wrapper_kwargs,
        )
    venv: VecEnv = VectorEnvAdapter(vector_env)
    venv.seed(seed)
    if in_observation:
        venv = vec_with_mask(venv)
    if monitor_dir is not None:
        Path(monitor_dir).mkdir(parents=True, exist_ok=True)
    return EpisodeMonitor(venv, monitor_dir)


def maker_of(env_id: Any, n_envs: int) -> Any:
    """Return a function that makes environments, an id or a task."""
    if isinstance(env_id, VecEnv | VectorEnv):
        raise ValueError(
            f"{env_id} is many environments already: pass a VecEnv to the agent as it "
            "is, a vector environment as sas_agents.VectorEnvAdapter(env)"
        )
    if not isinstance(env_id, gym.Env):
        return env_id
    if n_envs > 1:
        name = type(env_id.unwrapped).__name__
        raise ValueError(
            f"{env_id} is one environment, and n_envs is {n_envs}: pass a function "
            f"that makes it, make_vec_env(lambda: {name}(...), n_envs={n_envs})"
        )
    return lambda: env_id


def masked(
    mask: MaskName | None,
    wrapper_class: Callable[..., gym.Env[Any, Any]] | None,
    env: gym.Env[Any, Any],
    **wrapper_kwargs: Any,
) -> gym.Env[Any, Any]:
    """Wrap a single environment, and bring its mask into the observation."""
    if wrapper_class is not None:
        env = wrapper_class(env, **wrapper_kwargs)
    return single_with_mask(env, mask)


def takes_argument(env_id: Any, name: str) -> bool:
    """Return whether the maker of an environment names an argument."""
    maker: Any = SASEnv if isinstance(env_id, Task) else env_id
    if isinstance(maker, str):
        maker = spec_of(maker).entry_point
    if isinstance(maker, str):
        maker = load_env_creator(maker)
    return name in signature(maker).parameters


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
    """Return whether an id has a vector form."""
    return spec_of(env_id).vector_entry_point is not None


def spec_of(env_id: str) -> EnvSpec:
    """Return the spec of an id; the module of `"module:Id-v0"` is imported."""
    module, _, name = env_id.rpartition(":")
    if module:
        import_module(module)
    return gym.spec(name)


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
        if ended.size:
            is_cut = ~terminated[ended]
            for env, last, first in ended_infos(infos, ended, self.num_envs, is_cut):
                known[env], self.reset_infos[env] = last, first
        # Typed as a list by SB3, which only reads, sets and iterates over its entries.
        env_infos: Any = EnvInfos(infos, self.num_envs, known)
        return self._kept(observations), rewards.astype(np.float32), dones, env_infos

    def _kept(self, observations: Any) -> VecEnvObs:
        """Return observations that the next step does not change."""
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
