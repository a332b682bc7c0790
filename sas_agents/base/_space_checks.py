"""Checks of the spaces of an environment that an agent is given."""

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from stable_baselines3.common.vec_env import VecEnv

from sas_gym.masks import MASK_KEY

_MASK_PART = f"observation_space[{MASK_KEY!r}]"


def check_spaces(env: gym.Env[Any, Any] | VecEnv) -> None:
    """Raise `ValueError` for spaces not counted from 0, or a mask of the wrong size.

    Networks have one output per action and one input per Discrete observation, counted
    from 0, and Stable-Baselines3 does not translate either.
    """
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
    actions = env.action_space
    if offset := _offset(actions):
        raise ValueError(
            f"the actions of {actions} are not counted from 0: wrap the environment in "
            f"gymnasium.wrappers.TransformAction(env, lambda action: action + {offset},"
            f" gymnasium.spaces.{_from_0(actions)})"
        )
    parts = list(_parts(env.observation_space))
    if all(name == _MASK_PART for name, _ in parts):
        raise ValueError(
            "the observations have nothing beside the mask: add an entry that shows "
            "the state, gymnasium.spaces.Discrete(1) if there is only one"
        )
    for name, space in parts:
        _check_numbers(name, space)
        if name == _MASK_PART and isinstance(actions, spaces.Discrete):
            _check_mask_space(space, int(actions.n))
        if offset := _offset(space):
            raise ValueError(
                f"{name} {space} is not counted from 0: wrap the environment in "
                f"gymnasium.wrappers.TransformObservation, which subtracts {offset}, "
                f"with gymnasium.spaces.{_from_0(space)}"
            )


def _check_numbers(name: str, space: gym.Space[Any]) -> None:
    """Raise `ValueError` for an observation that is no array of numbers.

    Nested spaces are rejected by Stable-Baselines3.
    """
    is_array = isinstance(
        space,
        spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary,
    )
    is_nested = isinstance(space, spaces.Dict | spaces.Tuple)
    if not (is_array or is_nested):
        raise ValueError(
            f"{name} {space} has no array of a fixed shape, which networks need: wrap "
            "the environment in gymnasium.wrappers.TransformObservation"
        )
    if isinstance(space, spaces.Box) and (space.shape == () or 0 in space.shape):
        raise ValueError(
            f"{name} {space} has no axis, or an empty one: give it the shape (1,)"
        )


def _offset(space: gym.Space[Any]) -> Any:
    """Return where a space starts to count, or `None` if at 0 or not at all."""
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) and np.any(
        space.start
    ):
        return np.asarray(space.start).tolist()
    return None


def _from_0(space: Any) -> str:
    """Return how to write a space of the same size that is counted from 0."""
    size = space.n if isinstance(space, spaces.Discrete) else space.nvec.tolist()
    return f"{type(space).__name__}({size})"


def _check_mask_space(space: gym.Space[Any], num_actions: int) -> None:
    if space.shape != (num_actions,):
        raise ValueError(
            f"{_MASK_PART} is {space}, but there are {num_actions} actions: make it "
            f"gymnasium.spaces.MultiBinary({num_actions})"
        )


def _parts(space: gym.Space[Any]) -> Iterator[tuple[str, gym.Space[Any]]]:
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield f"observation_space[{key!r}]", part
    else:
        yield "observation_space", space
