"""A study as a declarative TOML file."""

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from sas_agents.study._files import find_toml
from sas_agents.study.definition._checks import check_keys
from sas_agents.study.definition._runs import Evaluation
from sas_agents.study.definition._settings import (
    AlgorithmSettings,
    EnvironmentSettings,
    SearchSettings,
    Study,
)

STUDIES = Path(__file__).parents[1] / "studies"
T = TypeVar("T")


def load_study(name: str | Path) -> Study:
    """Read a study: a shipped one by its name, or a TOML file by its path.

    Raises:
        ValueError: If the file holds something unknown or impossible; the message
            names the key.
    """
    path = find_toml(name, STUDIES, "study")
    try:
        table = tomllib.loads(path.read_text())
        return _study_of(table)
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
        parts[renamed[key]] = tuple(
            _build(cls, entry, f"[[{key}]] {entry.get('id', entry.get('name', ''))}")
            for entry in entries
        )
    for key, settings in (("evaluation", Evaluation), ("search", SearchSettings)):
        parts[key] = _build(settings, table.get(key, {}), f"[{key}]")
    return Study(**parts)


def _build(cls: type[T], table: dict[str, Any], where: str) -> T:
    """Make a dataclass of a TOML table, or say which key is wrong."""
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
