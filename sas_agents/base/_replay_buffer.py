"""The replay buffer of SASQ."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.buffers import DictReplayBuffer
from stable_baselines3.common.type_aliases import DictReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize


class FastDictReplayBuffer(DictReplayBuffer):
    """Stable-Baselines3's buffer, with the same samples in less than half of the time.

    Steps and environments are one axis, along which `take` is far faster than indexing
    by two arrays, and what it returns need not be copied again.
    """

    def _get_samples(  # type: ignore[override]  # as in SB3's buffer for dicts
        self, batch_inds: NDArray[Any], env: VecNormalize | None = None
    ) -> DictReplayBufferSamples:
        # The same draw as Stable-Baselines3's, from NumPy's global generator.
        env_indices = np.random.randint(0, high=self.n_envs, size=(len(batch_inds),))  # noqa: NPY002  # SB3 seeds this one
        rows = batch_inds * self.n_envs + env_indices

        def take(array: NDArray[Any]) -> NDArray[Any]:
            return array.reshape(-1, *array.shape[2:]).take(rows, axis=0)

        obs, next_obs = (
            self._normalize_obs({key: take(part) for key, part in parts.items()}, env)
            for parts in (self.observations, self.next_observations)
        )
        assert isinstance(obs, dict)
        assert isinstance(next_obs, dict)
        # A time limit does not end what follows.
        dones = take(self.dones) * (1 - take(self.timeouts))
        rewards = self._normalize_reward(take(self.rewards)[:, None], env)
        return DictReplayBufferSamples(
            observations={k: self.to_torch(v, copy=False) for k, v in obs.items()},
            actions=self.to_torch(take(self.actions), copy=False),
            next_observations={
                k: self.to_torch(v, copy=False) for k, v in next_obs.items()
            },
            dones=self.to_torch(dones[:, None], copy=False),
            rewards=self.to_torch(rewards, copy=False),
        )
