"""Whole episodes of the current policy, as a batch."""

from typing import Any, NamedTuple

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.utils import obs_as_tensor

from sas_agents._masking import TensorObs

Arrays = dict[str, NDArray[Any]]


class Episodes(NamedTuple):
    """Every step of some whole episodes, B in all."""

    observations: TensorObs
    actions: th.Tensor
    """Actions taken, [B]."""
    returns: th.Tensor
    """Discounted sum of the rewards from each step to its episode's end, [B]."""
    num_episodes: int


class EpisodeBuffer(BaseBuffer):
    """Collects, in every lane, the episodes that begin in the first `n_steps` steps.

    A rollout starts all lanes anew and goes on until each of these episodes has ended.
    What a lane plays after that does not count. So whether an episode counts is settled
    before it is played, and the sum over those that do has, by Wald's identity, the
    expected number of episodes times the expectation of one: it favours neither short
    episodes nor long ones, and no episode is cut.

    The arguments are those of Stable-Baselines3's rollout buffers.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        device: th.device | str = "auto",
        gamma: float = 0.99,
        gae_lambda: float = 1.0,
        n_envs: int = 1,
    ) -> None:
        super().__init__(buffer_size, observation_space, action_space, device, n_envs)
        self.gamma = gamma
        self.reset()

    def reset(self) -> None:
        """Forget everything; all lanes begin an episode."""
        self._observations: list[Arrays] = []
        self._actions: list[NDArray[np.int64]] = []
        self._rewards: list[NDArray[np.floating[Any]]] = []
        self._dones: list[NDArray[np.bool_]] = []
        self._counts: list[NDArray[np.bool_]] = []
        self._counting = np.ones(self.n_envs, dtype=bool)

    @property
    def is_complete(self) -> bool:
        """Whether every episode that counts has ended."""
        return not self._counting.any()

    def add(
        self,
        observation: Arrays,
        action: NDArray[np.int64],
        reward: NDArray[np.floating[Any]],
        done: NDArray[np.bool_],
    ) -> None:
        """Add one step of every lane.

        Args:
            observation: What was observed, each [N, ...].
            action: The actions taken, [N].
            reward: Their rewards, [N].
            done: Which episodes have ended, [N].
        """
        self._observations.append(observation)
        self._actions.append(action)
        self._rewards.append(reward)
        self._dones.append(done)
        self._counts.append(self._counting)
        if len(self._dones) >= self.buffer_size:
            self._counting = self._counting & ~done

    def episodes(self) -> Episodes:
        """Return all steps of the episodes that count."""
        counts = np.stack(self._counts)
        dones = np.stack(self._dones)
        returns = discounted_returns(np.stack(self._rewards), dones, self.gamma)
        arrays = {
            key: np.stack([step[key] for step in self._observations])[counts]
            for key in self._observations[0]
        }
        observations: TensorObs = obs_as_tensor(arrays, self.device)
        return Episodes(
            observations,
            self.to_torch(np.stack(self._actions)[counts]),
            self.to_torch(returns[counts].astype(np.float32)),
            int(dones[counts].sum()),
        )

    def _get_samples(self, batch_inds: NDArray[Any], env: Any = None) -> Any:
        raise NotImplementedError("episodes are taken whole: use `episodes()`")


def discounted_returns(
    rewards: NDArray[np.floating[Any]], dones: NDArray[np.bool_], gamma: float
) -> NDArray[np.float64]:
    """Sum the rewards to come, up to the end of the episode, all [T, N]."""
    returns = np.zeros(rewards.shape)
    following = np.zeros(rewards.shape[1])
    for t in reversed(range(len(rewards))):
        following = rewards[t] + gamma * following * ~dones[t]
        returns[t] = following
    return returns
