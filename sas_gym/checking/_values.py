"""Checks of the values that an environment returns."""

from inspect import signature
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Space

from sas_gym.masks import MASK_KEY


def fault(message: str) -> AssertionError:
    """Return the error for a broken part of the contract."""
    # Raised, not asserted: `python -O` leaves assertions out.
    return AssertionError(message)


def check_reset_signature(env: gym.Env[Any, Any]) -> None:
    """Raise `AssertionError` for a `reset` that takes no seed and options."""
    layers = [layer for layer in (env, env.unwrapped) if isinstance(layer, gym.Env)]
    for layer in layers:
        try:
            signature(layer.reset).bind(seed=0, options=None)
        except TypeError as error:
            raise fault(
                f"{type(layer).__name__}.reset() cannot be called as Gymnasium does "
                f"({error}): write `def reset(self, *, seed=None, options=None)`, and "
                "return the observation and an info"
            ) from error


def split_reset(returned: Any) -> tuple[Any, dict[str, Any]]:
    """Return the observation and the info that `reset` returned."""
    is_pair = isinstance(returned, tuple) and len(returned) == 2
    if not (is_pair and isinstance(returned[1], dict)):
        raise fault(
            "reset() must return an observation and an info, a dict: "
            f"`return observation, {{}}`; got {_described(returned)}"
        )
    observation, info = returned
    return observation, info


def split_step(returned: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
    """Return the five values that `step` returned, with the reward as a float."""
    is_whole = isinstance(returned, tuple) and len(returned) == 5
    if not (is_whole and isinstance(returned[4], dict)):
        raise fault(
            "step() must return five values, `observation, reward, terminated, "
            f"truncated, info`; got {_described(returned)}"
        )
    observation, reward, terminated, truncated, info = returned
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if np.ndim(flag) or flag not in (False, True):
            raise fault(f"{name} must be True or False, got {flag!r}")
    return observation, _number(reward), bool(terminated), bool(truncated), info


def _described(returned: Any) -> str:
    if isinstance(returned, tuple):
        return f"a tuple of {', '.join(type(part).__name__ for part in returned)}"
    return f"{type(returned).__name__} {returned!r}"


def _number(reward: Any) -> float:
    """Return a reward, which must be one finite number."""
    try:
        is_number = np.ndim(reward) == 0 and np.isfinite(float(reward))
    except (TypeError, ValueError):
        is_number = False
    if not is_number:
        raise fault(
            f"the reward must be one finite number, got {reward!r}: combine several "
            "objectives or agents into one number, and check for NaN and infinity"
        )
    return float(reward)


def check_observation(
    space: Space[Any], observation: Any, when: str, mask_key: str = MASK_KEY
) -> None:
    """Raise `AssertionError` for an observation that is not in its space.

    Args:
        space: The observation space.
        observation: An observation.
        when: When it was returned, for the error message.
        mask_key: Key of the mask, which is checked elsewhere.
    """
    if not isinstance(space, Dict):
        _check_entry("the observation", space, observation, when)
        return
    if not isinstance(observation, dict):
        raise fault(
            f"the observation {when} is {type(observation).__name__}, but "
            f"observation_space is a Dict with the keys {list(space.spaces)}"
        )
    missing = [key for key in space.spaces if key not in observation]
    unknown = [key for key in observation if key not in space.spaces]
    if missing or unknown:
        raise fault(
            f"the observation {when} has the keys {list(observation)}, but "
            f"observation_space has {list(space.spaces)}: missing {missing}, unknown "
            f"{unknown}"
        )
    for key, part in space.spaces.items():
        if key != mask_key:
            _check_entry(f"observation[{key!r}]", part, observation[key], when)


def _check_entry(name: str, space: Space[Any], value: Any, when: str) -> None:
    array = np.asarray(value)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise fault(
            f"{name} is not finite {when}: "
            f"{array[~np.isfinite(array)].ravel()[:5].tolist()}. Fix the environment's "
            "reset() and step()"
        )
    is_array = isinstance(value, np.ndarray | np.generic)
    if (isinstance(space, Box) and not is_array) or not space.contains(value):
        raise fault(
            f"{name} {when} is not in its space {space}: {_difference(space, value)}"
        )


def _difference(space: Space[Any], value: Any) -> str:
    """Return the difference between a value and its space."""
    if not isinstance(space, Box):
        return f"it is {value!r} of type {type(value).__name__}"
    if not isinstance(value, np.ndarray | np.generic):
        return f"it is {type(value).__name__}: make it a numpy array"
    if value.shape != space.shape:
        return f"its shape is {value.shape}"
    if not np.can_cast(value.dtype, space.dtype):
        return f"its type is {value.dtype}: convert it to {space.dtype}"
    outside: Any = (value < space.low) | (value > space.high)
    return f"{np.asarray(value)[outside].ravel()[:5].tolist()} are outside its bounds"
