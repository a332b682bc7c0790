"""Checks of the spaces that an agent can use."""

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from sas_gym.masks import MASK_KEY

_MASK_PART = f"observation_space[{MASK_KEY!r}]"


def check_spaces(
    observation_space: gym.Space[Any], action_space: gym.Space[Any]
) -> None:
    """Raise `ValueError` for spaces that no agent can use.

    Networks have one output per action and one input per Discrete observation, counted
    from 0, and Stable-Baselines3 does not translate either. Observations are arrays of
    numbers, alone or in a Dict of one level.
    """
    if offset := _offset(action_space):
        raise ValueError(
            f"the actions of {action_space} are not counted from 0: wrap the "
            "environment in gymnasium.wrappers.TransformAction(env, lambda action: "
            f"action + {offset}, gymnasium.spaces.{_from_0(action_space)})"
        )
    check_not_nested(observation_space)
    parts = list(_parts(observation_space))
    if all(name == _MASK_PART for name, _ in parts):
        raise ValueError(
            "the observations have nothing but the mask: add an entry that shows "
            "the state, gymnasium.spaces.Discrete(1) if there is only one"
        )
    for name, space in parts:
        _check_numbers(name, space)
        if name == _MASK_PART and isinstance(action_space, spaces.Discrete):
            _check_mask_space(space, int(action_space.n))
        if offset := _offset(space):
            raise ValueError(
                f"{name} {space} is not counted from 0: wrap the environment in "
                f"gymnasium.wrappers.TransformObservation, which subtracts {offset}, "
                f"with gymnasium.spaces.{_from_0(space)}"
            )


def _parts(space: gym.Space[Any]) -> Iterator[tuple[str, gym.Space[Any]]]:
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield f"observation_space[{key!r}]", part
    else:
        yield "observation_space", space


def check_not_nested(observation_space: gym.Space[Any]) -> None:
    """Raise `ValueError` for observations with entries inside entries."""
    if isinstance(observation_space, spaces.Tuple):
        raise _nested_error("observation_space", observation_space)
    for name, space in _parts(observation_space):
        if isinstance(space, spaces.Dict | spaces.Tuple):
            raise _nested_error(name, space)


def _nested_error(name: str, space: gym.Space[Any]) -> ValueError:
    return ValueError(
        f"{name} {space} is nested, and agents take arrays: flatten it before the "
        "wrapper of the mask, as in sas_gym.MaskInObservation("
        "gymnasium.wrappers.FlattenObservation(env)). Where the observation itself "
        "carries the mask, flatten its other entries by "
        "gymnasium.wrappers.TransformObservation and gymnasium.spaces.flatten"
    )


def _check_numbers(name: str, space: gym.Space[Any]) -> None:
    """Raise `ValueError` for an observation that is no array of numbers."""
    if not isinstance(
        space,
        spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary,
    ):
        raise ValueError(
            f"{name} {space} has no array of a fixed shape, which networks need: wrap "
            "the environment in gymnasium.wrappers.TransformObservation"
        )
    if isinstance(space, spaces.Box) and (space.shape == () or 0 in space.shape):
        raise ValueError(
            f"{name} {space} has no axis, or an empty one: give it the shape (1,)"
        )


def _check_mask_space(space: gym.Space[Any], num_actions: int) -> None:
    if space.shape != (num_actions,):
        raise ValueError(
            f"{_MASK_PART} is {space}, but there are {num_actions} actions: make it "
            f"gymnasium.spaces.MultiBinary({num_actions})"
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
