"""Checks of a study file: every message names the culprit and the cure."""

from collections.abc import Sequence
from dataclasses import fields
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

KINDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    tuple: "a list",
    dict: "a table",
    bool: "true or false",
}


def check_types(settings: Any) -> None:
    """Raise a `ValueError` for a field that contradicts its annotation."""
    hints = get_type_hints(type(settings))
    for entry in fields(settings):
        hint, value = hints[entry.name], getattr(settings, entry.name)
        allowed = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        if not any(_is_of(value, kind) for kind in allowed):
            kinds = [_name_of(kind) for kind in allowed if kind is not NoneType]
            raise ValueError(
                f"{entry.name} must be {' or '.join(kinds)}, got {_as_written(value)}"
            )


def _is_of(value: Any, kind: Any) -> bool:
    origin = get_origin(kind) or kind
    if origin is tuple:
        entry = get_args(kind)[0]
        return isinstance(value, tuple) and all(_is_of(one, entry) for one in value)
    if isinstance(value, bool):
        return origin is bool
    return isinstance(value, int | float if origin is float else origin)


def _name_of(kind: Any) -> str:
    name = KINDS.get(get_origin(kind) or kind, str(kind))
    if get_origin(kind) is tuple:
        entry = KINDS.get(get_args(kind)[0], "entries")
        name += f" of {entry.removeprefix('a ')}s"
    return name


def _as_written(value: Any) -> str:
    return repr(list(value) if isinstance(value, tuple) else value)


def check_arguments_are_numbers(arguments: dict[str, Any]) -> None:
    """Raise a `ValueError` for an argument that is not a number (NaN)."""
    for name, value in arguments.items():
        if isinstance(value, dict):
            check_arguments_are_numbers(value)
        elif isinstance(value, float) and value != value:
            raise ValueError(f"the argument {name} must be a number, got nan")


def check_counts(settings: Any, *names: str) -> None:
    """Raise a `ValueError` for a field that is set and not at least 1."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and value < 1:
            raise ValueError(
                f"{name} must be a whole number of at least 1, got {value!r}"
            )


def check_availability(name: str, value: float) -> None:
    """Raise a `ValueError` for a number that is no probability above 0."""
    if not 0 < value <= 1:
        raise ValueError(f"{name} must be above 0 and up to 1, got {value!r}")


def check_range(name: str, search_range: Any) -> None:
    """Raise a `ValueError` for a search range that Optuna could not sample from."""
    if isinstance(search_range, list) and search_range:
        return
    if not isinstance(search_range, dict) or not {"low", "high"} <= set(search_range):
        raise ValueError(
            f"the search range of {name} must be a list of choices or a table with low "
            f"and high, got {search_range!r}"
        )
    check_keys(search_range, {"low", "high", "log", "integer", "schedule"}, name)
    low, high = search_range["low"], search_range["high"]
    for value in (low, high):
        if not _is_of(value, float):
            raise ValueError(
                f"the search range of {name} must have numbers, got {value!r}"
            )
    if not low < high or (search_range.get("log") and low <= 0):
        raise ValueError(
            f"the search range of {name} must have low < high, and low > 0 where log = "
            f"true; got {search_range!r}"
        )
    if search_range.get("schedule", "linear") != "linear":
        raise ValueError(f"schedule must be 'linear', got {search_range['schedule']!r}")


def check_keys(table: dict[str, Any], known: set[str], where: str) -> None:
    """Raise a `ValueError` for a key that is not known."""
    for key in table:
        if key not in known:
            close = get_close_matches(key, known, n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise ValueError(
                f"unknown key {key!r} in {where}{hint}; known are {sorted(known)}"
            )


def check_names(kind: str, wanted: Sequence[Any], known: Sequence[Any]) -> None:
    """Raise a `ValueError` for a part that a study does not have."""
    for name in wanted:
        if name not in known:
            raise ValueError(f"this study has no {kind} {name!r}; it has {known}")
