"""Returns of a policy, without the bias towards episodes that end early."""

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from sas_gym.action_sets import Floats
from sas_gym.masks import KEY, sample_actions

Policy = Callable[[Any, NDArray[np.int8]], NDArray[Any]]
"""From observations and action masks [N, A] to actions [N]."""


def episode_returns(
    env: VectorEnv[Any, Any, Any], policy: Policy, num_episodes: int, seed: int
) -> Floats:
    """Play episodes and return their undiscounted returns, [num_episodes or more].

    Every lane plays the same number of episodes to their end. Taking those that end
    first instead would favour short ones.

    Args:
        env: A vector environment that begins anew in the step that ends an episode.
        policy: What chooses the actions.
        num_episodes: How many episodes; rounded up to a multiple of the lanes.
        seed: Seed of the environment.

    Example:
        >>> import gymnasium as gym, sas_gym
        >>> env = gym.make_vec("SAS/SanFrancisco-v0", num_envs=100)
        >>> returns = episode_returns(env, random_policy(seed=0), 10_000, seed=0)
        >>> round(returns.mean(), 1)
        np.float64(0.3)
    """
    share = -(-num_episodes // env.num_envs)
    finished = np.zeros((env.num_envs, share))
    count = np.zeros(env.num_envs, dtype=np.int64)
    running = np.zeros(env.num_envs)
    observation, infos = env.reset(seed=seed)
    while (count < share).any():
        actions = policy(observation, infos[KEY])
        observation, reward, terminated, truncated, infos = env.step(actions)
        running += reward
        done = terminated | truncated
        lanes = np.flatnonzero(done & (count < share))
        finished[lanes, count[lanes]] = running[lanes]
        count[lanes] += 1
        running[done] = 0.0
    return finished.ravel()


def random_policy(seed: int) -> Policy:
    """Return the policy that chooses uniformly among what is available."""
    rng = np.random.default_rng(seed)
    return lambda _, mask: sample_actions(mask, rng)
