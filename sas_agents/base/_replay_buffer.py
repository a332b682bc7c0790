"""The replay buffer of SASQ."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.buffers import DictReplayBuffer
from stable_baselines3.common.type_aliases import DictReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize

from sas_agents._fast import take_steps


class FastDictReplayBuffer(DictReplayBuffer):
    """Stable-Baselines3's buffer: the same samples, taken faster and copied once."""

    def _get_samples(  # type: ignore[override]  # as in SB3's buffer for dicts
        self, batch_inds: NDArray[Any], env: VecNormalize | None = None
    ) -> DictReplayBufferSamples:
        # The same draw as Stable-Baselines3's, from NumPy's global generator.
        env_indices = np.random.randint(0, high=self.n_envs, size=(len(batch_inds),))  # noqa: NPY002  # SB3 seeds this one

        def take(array: NDArray[Any]) -> NDArray[Any]:
            return take_steps(array, batch_inds, env_indices)

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
