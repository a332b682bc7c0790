"""Put the mask of any environment into its observations."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import (
    VecEnv,
    VecEnvWrapper,
    unwrap_vec_normalize,
)
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from sas_gym import MaskInObservation, SASEnv
from sas_gym.masks import (
    MASK_KEY,
    check_masks,
    has_mask,
    mask_sizes,
    masked_space,
    no_mask_error,
    with_mask,
)


class VecMaskInObservation(VecEnvWrapper):
    """Put the masks that a `VecEnv` provides elsewhere into its observations.

    They come from `info["action_mask"]` or from a method `action_masks()`. The method
    cannot provide the set of a final state, as the environment is reset by then: all
    actions are taken to be available there.

    Stable-Baselines3's `VecFrameStack` takes no masks: stack the frames below the
    masks, `VecMaskInObservation(VecFrameStack(venv, n_stack))`, of environments made by
    `make_vec_env(..., mask_in_observation=False)`. A `VecNormalize` below the masks
    must leave the observations as they are (`norm_obs=False`).

    Args:
        venv: The environments to wrap.
    """

    def __init__(self, venv: VecEnv) -> None:
        self._rewards = unwrap_vec_normalize(venv)
        if self._rewards is not None and self._rewards.norm_obs:
            raise ValueError(
                "masks must be in the observations before these are normalised: write "
                "VecNormalize(VecMaskInObservation(venv), norm_obs_keys=[...])"
            )
        self._mask_sizes = mask_sizes(venv.action_space)
        space = masked_space(venv.observation_space, sum(self._mask_sizes))
        super().__init__(venv, space)

    def reset(self) -> VecEnvObs:
        """Reset every environment."""
        return self._masked(self.venv.reset(), self.unwrapped.reset_infos)

    def step_wait(self) -> VecEnvStepReturn:
        """Finish a step in every environment."""
        obs, rewards, dones, infos = self.venv.step_wait()
        for info in (infos[index] for index in np.flatnonzero(dones)):
            last = info["terminal_observation"]
            final_mask = check_masks(
                _carried(last, info.get(MASK_KEY, np.ones(sum(self._mask_sizes)))),
                self._mask_sizes,
                f"info[{MASK_KEY!r}]",
                batch_shape=(),
                final=True,
            )
            info["terminal_observation"] = with_mask(last, final_mask)
        # Of wrappers and environment, only the latter keeps these up to date.
        resets = self.unwrapped.reset_infos
        current = [
            resets[index] if done else infos[index] for index, done in enumerate(dones)
        ]
        return self._masked(obs, current), rewards, dones, infos

    def _masked(self, obs: VecEnvObs, infos: list[dict[str, Any]]) -> VecEnvObs:
        """Return observations with the current masks beside them."""
        masks = check_masks(
            self._provided(obs, infos), self._mask_sizes, batch_shape=(self.num_envs,)
        )
        masked = with_mask(obs, masks)
        if self._rewards is not None:
            # Replay buffers store the observations that VecNormalize remembers.
            self._rewards.old_obs = masked
        return masked

    def _provided(self, obs: VecEnvObs, infos: list[dict[str, Any]]) -> NDArray[Any]:
        """Return the current masks from the place that has them."""
        if isinstance(obs, dict) and MASK_KEY in obs:
            return obs[MASK_KEY]
        if all(MASK_KEY in info for info in infos):
            return np.stack([info[MASK_KEY] for info in infos])
        if self.venv.has_attr("action_masks"):
            return np.stack(self.venv.env_method("action_masks"))
        raise no_mask_error("the environment")


def _carried(obs: Any, otherwise: Any) -> Any:
    """Return the mask that an observation carries, or another one."""
    return obs.get(MASK_KEY, otherwise) if isinstance(obs, dict) else otherwise


class CheckedMask(gym.Wrapper[Any, Any, Any, Any]):
    """Check the masks in a single environment's observations before they are cast.

    Stable-Baselines3 copies observations into arrays of the space's type, which turn
    0.5, NaN and 256 into 0. Whether a mask is empty is checked afterwards.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._sizes = mask_sizes(env.action_space)
        self._num_steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._check(obs, "at reset()")
        return obs, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._num_steps += 1
        self._check(obs, f"at step {self._num_steps}")
        return obs, reward, terminated, truncated, info

    def _check(self, obs: Any, when: str) -> None:
        source = f"observation[{MASK_KEY!r}] {when}"
        check_masks(obs[MASK_KEY], self._sizes, source, batch_shape=(), final=True)


def single_with_mask(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """Return an environment whose observations carry a checked mask.

    An environment with infinitely many actions has no mask and stays as it is.
    """
    if not has_finite_actions(env):
        return env
    if not has_mask(env.observation_space):
        return MaskInObservation(env)
    if isinstance(env.unwrapped, SASEnv):  # its masks are right
        return env
    return CheckedMask(env)


def vec_with_mask(venv: VecEnv) -> VecEnv:
    """Return environments whose observations carry the masks.

    Environments with infinitely many actions have no masks and stay as they are.
    """
    if not has_finite_actions(venv) or has_mask(venv.observation_space):
        return venv
    return VecMaskInObservation(venv)


def has_finite_actions(env: gym.Env[Any, Any] | VecEnv) -> bool:
    """Return whether an environment has finitely many actions."""
    finite = spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary
    return isinstance(env.action_space, finite)
