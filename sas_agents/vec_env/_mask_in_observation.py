"""Put the mask of any environment into its observations."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from numpy.typing import NDArray
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import (
    VecEnv,
    VecEnvWrapper,
    unwrap_vec_normalize,
)
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from sas_gym import MaskInObservation, SASEnv
from sas_gym._mask_source import (
    METHOD,
    MaskName,
    mask_like_keys,
    no_mask_error,
)
from sas_gym._wrappers import MaskWrapper
from sas_gym.checking._spaces import check_not_nested
from sas_gym.masks import (
    MASK_KEY,
    check_masks,
    has_mask,
    mask_sizes,
    masked_space,
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
    must not change the observations (`norm_obs=False`).

    Args:
        venv: The environments to wrap.
        mask: Where the masks are, if in another place: another key of the observations
            (which is replaced) or of the infos, or the name of another method.
    """

    def __init__(self, venv: VecEnv, *, mask: str | None = None) -> None:
        self._key, self._method = mask or MASK_KEY, mask or METHOD
        self._rewards = unwrap_vec_normalize(venv)
        if self._rewards is not None and self._rewards.norm_obs:
            raise ValueError(
                "masks must be in the observations before these are normalised: write "
                "VecNormalize(VecMaskInObservation(venv), "
                f"norm_obs_keys={_box_keys(venv.observation_space)})"
            )
        self._mask_sizes = mask_sizes(venv.action_space)
        space = venv.observation_space
        if isinstance(space, spaces.Dict):
            space = spaces.Dict(self._bare(space.spaces))
        super().__init__(venv, masked_space(space, sum(self._mask_sizes)))

    def reset(self) -> VecEnvObs:
        """Reset every environment."""
        return self._masked(self.venv.reset(), self.unwrapped.reset_infos)

    def step_wait(self) -> VecEnvStepReturn:
        """Finish a step in every environment."""
        obs, rewards, dones, infos = self.venv.step_wait()
        for info in (infos[index] for index in np.flatnonzero(dones)):
            last = info["terminal_observation"]
            given = _entry(last, self._key, info.get(self._key))
            final_mask = check_masks(
                np.ones(sum(self._mask_sizes)) if given is None else given,
                self._mask_sizes,
                f"the mask {self._key!r} of a final state",
                batch_shape=(),
                final=True,
            )
            info["terminal_observation"] = with_mask(self._bare(last), final_mask)
        # Only the environment keeps these up to date, no wrapper does.
        resets = self.unwrapped.reset_infos
        current = [
            resets[index] if done else infos[index] for index, done in enumerate(dones)
        ]
        return self._masked(obs, current), rewards, dones, infos

    def _masked(self, obs: VecEnvObs, infos: list[dict[str, Any]]) -> VecEnvObs:
        """Return observations with the current masks."""
        masks = check_masks(
            self._provided(obs, infos), self._mask_sizes, batch_shape=(self.num_envs,)
        )
        masked = with_mask(self._bare(obs), masks)
        if self._rewards is not None:
            # Replay buffers store the observations that VecNormalize remembers.
            self._rewards.old_obs = masked
        return masked

    def _provided(self, obs: VecEnvObs, infos: list[dict[str, Any]]) -> NDArray[Any]:
        """Return the current masks from the place that has them."""
        carried: NDArray[Any] | None = _entry(obs, self._key)
        if carried is not None:
            return carried
        if all(self._key in info for info in infos):
            return np.stack([info[self._key] for info in infos])
        if self.venv.has_attr(self._method):
            return np.stack(self.venv.env_method(self._method))
        raise no_mask_error("the VecEnv", sorted(mask_like_keys(obs, infos[0])))

    def _bare(self, obs: Any) -> Any:
        """Return observations without the masks that they carry."""
        if not isinstance(obs, dict):
            return obs
        return {key: value for key, value in obs.items() if key != self._key}


def _entry(obs: Any, key: str, otherwise: Any = None) -> Any:
    """Return an entry of an observation that may have no keys."""
    return obs.get(key, otherwise) if isinstance(obs, dict) else otherwise


def _box_keys(space: gym.Space[Any]) -> list[str]:
    """Return the keys that a normaliser can be given, once the mask is there."""
    if not isinstance(space, spaces.Dict):
        return ["observation"]
    return [key for key in space if isinstance(space[key], spaces.Box)]


def single_with_mask(
    env: gym.Env[Any, Any], mask: MaskName | None = None
) -> gym.Env[Any, Any]:
    """Return an environment whose observations carry a checked mask.

    Stable-Baselines3 copies observations into arrays of the space's type, which turn
    0.5, NaN and 256 into 0: so the masks in observations are checked, too. An
    environment with infinitely many actions has no mask and is returned unchanged.

    Args:
        env: The environment.
        mask: Where its mask is, if in an unusual place; see `MaskInObservation`.
    """
    if not has_finite_actions(env) or (mask is None and _is_checked(env)):
        return env
    check_not_nested(env.observation_space)
    return MaskInObservation(env, mask=mask)


def _is_checked(env: gym.Env[Any, Any]) -> bool:
    """Return whether the masks in an environment's observations are right."""
    space: Any = env.observation_space
    if not has_mask(space) or not isinstance(space[MASK_KEY], spaces.MultiBinary):
        return False
    while isinstance(env, Monitor | OrderEnforcing | PassiveEnvChecker | TimeLimit):
        env = env.env
    return isinstance(env, MaskWrapper | SASEnv)


def vec_with_mask(venv: VecEnv) -> VecEnv:
    """Return environments whose observations carry the masks.

    Environments with infinitely many actions have no masks and are returned unchanged.
    """
    if not has_finite_actions(venv) or has_mask(venv.observation_space):
        return venv
    return VecMaskInObservation(venv)


def has_finite_actions(env: gym.Env[Any, Any] | VecEnv) -> bool:
    """Return whether an environment has finitely many actions."""
    finite = spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary
    return isinstance(env.action_space, finite)
