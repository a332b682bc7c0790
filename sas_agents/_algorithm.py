"""The base class of all agents: masks in, actions inside the action sets out."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecEnv

from sas_agents._features import has_mask
from sas_agents._vec_env import VecMaskInObservation
from sas_agents._vec_infos import EnvInfos
from sas_gym import MaskInObservation
from sas_gym.masks import MASK_KEY, check_masks, mask_sizes, with_mask


class MaskedAlgorithm(BaseAlgorithm):
    """An algorithm that sees the masks of any environment, and acts inside them."""

    def policy_class_of(self, policy: str | type[BasePolicy]) -> type[Any]:
        """Return a policy's class, which the base class should be given.

        Stable-Baselines3 takes the names `"MlpPolicy"` and `"CnnPolicy"` for a mistake
        on dict observations, which all of ours are.
        """
        return self._get_policy_from_name(policy) if isinstance(policy, str) else policy

    def _setup_model(self) -> None:
        super()._setup_model()  # type: ignore[safe-super]  # SB3's, by the subclass
        if self.verbose >= 1:
            features = self.policy.features_extractor_class.__name__
            print(f"Features of the state: {features}")

    @staticmethod
    def _wrap_env(
        env: gym.Env[Any, Any] | VecEnv, verbose: int = 0, monitor_wrapper: bool = True
    ) -> VecEnv:
        """Wrap as Stable-Baselines3 does, and put the masks into the observations."""
        # SB3 and the policies reject other action spaces, with messages of their own.
        finite = spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary
        wrap = isinstance(env.action_space, finite) and not has_mask(
            env.observation_space
        )
        if wrap and not isinstance(env, VecEnv):
            env = MaskInObservation(env)
        vec_env = BaseAlgorithm._wrap_env(env, verbose, monitor_wrapper)
        if wrap and not has_mask(vec_env.observation_space):
            return VecMaskInObservation(vec_env)
        return vec_env

    def _update_info_buffer(
        self, infos: Sequence[dict[str, Any]], dones: NDArray[Any] | None = None
    ) -> None:
        """Keep the statistics of episodes; of ours, read the infos of ended ones."""
        if isinstance(infos, EnvInfos) and dones is not None:
            infos, dones = [infos[env] for env in np.flatnonzero(dones)], dones[dones]
        super()._update_info_buffer(list(infos), dones)

    def predict(
        self,
        observation: Any,
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[Any] | None = None,
        deterministic: bool = False,
        action_masks: NDArray[Any] | None = None,
    ) -> tuple[NDArray[Any], tuple[NDArray[Any], ...] | None]:
        """Choose actions inside the action sets.

        Args:
            observation: One observation, or a batch of them.
            state: Hidden states of a recurrent policy; others do not use it.
            episode_start: Whether each observation starts an episode; likewise.
            deterministic: Whether to take the best action instead of drawing one.
            action_masks: The mask of each observation; replaces one that it carries.

        Returns:
            The action of each observation, and the new `state`.
        """
        sizes = mask_sizes(self.action_space)
        masked = require_mask(observation, action_masks, sizes)
        return self._choose(masked, state, episode_start, deterministic)

    def _choose(
        self,
        masked: dict[str, NDArray[Any]],
        state: tuple[NDArray[Any], ...] | None,
        episode_start: NDArray[Any] | None,
        deterministic: bool,
    ) -> tuple[NDArray[Any], tuple[NDArray[Any], ...] | None]:
        """Choose actions for observations that carry their masks."""
        return super().predict(masked, state, episode_start, deterministic)


def require_mask(
    observation: Any, action_masks: NDArray[Any] | None, sizes: list[int]
) -> dict[str, NDArray[Any]]:
    """Return an observation that carries its mask, or say what is missing."""
    if action_masks is not None:
        masks = check_masks(action_masks, sizes, "action_masks")
        return with_mask(observation, masks)
    if not isinstance(observation, dict) or MASK_KEY not in observation:
        raise ValueError(
            "predict() needs the action mask: pass observations that carry it (wrap "
            "the environment in sas_gym.MaskInObservation, or a VecEnv in "
            "sas_agents.VecMaskInObservation), or pass action_masks=..."
        )
    check_masks(observation[MASK_KEY], sizes, f"observation[{MASK_KEY!r}]")
    return observation
