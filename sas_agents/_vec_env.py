"""A Gymnasium vector environment as a `VecEnv` of Stable-Baselines3."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray
from stable_baselines3.common.env_util import make_vec_env as sb3_make_vec_env
from stable_baselines3.common.vec_env import VecEnv, VecMonitor
from stable_baselines3.common.vec_env.base_vec_env import (
    VecEnvIndices,
    VecEnvObs,
    VecEnvStepReturn,
)

from sas_gym import SASVectorEnv, Task


def make_vec_env(
    env_id: str | Callable[..., gym.Env[Any, Any]] | Task,
    n_envs: int = 1,
    seed: int | None = None,
    env_kwargs: dict[str, Any] | None = None,
    monitor_dir: str | None = None,
    **kwargs: Any,
) -> VecEnv:
    """Make many lanes of an environment, with episode statistics.

    A task, or an id whose native vector form `VectorEnvAdapter` takes, is made in it.
    Anything else, and anything with further arguments, goes to Stable-Baselines3's
    function of this name.

    Args:
        env_id: An id, a function that makes an environment, or a task of `sas_gym`.
        n_envs: Number of lanes.
        seed: Seed of the first reset.
        env_kwargs: Arguments of the environment.
        monitor_dir: Where to write the episode statistics.
        **kwargs: As for `stable_baselines3.common.env_util.make_vec_env`.
    """
    env_kwargs = env_kwargs or {}
    lanes = None if kwargs else native_vector_env(env_id, n_envs, env_kwargs)
    if lanes is None:
        not_native: Any = env_id
        return sb3_make_vec_env(
            not_native,
            n_envs,
            seed,
            env_kwargs=env_kwargs,
            monitor_dir=monitor_dir,
            **kwargs,
        )
    venv = VectorEnvAdapter(lanes)
    venv.seed(seed)
    if monitor_dir is not None:
        Path(monitor_dir).mkdir(parents=True, exist_ok=True)
    return VecMonitor(venv, monitor_dir)


def native_vector_env(
    env_id: Any, n_envs: int, env_kwargs: dict[str, Any]
) -> VectorEnv[Any, Any, Any] | None:
    """Return the vector form that `VectorEnvAdapter` takes, or `None` if there is none."""
    options = {"render_mode": "rgb_array"} | env_kwargs
    if isinstance(env_id, Task):
        return SASVectorEnv(env_id, n_envs, **options)
    if not isinstance(env_id, str) or not has_vector_form(env_id):
        return None
    lanes = gym.make_vec(
        env_id, num_envs=n_envs, vectorization_mode="vector_entry_point", **options
    )
    if lanes.metadata.get("autoreset_mode") is AutoresetMode.SAME_STEP:
        return lanes
    lanes.close()
    return None


class VectorEnvAdapter(VecEnv):
    """A Gymnasium vector environment behind the interface of `VecEnv`.

    Args:
        lanes: The environment; it must begin an episode in the step that ends another,
            as Stable-Baselines3 expects (`AutoresetMode.SAME_STEP`).
    """

    def __init__(self, lanes: VectorEnv[Any, Any, Any]) -> None:
        mode = lanes.metadata.get("autoreset_mode")
        if mode is not AutoresetMode.SAME_STEP:
            raise ValueError(
                f"expected an environment with AutoresetMode.SAME_STEP, got {mode}"
            )
        self.lanes = lanes
        self._actions: NDArray[Any] | None = None
        super().__init__(
            lanes.num_envs, lanes.single_observation_space, lanes.single_action_space
        )

    def reset(self) -> VecEnvObs:
        """Begin an episode in every lane; a seed that was given counts once."""
        observations: VecEnvObs
        observations, infos = self.lanes.reset(seed=self._seeds[0])
        self._reset_seeds()
        self.reset_infos = split_infos(infos, self.num_envs)
        return observations

    def step_async(self, actions: NDArray[Any]) -> None:
        """Remember the actions."""
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Take the step."""
        observations, rewards, terminated, truncated, infos = self.lanes.step(
            self._actions
        )
        dones = terminated | truncated
        lane_infos = split_infos(infos, self.num_envs)
        for lane in np.flatnonzero(dones):
            # What is told of such a lane is the first of the episode that begins.
            self.reset_infos[lane] = first = lane_infos[lane]
            last = {"terminal_observation": first.pop("final_obs")}
            lane_infos[lane] = last | first.pop("final_info", {})
        cut = (truncated & ~terminated).tolist()
        for info, is_cut in zip(lane_infos, cut, strict=True):
            info["TimeLimit.truncated"] = is_cut
        return observations, rewards.astype(np.float32), dones, lane_infos

    def close(self) -> None:
        """Close the environment."""
        self.lanes.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute, the same for every lane."""
        value = getattr(self.lanes, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(
        self, attr_name: str, value: Any, indices: VecEnvIndices = None
    ) -> None:
        """Set an attribute, for all lanes at once."""
        if len(list(self._get_indices(indices))) != self.num_envs:
            raise ValueError(
                f"{attr_name} is one for all lanes: set it without indices"
            )
        setattr(self.lanes, attr_name, value)

    def env_method(
        self,
        method_name: str,
        *method_args: Any,
        indices: VecEnvIndices = None,
        **method_kwargs: Any,
    ) -> list[Any]:
        """Call a method of all lanes at once; return each lane's part of the answer."""
        answers = getattr(self.lanes, method_name)(*method_args, **method_kwargs)
        return [answers[lane] for lane in self._get_indices(indices)]

    def env_is_wrapped(
        self,
        wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]],
        indices: VecEnvIndices = None,
    ) -> list[bool]:
        """Return that no lane is wrapped by itself."""
        return [False for _ in self._get_indices(indices)]

    def get_images(self) -> list[NDArray[np.uint8] | None]:
        """Return a frame of each lane."""
        frames: Any = self.lanes.render()
        return list(frames)


def has_vector_form(env_id: str) -> bool:
    """Return whether an id has one; the module of `"module:Id-v0"` is imported."""
    module, _, name = env_id.rpartition(":")
    if module:
        import_module(module)
    return gym.spec(name).vector_entry_point is not None


def split_infos(infos: dict[str, Any], num_envs: int) -> list[dict[str, Any]]:
    """Cut the infos of a vector environment into one a lane, of what is told there."""
    lanes: list[dict[str, Any]] = [{} for _ in range(num_envs)]
    for key, values in infos.items():
        if key.startswith("_"):
            continue
        parts = split_infos(values, num_envs) if isinstance(values, dict) else values
        told = infos[f"_{key}"].tolist()
        for info, part, is_told in zip(lanes, parts, told, strict=True):
            if is_told:
                info[key] = part
    return lanes
