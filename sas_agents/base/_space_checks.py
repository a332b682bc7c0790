"""Checks of the spaces of an environment that an agent is given."""

from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorEnv
from stable_baselines3.common.vec_env import VecEnv

from sas_gym.checking._spaces import check_spaces as check_usable_spaces


def check_spaces(env: gym.Env[Any, Any] | VecEnv) -> None:
    """Raise `ValueError` for no environment, or for spaces that no agent can use."""
    if not isinstance(env, gym.Env | VecEnv | VectorEnv):
        raise ValueError(
            "env must be an environment of Gymnasium, its id or a VecEnv, got the "
            f"{type(env).__name__} {env!r}"
        )
    if isinstance(env, VectorEnv):
        raise ValueError(
            f"{type(env).__name__} is a vector environment of Gymnasium: make it a "
            "VecEnv by sas_agents.VectorEnvAdapter(env)"
        )
    check_usable_spaces(env.observation_space, env.action_space)
