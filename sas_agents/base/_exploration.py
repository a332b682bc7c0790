"""Epsilon-greedy exploration inside the action set."""

from collections.abc import Sequence
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.utils import obs_as_tensor

from sas_agents.base._algorithm import MaskedAlgorithm
from sas_agents.base._replay_buffer import FastDictReplayBuffer
from sas_agents.base._saving import whole_file, with_suffix
from sas_agents.models._features import ArrayObs
from sas_agents.vec_env._infos import EnvInfos
from sas_gym.masks import MASK_KEY, sample_actions

# Replay buffers that read nothing else of the infos.
_BUFFERS = (DictReplayBuffer, FastDictReplayBuffer)
_GOES_ON: dict[str, Any] = {"TimeLimit.truncated": False}


class MaskedExploration(MaskedAlgorithm, OffPolicyAlgorithm):
    """An algorithm that explores epsilon-greedily among the available actions.

    Stable-Baselines3 draws from the whole action space in two places: in the warm-up,
    and with the probability epsilon afterwards.
    """

    exploration_rate: float
    _last_obs: Any

    def _choose(
        self,
        masked: dict[str, NDArray[Any]],
        state: tuple[NDArray[Any], ...] | None,
        episode_start: NDArray[Any] | None,
        deterministic: bool,
    ) -> tuple[NDArray[Any], tuple[NDArray[Any], ...] | None]:
        """Choose greedily, or epsilon-greedily while learning.

        Each environment decides for itself whether it explores.
        """
        actions, state = self.policy.predict(masked, state, episode_start)
        if deterministic or self.exploration_rate == 0:
            return actions, state
        masks = np.atleast_2d(masked[MASK_KEY])
        rng = self.prediction_rng
        explores = rng.random(len(masks)) < self.exploration_rate
        explored = np.where(explores, sample_actions(masks, rng), actions)
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
        explores = self._explores(len(masks), 1.0 if warm_up else self.exploration_rate)
        actions = self._random_actions(masks)
        if not explores.all():
            greedy = self._greedy_actions(self._last_obs)
            actions = np.where(explores, actions, greedy)
        return actions, actions

    @th.no_grad()
    def _greedy_actions(self, obs: ArrayObs) -> NDArray[np.intp]:
        tensors: Any = obs_as_tensor(obs, self.device)
        actions: NDArray[np.intp] = self.policy._predict(tensors).cpu().numpy()
        return actions

    def _store_transition(
        self,
        replay_buffer: ReplayBuffer,
        buffer_action: NDArray[Any],
        new_obs: NDArray[Any] | dict[str, NDArray[Any]],
        reward: NDArray[Any],
        dones: NDArray[Any],
        infos: Sequence[dict[str, Any]],
    ) -> None:
        """Store a step of every environment."""
        if type(replay_buffer) in _BUFFERS and isinstance(infos, EnvInfos):
            # It asks each info for the time limit: a fifth of the training's time would
            # go into making the infos of episodes that go on.
            infos = [infos[i] if done else _GOES_ON for i, done in enumerate(dones)]
        super()._store_transition(
            replay_buffer, buffer_action, new_obs, reward, dones, list(infos)
        )

    def dump_logs(self) -> None:
        """Write the log, if there is anything that it is written to.

        For short episodes the means over the last ones would take a tenth of the time.
        """
        if self.logger.output_formats:
            super().dump_logs()
        else:
            self.logger.dump(self.num_timesteps)

    def save_replay_buffer(self, path: str | Path | BufferedIOBase) -> None:
        """Save the replay buffer, whole or not at all, as `save` does.

        Args:
            path: Where to; `.pkl` is added to a name without a suffix.
        """
        if isinstance(path, BufferedIOBase):
            super().save_replay_buffer(path)
            return
        with whole_file(with_suffix(path, "pkl")) as file:
            super().save_replay_buffer(file)

    def _excluded_save_params(self) -> list[str]:
        """Leave out the default replay buffer's class, which `load` chooses again."""
        is_default = self.replay_buffer_class is FastDictReplayBuffer
        return super()._excluded_save_params() + ["replay_buffer_class"] * is_default

    def _explores(self, num_envs: int, probability: float) -> NDArray[np.bool_]:
        """Draw which environments take a random action."""
        return self.action_space.np_random.random(num_envs) < probability

    def _random_actions(self, masks: NDArray[Any]) -> NDArray[np.intp]:
        return sample_actions(masks, self.action_space.np_random)
