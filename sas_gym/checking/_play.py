"""Random play that checks every value that an environment returns."""

import time
from copy import deepcopy
from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import data_equivalence

from sas_gym._finite_actions import FiniteActions
from sas_gym._mask_source import MaskSource
from sas_gym._types import Mask
from sas_gym.checking._values import (
    check_observation,
    check_reset_signature,
    fault,
    split_reset,
    split_step,
)
from sas_gym.masks import check_masks

Trace = list[tuple[Any, ...]]
"""The mask, observation, reward, terminated and truncated of each step."""


class Player:
    """Plays random available actions in an environment, and checks its values.

    Args:
        env: The environment.
        source: Where its mask is.
    """

    def __init__(self, env: gym.Env[Any, Any], source: MaskSource) -> None:
        self.env = env
        self.source = source
        self.places: set[str] = set()
        self.sets: list[Mask] = []
        """Every set that somebody acts in."""
        self.num_empty_at_the_end = 0
        self.num_final = 0
        self.seconds = 0.0
        self.num_steps = 0

    @cached_property
    def actions(self) -> FiniteActions:
        """The actions of the environment, which must be finitely many."""
        return FiniteActions(self.env.action_space)

    def play(self, num_steps: int, trace: Trace) -> None:
        """Play from `reset(seed=0)`, and append the steps to a trace."""
        rng = np.random.default_rng(0)
        _, mask = self.reset(0)
        for _ in range(num_steps):
            action = self.actions.action(self.actions.draw(mask, rng))
            observation, reward, terminated, truncated, mask = self.step(action)
            trace.append(deepcopy((mask, observation, reward, terminated, truncated)))
            if terminated or truncated:
                _, mask = self.reset(None)

    def reset(self, seed: int | None) -> tuple[Any, Mask]:
        """Start an episode; return its observation and its mask."""
        check_reset_signature(self.env)
        started = time.perf_counter()
        try:
            returned = self.env.reset(seed=seed)
        except Exception as error:
            raise fault(f"reset() raised {_named(error)}") from error
        self.seconds += time.perf_counter() - started
        observation, info = split_reset(returned)
        return observation, self._checked(observation, info, "after reset()")

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Mask]:
        """Take an available action; return a mask in place of the info."""
        started = time.perf_counter()
        try:
            returned = self.env.step(action)
        except Exception as error:
            raise fault(
                f"step({action!r}) raised {_named(error)}, but the mask says that the "
                "action is available"
            ) from error
        self.seconds += time.perf_counter() - started
        self.num_steps += 1
        observation, reward, terminated, truncated, info = split_step(returned)
        ended = terminated or truncated
        when = "in the final state of an episode" if ended else "after step()"
        mask = self._checked(observation, info, when, final=ended)
        return observation, reward, terminated, truncated, mask

    def _checked(
        self, observation: Any, info: dict[str, Any], when: str, final: bool = False
    ) -> Mask:
        """Return the current mask if every place provides the same valid one."""
        mask_key = self.source.key if self.source.is_in_observation else ""
        space = self.env.observation_space
        check_observation(space, observation, when, mask_key)
        provided = list(self.source.places(observation, info))
        if not provided:
            raise fault(f"{when}: {self.source.error(observation, info)}")
        masks = []
        for place, values in provided:
            try:
                masks.append(
                    check_masks(
                        values, self.actions.sizes, place, batch_shape=(), final=final
                    )
                )
            except ValueError as error:
                raise fault(f"{error} ({when})") from error
        self._check_agreement([place for place, _ in provided], masks, when)
        for mask, (place, values) in zip(
            masks, self.source.places(observation, info), strict=True
        ):
            again = np.asarray(values).astype(bool)
            if not (np.array_equal(mask, again) or final):
                raise fault(
                    f"{place} read twice {when} gives two different sets: draw the set "
                    "once in reset() and step(), keep it, and only read it elsewhere"
                )
        self._count(masks[0], provided[0][1], final)
        return masks[0]

    def _count(self, mask: Mask, values: Any, final: bool) -> None:
        if not final:
            self.sets.append(mask)
        else:
            self.num_final += 1
            self.num_empty_at_the_end += not np.any(values)

    def _check_agreement(self, places: list[str], masks: list[Mask], when: str) -> None:
        """Raise `AssertionError` unless all places have the same mask."""
        self.places.update(places)
        for place, mask in zip(places[1:], masks[1:], strict=True):
            if not np.array_equal(masks[0], mask):
                raise fault(
                    f"{places[0]} and {place} differ {when} "
                    f"({np.flatnonzero(masks[0]).tolist()} and "
                    f"{np.flatnonzero(mask).tolist()}): draw the set once per step and "
                    "return the same one everywhere"
                )


def check_replay(trace: Trace, replay: Trace) -> None:
    """Raise `AssertionError` unless a seed and the same actions replay an episode."""
    names = ("action mask", "observation", "reward", "terminated", "truncated")
    for number, (before, after) in enumerate(zip(trace, replay, strict=True)):
        for name, old, new in zip(names, before, after, strict=True):
            if not data_equivalence(old, new):
                raise fault(
                    f"the {_differing(name, old, new)} of step {number} differs after "
                    "reset(seed=0) and the same actions: draw everything, the action "
                    "sets too, from generators that reset(seed=...) seeds"
                )


def _differing(name: str, old: Any, new: Any) -> str:
    """Return the name of an entry that differs, of the keys if it has any."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return name
    keys = [key for key in old if not data_equivalence(old[key], new.get(key))]
    return f"{name}[{keys[0]!r}]" if keys else name


def _named(error: Exception) -> str:
    return f"{type(error).__name__} ({error})"
