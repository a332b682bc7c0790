"""Epsilon-greedy exploration inside the action set."""

from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.utils import obs_as_tensor

from sas_agents._masking import MaskedAlgorithm
from sas_gym.masks import MASK_KEY, sample_actions


class MaskedExploration(MaskedAlgorithm, OffPolicyAlgorithm):
    """Explores epsilon-greedily among the available actions.

    Stable-Baselines3 draws from the whole action space in two places, the warm-up and
    epsilon's share of the steps, and draws one coin for all environments; here each
    environment has its own.
    """

    exploration_rate: float
    _last_obs: Any

    def _choose(
        self,
        masked: dict[str, NDArray[Any]],
        state: Any,
        episode_start: Any,
        deterministic: bool,
    ) -> tuple[Any, Any]:
        """Choose greedily, or epsilon-greedily while learning."""
        actions, state = self.policy.predict(masked, state, episode_start)
        if deterministic or self.exploration_rate == 0:
            return actions, state
        masks = np.atleast_2d(masked[MASK_KEY])
        explores = self._coins(len(masks), self.exploration_rate)
        explored = np.where(explores, self._random_actions(masks), actions)
        return explored.reshape(actions.shape), state

    def _sample_action(
        self,
        learning_starts: int,
        action_noise: ActionNoise | None = None,
        n_envs: int = 1,
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Explore: in the warm-up at random, afterwards epsilon-greedily."""
        masks = self._last_obs[MASK_KEY]
        warm_up = self.num_timesteps < learning_starts
        explores = self._coins(len(masks), 1.0 if warm_up else self.exploration_rate)
        actions = self._random_actions(masks)
        if not explores.all():
            with th.no_grad():
                greedy = self.policy._predict(
                    obs_as_tensor(self._last_obs, self.device), deterministic=True
                )
            actions = np.where(explores, actions, greedy.cpu().numpy())
        return actions, actions

    def _coins(self, number: int, chance: float) -> NDArray[np.bool_]:
        return self.action_space.np_random.random(number) < chance

    def _random_actions(self, masks: NDArray[Any]) -> NDArray[np.intp]:
        return sample_actions(masks, self.action_space.np_random)
