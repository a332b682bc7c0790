"""Levels: sets of arguments that have a name."""

from collections.abc import Mapping
from typing import Any

Levels = Mapping[str, Mapping[str, Any]]
"""Arguments of an environment by the name of a level."""


def with_level(
    level: str | None,
    levels: Levels | None,
    action_sets: Any,
    task_kwargs: dict[str, Any],
) -> tuple[Any, dict[str, Any]]:
    """Return the action sets and the task's arguments, filled up from a level.

    An argument that is given overrides the level's. Given action sets override the
    level's availabilities too, and the other way round.

    Args:
        level: Name of the level, if any.
        levels: The levels by name.
        action_sets: The action sets that are given, if any.
        task_kwargs: The task's arguments that are given.

    Raises:
        ValueError: If there is no such level, or if both action sets and an
            availability are given.
    """
    given = _availabilities(task_kwargs)
    if action_sets is not None and given:
        raise ValueError(
            f"{given} and action_sets are both given, and action_sets would "
            "replace the task's own distribution of the action sets: pass only one"
        )
    named = {} if level is None else dict(_arguments_of(level, levels or {}))
    level_sets = named.pop("action_sets", None)
    if action_sets is not None:
        for name in _availabilities(named):
            del named[name]
    elif not given:
        action_sets = level_sets
    return action_sets, named | task_kwargs


def _availabilities(arguments: Mapping[str, Any]) -> list[str]:
    """Return the names of arguments from which a task makes its action sets."""
    return [name for name in arguments if "availability" in name]


def _arguments_of(level: str, levels: Levels) -> Mapping[str, Any]:
    if level not in levels:
        known = f"one of {sorted(levels)}" if levels else "left out: there are none"
        raise ValueError(f"level must be {known}; got {level!r}")
    return levels[level]
