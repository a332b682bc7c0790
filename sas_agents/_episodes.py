"""Whole episodes of the current policy, as a batch."""

from typing import Any, NamedTuple, cast

import numpy as np
import torch as th
from gymnasium import spaces
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.utils import obs_as_tensor

from sas_agents._features import TensorObs

ArrayObs = dict[str, NDArray[Any]]


class Episodes(NamedTuple):
    """Every step of some whole episodes, B in all."""

    observations: TensorObs
    actions: Int[th.Tensor, " B"]
    returns: Float[th.Tensor, " B"]
    """Discounted sum of the rewards from each step to its episode's end."""
    num_episodes: int


class EpisodeBuffer(BaseBuffer):
    """Collects, in every environment, the episodes that start in the first steps.

    A rollout resets all environments and continues until each episode that started in
    the first `buffer_size` steps has ended. What an environment plays after that does
    not count. So whether an episode counts is decided before it is played, and the sum
    over those that do has, by Wald's identity, the expected number of episodes times
    the expectation of one: it favours neither short episodes nor long ones, and no
    episode is cut.

    Args:
        buffer_size: Number of steps in which episodes that count start.
        observation_space: Space of the observations, with the mask.
        action_space: Space of the actions.
        device: Where the tensors of `episodes` are.
        gamma: Discount of the returns.
        gae_lambda: Not used; Stable-Baselines3 passes it to every rollout buffer.
        n_envs: Number of environments.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
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
        """Forget everything; an episode starts in every environment."""
        self._observations: list[ArrayObs] = []
        self._actions: list[NDArray[Any]] = []
        self._rewards: list[NDArray[Any]] = []
        self._dones: list[NDArray[np.bool_]] = []
        self._counts: list[NDArray[np.bool_]] = []
        self._counting = np.ones(self.n_envs, dtype=bool)

    @property
    def is_complete(self) -> bool:
        """Whether every episode that counts has ended."""
        return not self._counting.any()

    def add(
        self,
        observation: ArrayObs,
        action: Int[NDArray[Any], " N"],
        reward: Float[NDArray[Any], " N"],
        done: Bool[NDArray[Any], " N"],
    ) -> None:
        """Add one step of every environment.

        Args:
            observation: The observations before the step, by key.
            action: The actions taken.
            reward: Their rewards.
            done: Which episodes have ended with the step.
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
        return Episodes(
            cast("TensorObs", obs_as_tensor(arrays, self.device)),
            self.to_torch(np.stack(self._actions)[counts]),
            self.to_torch(returns[counts].astype(np.float32)),
            int(dones[counts].sum()),
        )

    def _get_samples(self, batch_inds: NDArray[Any], env: Any = None) -> Any:
        raise NotImplementedError("episodes are taken whole: use `episodes()`")


def discounted_returns(
    rewards: Float[NDArray[Any], "T N"], dones: Bool[NDArray[Any], "T N"], gamma: float
) -> Float[NDArray[np.float64], "T N"]:
    """Sum the discounted rewards from each step to the end of its episode."""
    returns = np.zeros(rewards.shape)
    following = np.zeros(rewards.shape[1])
    for t in reversed(range(len(rewards))):
        following = rewards[t] + gamma * following * ~dones[t]
        returns[t] = following
    return returns
