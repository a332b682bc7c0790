"""Rollouts of the current policy: a fixed number of steps, or whole episodes."""

from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from jaxtyping import Bool, Float, Int
from stable_baselines3.common.buffers import BaseBuffer

from sas_agents.models._features import ArrayObs
from sas_agents.vec_env._infos import truncated_envs
from sas_gym._types import NDArray


class EpisodeBuffer(BaseBuffer):
    """Collects `buffer_size` steps of every environment, or whole episodes.

    With `whole_episodes`, a rollout resets all environments and continues until each
    episode that started in the first `buffer_size` steps has ended. What an environment
    plays after that does not count. So whether an episode counts is decided before it
    is played, and the sum over those that do has, by Wald's identity, the expected
    number of episodes times the expectation of one: it favours neither short episodes
    nor long ones, and no episode is cut.

    Without, every step counts, and values replace what follows the last one.

    Args:
        buffer_size: Number of steps of an environment; with `whole_episodes`, those in
            which episodes that count start.
        observation_space: Space of the observations, with the mask.
        action_space: Space of the actions.
        device: Where the tensors are.
        gamma: Discount of the returns.
        gae_lambda: Weight of the longer returns in the lambda-return.
        n_envs: Number of environments.
        whole_episodes: Whether episodes are played to their end.
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
        whole_episodes: bool = False,
    ) -> None:
        super().__init__(buffer_size, observation_space, action_space, device, n_envs)
        self.gamma = gamma
        self.gae_lambda = gae_lambda
        self.whole_episodes = whole_episodes
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._observations: list[ArrayObs] = []
        self._actions: list[NDArray[Any]] = []
        self._rewards: list[NDArray[Any]] = []
        self._dones: list[NDArray[np.bool_]] = []
        self._counts: list[NDArray[np.bool_]] = []
        self._cuts: list[tuple[int, int, ArrayObs]] = []
        # Number of steps of each environment so far.
        self.num_steps = 0
        # Whether every step or episode that counts has been played.
        self.is_complete = False
        # Which environments are playing what counts.
        self.counting = np.ones(self.n_envs, dtype=bool)

    def add(
        self,
        observation: ArrayObs,
        action: Int[NDArray[Any], " N"],
        reward: Float[NDArray[Any], " N"],
        done: Bool[NDArray[Any], " N"],
        infos: list[dict[str, Any]],
    ) -> None:
        """Add one step of every environment.

        Args:
            observation: The observations before the step, by key.
            action: The actions taken.
            reward: Their rewards.
            done: Which episodes have ended with the step.
            infos: One info per environment; those of episodes that a time limit ended
                are read.
        """
        self._observations.append(observation)
        self._actions.append(action)
        self._rewards.append(reward)
        self._dones.append(done)
        self._counts.append(self.counting)
        step, self.num_steps = self.num_steps, self.num_steps + 1
        if not self.whole_episodes:
            for env in truncated_envs(infos, done):
                self._cuts.append((step, env, infos[env]["terminal_observation"]))
            self.is_complete = self.num_steps >= self.buffer_size
        elif self.num_steps >= self.buffer_size:
            self.counting = self.counting & ~done
            self.is_complete = not self.counting.any()

    def observations(self) -> ArrayObs:
        """Return the observations of the steps that count, along rows."""
        return {
            key: self._rows([step[key] for step in self._observations])
            for key in self._observations[0]
        }

    def actions(self) -> Int[NDArray[Any], " B"]:
        """Return the actions of the steps that count."""
        return self._rows(self._actions)

    def _rows(self, steps: list[NDArray[Any]]) -> NDArray[Any]:
        """Put arrays of one row per environment below each other, as far as they count.

        Without whole episodes every step counts, and nothing is copied a second time.
        """
        values = np.concatenate(steps)
        return values[np.concatenate(self._counts)] if self.whole_episodes else values

    def _by_step(self, steps: list[NDArray[Any]]) -> NDArray[Any]:
        """Put arrays of one entry per environment below each other, one row each.

        For one environment `np.stack` takes ten times as long.
        """
        return np.concatenate(steps).reshape(-1, self.n_envs)

    def cut_observations(self, last: ArrayObs) -> ArrayObs:
        """Return the states whose values replace what was cut off.

        They are those at the time limits, in order, and then the `last` ones.
        """
        cuts = [cut for *_, cut in self._cuts]
        return {
            # Of a Discrete space, an entry is a plain number.
            key: np.concatenate([*[np.asarray(cut[key])[None] for cut in cuts], rest])
            for key, rest in last.items()
        }

    def returns(
        self,
        values: Float[NDArray[np.float64], " B"],
        cut_values: Float[NDArray[np.float64], " M"],
    ) -> Float[NDArray[np.float32], " B"]:
        """Return the returns of the steps that count.

        Of whole episodes they are the discounted sums of the rewards, else the
        lambda-returns.

        Args:
            values: v of `observations()`; not read for whole episodes.
            cut_values: v of `cut_observations()`; not read for whole episodes.
        """
        rewards, dones = self._by_step(self._rewards).astype(np.float64), self.dones()
        if self.whole_episodes:
            returns = discounted_returns(rewards, dones, self.gamma)
        else:
            for (step, env, _), value in zip(self._cuts, cut_values, strict=False):
                rewards[step, env] += self.gamma * value
            returns = lambda_returns(
                rewards,
                dones,
                values.reshape(rewards.shape),
                cut_values[len(self._cuts) :],
                self.gamma,
                self.gae_lambda,
            )
        if self.whole_episodes:
            returns = returns[self._by_step(self._counts)]
        return returns.reshape(-1).astype(np.float32)

    def dones(self) -> Bool[NDArray[np.bool_], "T N"]:
        """Return which steps ended an episode."""
        return self._by_step(self._dones)

    def num_episodes(self) -> int:
        """Return how many episodes that count have ended."""
        return int(np.count_nonzero(self._rows(self._dones)))

    def _get_samples(self, batch_inds: NDArray[Any], env: Any = None) -> Any:
        raise NotImplementedError("rollouts are taken whole")


def discounted_returns(
    rewards: Float[NDArray[Any], "T N"], dones: Bool[NDArray[Any], "T N"], gamma: float
) -> Float[NDArray[np.float64], "T N"]:
    """Sum the discounted rewards from each step to the end of its episode."""
    return weighted_sums(rewards.astype(np.float64), gamma * ~dones)


def lambda_returns(
    rewards: Float[NDArray[Any], "T N"],
    dones: Bool[NDArray[Any], "T N"],
    values: Float[NDArray[Any], "T N"],
    last_values: Float[NDArray[Any], " N"],
    gamma: float,
    gae_lambda: float,
) -> Float[NDArray[np.float64], "T N"]:
    """Mix the n-step returns geometrically (Schulman et al., 2016).

    Args:
        rewards: Rewards; where a time limit ended an episode, with the discounted value
            of what would have followed.
        dones: Which steps ended an episode.
        values: Values of the states.
        last_values: Values of the states after the last step.
        gamma: Discount.
        gae_lambda: Weight of the longer returns: 1 for all rewards of the rollout, 0
            for one reward and the next value.
    """
    discounts = gamma * ~dones
    next_values = np.concatenate([values[1:], last_values[None]])
    one_step: NDArray[np.float64]
    one_step = rewards + (1 - gae_lambda) * discounts * next_values
    weights = gae_lambda * discounts
    one_step[-1] += weights[-1] * last_values
    return weighted_sums(one_step, weights)


def weighted_sums(
    terms: Float[NDArray[np.float64], "T N"], weights: Float[NDArray[np.float64], "T N"]
) -> Float[NDArray[np.float64], "T N"]:
    """Return sums[t] = terms[t] + weights[t] * sums[t + 1], the last of them terms[-1].

    Args:
        terms: The terms.
        weights: The weights.
    """
    sums = terms.copy()
    for t in range(len(terms) - 2, -1, -1):
        sums[t] += weights[t] * sums[t + 1]
    return sums
