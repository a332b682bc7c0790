"""Returns of a policy, without bias towards short episodes; the random policy."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from numpy.typing import NDArray

from sas_gym._types import Floats
from sas_gym._wrappers import time_limit
from sas_gym.action_sets._action_probs import uniform_action_probs
from sas_gym.envs._single import SASEnv
from sas_gym.envs._vector import SASVectorEnv
from sas_gym.masks import MASK_KEY, sample_actions
from sas_gym.tasks._task import Task

if TYPE_CHECKING:
    from sas_gym.tasks._tabular import TabularSASMDP

Policy = Callable[[Any, NDArray[np.int8]], NDArray[Any]]
"""From the observations and action masks of N environments to N actions."""

_NUM_COPIES = 100
# Wrappers that leave what is played as it is.
_TRANSPARENT = (OrderEnforcing, PassiveEnvChecker, TimeLimit)


def episode_returns(
    env: VectorEnv[Any, Any, Any] | gym.Env[Any, Any] | Task | str,
    policy: Policy,
    num_episodes: int,
    seed: int,
) -> Floats:
    """Play episodes and return their undiscounted returns, one entry per episode.

    Every environment plays the same number of episodes to their end. The episodes that
    end first would be the short ones.

    Args:
        env: A vector environment that resets in the step that ends an episode
            (`AutoresetMode.SAME_STEP`). Or an id of `sas_gym`, an environment of one or
            a task: these are played in up to 100 copies.
        policy: A function from observations and action masks to actions.
        num_episodes: How many episodes; rounded up to a multiple of the environments.
        seed: Seed of the environment.

    Raises:
        ValueError: If the episodes of a task may never end, or if the environment
            cannot be played in copies.

    Example:
        >>> env = "SAS/SanFrancisco-v0"
        >>> returns = episode_returns(env, RandomPolicy(seed=0), 10_000, seed=0)
        >>> round(returns.mean(), 1)
        np.float64(0.3)
    """
    if not isinstance(env, VectorEnv):
        env = _in_copies(env, min(num_episodes, _NUM_COPIES))
    share = -(-num_episodes // env.num_envs)  # per environment, rounded up
    finished = np.zeros((env.num_envs, share))
    count = np.zeros(env.num_envs, dtype=np.int64)
    running = np.zeros(env.num_envs)
    observation, infos = env.reset(seed=seed)
    while (count < share).any():
        actions = policy(observation, infos[MASK_KEY])
        observation, reward, terminated, truncated, infos = env.step(actions)
        running += reward
        done = terminated | truncated
        counted = np.flatnonzero(done & (count < share))
        finished[counted, count[counted]] = running[counted]
        count[counted] += 1
        running[done] = 0.0
    return finished.ravel()


def _in_copies(
    env: gym.Env[Any, Any] | Task | str, num_envs: int
) -> VectorEnv[Any, Any, Any]:
    """Return a vector environment of a task, an environment of ours or an id."""
    if isinstance(env, str):
        env = gym.make(env)
    if isinstance(env, Task):
        limit = getattr(env, "horizon", None)
        if limit is None and not env.always_ends:
            raise ValueError(
                f"an episode of {type(env).__name__} might never end: write "
                "SASVectorEnv(task, num_envs, max_episode_steps=...), or set "
                "always_ends = True in its class"
            )
        return SASVectorEnv(env, num_envs, max_episode_steps=limit)
    inner = getattr(env, "unwrapped", None)
    if not isinstance(inner, SASEnv):
        raise ValueError(
            "expected a vector environment, an id of sas_gym, an environment of it or "
            f"a task; got {env!r}: write gymnasium.make_vec(id, num_envs, "
            "vector_kwargs={'autoreset_mode': AutoresetMode.SAME_STEP})"
        )
    for wrapper in _wrappers_of(env):
        if not isinstance(wrapper, _TRANSPARENT):
            raise ValueError(
                f"{type(wrapper).__name__} wraps a single environment, and episodes "
                "are played in copies: pass a vector environment that is wrapped alike"
            )
    return SASVectorEnv(
        inner.task, num_envs, max_episode_steps=time_limit(env), **inner.settings
    )


def _wrappers_of(env: gym.Env[Any, Any]) -> Iterator[gym.Env[Any, Any]]:
    """Yield the wrappers of an environment, the outermost first."""
    while isinstance(env, gym.Wrapper):
        yield env
        env = env.env


class RandomPolicy:
    """Takes any available action, each with the same probability.

    It serves as the policy of `episode_returns`, as a model with Stable-Baselines3's
    `predict`, and as a policy that `sas_gym.planning` evaluates exactly.

    Args:
        seed: Seed of the choices.
    """

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)

    def __call__(self, observation: Any, action_mask: NDArray[Any]) -> NDArray[Any]:
        """Choose one available action per row of the masks, uniformly."""
        return sample_actions(action_mask, self._rng)

    def predict(
        self,
        observation: Mapping[str, Any],
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = False,
    ) -> tuple[NDArray[Any], tuple[NDArray[Any], ...] | None]:
        """Choose actions, as `predict` of Stable-Baselines3 does."""
        mask = np.asarray(observation[MASK_KEY])
        actions = sample_actions(np.atleast_2d(mask), self._rng)
        return (actions[0] if mask.ndim == 1 else actions), None

    def action_probs(self, mdp: "TabularSASMDP") -> Floats:
        """Probability of each action in every state, over the sets, [S, A]."""
        return uniform_action_probs(mdp.action_sets, mdp.possible_actions)
