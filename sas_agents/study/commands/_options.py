"""Meaning of the options of the command line: a study, its part, its results."""

import argparse
import os
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sas_agents.study._files import StorageError, make_folder
from sas_agents.study.definition._settings import (
    AlgorithmSettings,
    EnvironmentSettings,
    Study,
)
from sas_agents.study.definition._study_file import entry_of, load_study
from sas_agents.study.running._backends import Backend
from sas_agents.study.storage._table import collect

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_FOLDER = Path("results")
Entry = TypeVar("Entry", AlgorithmSettings, EnvironmentSettings)


def study_of(options: argparse.Namespace, with_seeds: bool = True) -> Study:
    """Return the study that a command names, or the part of it."""
    study = load_study(options.study)
    environments = _entries(
        options.environment, EnvironmentSettings, {e.id for e in study.environments}
    )
    algorithms = _entries(
        options.algorithm, AlgorithmSettings, {a.name for a in study.algorithms}
    )
    study = replace(
        study,
        environments=(*study.environments, *_new(environments)),
        algorithms=(*study.algorithms, *_new(algorithms)),
    )
    return study.part(
        _names(environments, "id"),
        _names(algorithms, "name"),
        options.availability,
        options.seeds if with_seeds else None,
    )


def _entries(
    texts: list[str] | None, cls: type[Entry], known: set[str]
) -> list[str | Entry] | None:
    """Return names of a study's entries, and the new ones that options describe."""
    if texts is None:
        return None
    return [
        text if text in known or not _is_new(text) else _entry(text, cls)
        for text in texts
    ]


def _is_new(text: str) -> bool:
    return text.lstrip().startswith("{") or ":" in text


def _entry(text: str, cls: type[Entry]) -> Entry:
    """Return the settings that `module:name` or an inline table of TOML describes."""
    if not text.lstrip().startswith("{"):
        is_algorithm = cls is AlgorithmSettings
        name = text.rpartition(":")[2]
        table = {"name": name, "class": text} if is_algorithm else {"id": text}
        return entry_of(cls, table)
    try:
        table = tomllib.loads(f"entry = {text}")["entry"]
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{text!r} is not an inline table of TOML: {error}") from error
    if cls is AlgorithmSettings and "name" not in table and "class" in table:
        table["name"] = str(table["class"]).rpartition(":")[2]
    return entry_of(cls, table)


def _new(entries: list[Any] | None) -> list[Any]:
    return [entry for entry in entries or [] if not isinstance(entry, str)]


def _names(entries: list[Any] | None, attribute: str) -> list[str] | None:
    if entries is None:
        return None
    return [
        entry if isinstance(entry, str) else getattr(entry, attribute)
        for entry in entries
    ]


def backend_of(options: argparse.Namespace) -> Backend:
    """Return where to run."""
    if options.jobs == 0 or options.jobs < -1:
        raise ValueError(
            f"--jobs must be at least 1, or -1 for all; got {options.jobs}"
        )
    return Backend(options.backend, options.jobs, options.address)


def folders_of(options: argparse.Namespace) -> list[Path]:
    """Return where results are: folders, or CSV files."""
    return options.folder or [DEFAULT_FOLDER]


def results_of(options: argparse.Namespace, study: Study) -> "pd.DataFrame":
    """Read the results of a study.

    Raises:
        ValueError: If there are none.
    """
    sources = folders_of(options)
    results = collect(sources, study.runs())
    if results.empty:
        where = ", ".join(map(str, sources))
        raise ValueError(
            f"{where} has no results of this study: give the folder that "
            f"`sas-study run {options.study} --folder ...` wrote to"
        )
    return results


def read_all(sources: Sequence[Path], study: Study | None) -> "pd.DataFrame":
    """Read results for a comparison, where each label must mean one setting.

    Raises:
        ValueError: If there are none, or a label has several settings.
    """
    results = collect(sources, () if study is None else study.runs())
    where = ", ".join(map(str, sources))
    if results.empty:
        of_study = "" if study is None else " of this study"
        raise ValueError(f"{where} has no results{of_study}")
    if study is None:
        runs = results.drop_duplicates("key")
        settings = runs.run.map(_arguments)
        for label, group in settings.groupby(runs.label):
            if group.nunique() > 1 and _several_on_a_task(runs, settings, label):
                raise ValueError(
                    f"{where} has several settings of {label}: name the study whose "
                    "algorithms are meant by --study"
                )
    return results


def _arguments(text: str) -> str:
    import json

    run = json.loads(text)
    return json.dumps([run["policy"], run["arguments"]], sort_keys=True)


def _several_on_a_task(runs: "pd.DataFrame", settings: Any, label: object) -> bool:
    mine = runs[runs.label == label].assign(settings=settings)
    tasks = mine.groupby(["environment", "variant"]).settings.nunique()
    return bool((tasks > 1).any())


def check_output(path: Path, option: str) -> None:
    """Make the folder of a file to be written, or raise an error before any work.

    Raises:
        StorageError: If the file cannot be written.
    """
    if path.is_dir():
        raise StorageError(f"{option} {path} is a folder: give the name of a file")
    make_folder(path.parent, option)
    if path.exists() and not os.access(path, os.W_OK):
        raise StorageError(f"cannot write {option} {path}: no permission")
