"""A study as a declarative TOML file."""

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from sas_agents.study.definition._checks import check_keys
from sas_agents.study.definition._runs import Evaluation
from sas_agents.study.definition._settings import (
    AlgorithmSettings,
    EnvironmentSettings,
    SearchSettings,
    Study,
)
from sas_agents.study.definition._toml import find_toml, read_toml

STUDIES = Path(__file__).parents[1] / "studies"
T = TypeVar("T")


def load_study(name: str | Path) -> Study:
    """Read a study: a shipped one by its name, or a TOML file by its path.

    Raises:
        ValueError: If the file holds something unknown or impossible; the message
            names the key.
    """
    path = find_toml(name, STUDIES, "study")
    text = read_toml(path)
    try:
        return _study_of(tomllib.loads(text))
    except (ValueError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: {error}") from error


def _study_of(table: dict[str, Any]) -> Study:
    # In TOML a table that may come more than once has its singular name.
    renamed = {"environment": "environments", "algorithm": "algorithms"}
    known = {entry.name for entry in fields(Study)} - set(renamed.values())
    check_keys(table, known | set(renamed), "the study")
    parts: dict[str, Any] = {
        key: value for key, value in table.items() if key not in renamed
    }
    for key, cls in (
        ("environment", EnvironmentSettings),
        ("algorithm", AlgorithmSettings),
    ):
        entries = table.get(key, [])
        if not isinstance(entries, list):
            raise ValueError(f"write [[{key}]], with two brackets, for each {key}")
        parts[renamed[key]] = tuple(entry_of(cls, entry) for entry in entries)
    for key, settings in (("evaluation", Evaluation), ("search", SearchSettings)):
        parts[key] = _build(settings, table.get(key, {}), f"[{key}]")
    return Study(**parts)


def entry_of(cls: type[T], table: Any) -> T:
    """Make an `[[environment]]` or an `[[algorithm]]` of its TOML table."""
    is_algorithm = cls is AlgorithmSettings
    where = "[[algorithm]]" if is_algorithm else "[[environment]]"
    if not isinstance(table, dict):
        raise ValueError(f"write {where}, with two brackets, before each one's keys")
    where = f"{where} {table.get('id', table.get('name', ''))}"
    # `class` is no name that Python lets a field have.
    if is_algorithm and "class" in table:
        if "algorithm" in table:
            raise ValueError(f"in {where}: give either `class` or `algorithm`")
        table = {**table, "algorithm": table["class"]}
        del table["class"]
        if ":" not in str(table["algorithm"]):
            raise ValueError(
                f"in {where}: class must be the place of a class or function, "
                f'"module:name", got {table["algorithm"]!r}'
            )
    return _build(cls, table, where)


def _build(cls: type[T], table: dict[str, Any], where: str) -> T:
    """Make a dataclass of a TOML table, or say which key is wrong."""
    if not isinstance(table, dict):
        raise ValueError(f"{where} must be a table, got {table!r}")
    known = {entry.name for entry in fields(cls)}  # type: ignore[arg-type]  # a dataclass
    check_keys(table, known, where)
    values = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in table.items()
    }
    try:
        return cls(**values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"in {where}: {error}") from error
