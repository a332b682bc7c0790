"""Find the action mask of an environment, in any place and under any name."""

import re
from collections.abc import Callable, Iterator
from inspect import getattr_static, signature
from typing import Any

import gymnasium as gym
from gymnasium.spaces import Dict
from numpy.typing import ArrayLike

from sas_gym.masks import MASK_KEY

MaskName = str | Callable[[Any], ArrayLike]
"""A key of the observation or the info, a method or attribute, or a function of the
environment."""

METHOD = "action_masks"

# A name with a word of both groups, and no third word, may be a mask's.
_STATES = {"valid", "legal", "available", "avail", "allowed", "feasible", "possible"}
_THINGS = {"action", "actions", "move", "moves", "mask", "masks"}
_NO_MASKS = {"is", "has", "num", "n", "sample", "random", "check", "count", "penalty"}
_PLAIN_NAMES = {"mask", "masks", MASK_KEY, METHOD}


class MaskSource:
    """The places where an environment provides its action mask.

    Args:
        env: The environment.
        mask: Where the mask is, if not in the usual places, which are
            `observation["action_mask"]`, `info["action_mask"]` and a method
            `action_masks()`: another key, the name of another method, or a function of
            the environment.
    """

    def __init__(self, env: gym.Env[Any, Any], mask: MaskName | None = None) -> None:
        self.env = env
        self.is_named = mask is not None
        self._function = None if mask is None or isinstance(mask, str) else mask
        self.key = mask if isinstance(mask, str) else MASK_KEY
        self.method = mask if isinstance(mask, str) else METHOD
        if env.has_wrapper_attr(self.method):
            _check_takes_nothing(self.method, env.get_wrapper_attr(self.method))

    @property
    def is_in_observation(self) -> bool:
        """Whether the observation space says that the mask is in the observation."""
        space = self.env.observation_space
        return (
            self._function is None
            and isinstance(space, Dict)
            and self.key in space.spaces
        )

    def places(
        self, observation: Any, info: dict[str, Any]
    ) -> Iterator[tuple[str, Any]]:
        """Yield each place that provides the current mask: its name and its values."""
        if self._function is not None:
            yield "mask(env)", self._function(self.env)
            return
        if isinstance(observation, dict) and self.key in observation:
            yield f"observation[{self.key!r}]", observation[self.key]
        if self.key in info:
            yield f"info[{self.key!r}]", info[self.key]
        if self.env.has_wrapper_attr(self.method):
            values = self.env.get_wrapper_attr(self.method)
            if callable(values):
                yield f"{self.method}()", values()
            else:
                yield self.method, values

    def error(self, observation: Any, info: dict[str, Any]) -> ValueError:
        """Return the error for an environment that provides no mask."""
        if self.is_named:
            keys = list(observation) if isinstance(observation, dict) else []
            return ValueError(
                f"{self.env} has no mask {self.key!r}: the keys of the observation are "
                f"{keys}, of the info {list(info)}, and there is no method "
                f"{self.method}(). Pass such a name, or a function of the environment"
            )
        return no_mask_error(self.env, self.other_names(observation, info))

    def other_names(self, observation: Any, info: dict[str, Any]) -> list[str]:
        """Return keys and methods whose names sound like a mask's."""
        return sorted(mask_like_keys(observation, info) | _mask_like_methods(self.env))

    def warn_of_other_names(self, observation: Any, info: dict[str, Any]) -> None:
        """Warn of names that sound like a mask, where the usual places have none."""
        found = [] if self.is_named else self.other_names(observation, info)
        if found:
            gym.logger.warn(
                f"no mask of {self.env} is used. {_other_names_text(found)}"
            )


def no_mask_error(env: Any, other_names: list[str]) -> ValueError:
    """Return the error for environments that provide no action mask."""
    text = (
        f"{env} provides no action mask: put it into the observation (key "
        f"{MASK_KEY!r}), return info[{MASK_KEY!r}] from reset and step, or write a "
        f"method {METHOD}(). For agents without masks call "
        "sas_agents.make_vec_env(..., mask_in_observation=False)"
    )
    return ValueError(
        f"{text}. {_other_names_text(other_names)}" if other_names else text
    )


def mask_like_keys(observation: Any, info: dict[str, Any]) -> set[str]:
    """Return the keys whose names sound like a mask's."""
    keys = [*(observation if isinstance(observation, dict) else []), *info]
    return {key for key in keys if isinstance(key, str) and _sounds_like_mask(key)}


def _other_names_text(names: list[str]) -> str:
    return (
        f"Names that sound like a mask: {', '.join(map(repr, names))}. If one says "
        f"which actions are available, pass it (mask={names[0]!r}); if it is a method "
        "that returns a list of actions, pass mask=lambda env: "
        f"numpy.isin(range(num_actions), env.unwrapped.{names[0]}())"
    )


def _mask_like_methods(env: Any) -> set[str]:
    """Return the methods of an environment and its wrappers that sound like masks."""
    layers = [env]
    while isinstance(layers[-1], gym.Wrapper):
        layers.append(layers[-1].env)
    layers.append(env.unwrapped)  # of Jumanji's environments the one inside
    return {
        name
        for kind in {type(layer) for layer in layers}
        for name in dir(kind)
        if _sounds_like_mask(name) and callable(getattr_static(kind, name))
    }


def _sounds_like_mask(name: str) -> bool:
    words = {word.lower() for word in re.findall("[A-Za-z][a-z]*", name)}
    return name in _PLAIN_NAMES or bool(
        words & _STATES
        and words & _THINGS
        and not words & _NO_MASKS
        and not name.startswith("_")
    )


def _check_takes_nothing(name: str, method: Any) -> None:
    """Raise `ValueError` for a method that cannot be called without arguments."""
    if not callable(method):
        return
    try:
        signature(method).bind()
    except TypeError as error:
        raise ValueError(
            f"{name}() cannot be called without arguments ({error}): pass a function "
            f"of the environment, mask=lambda env: env.unwrapped.{name}(...)"
        ) from error
