"""Result files: one per run, written atomically, read with care."""

import json
import os
import re
import warnings
from pathlib import Path

from sas_agents.study._files import write_text
from sas_agents.study.definition._runs import Run
from sas_agents.study.storage._format import CorruptResultError, Result, checked

KEY_FORM = re.compile(r"[0-9a-f]{16}")


def result_path(folder: Path, key: str) -> Path:
    """Return where the result of a run is kept."""
    return folder / f"{key}.json"


def failure_path(folder: Path, key: str) -> Path:
    """Return where the error of a failed run is kept."""
    return folder / f"{key}.failed.txt"


def write_result(folder: Path, result: Result) -> Path:
    """Write a result so that its file is either whole or not there.

    Raises:
        StorageError: If the disk is full or cannot be written to.
    """
    path = result_path(folder, result["key"])
    write_text(path, json.dumps(result, indent=1) + "\n")
    return path


def read_result(path: Path) -> Result:
    """Read a result, check all of it, and bring it to today's format.

    Raises:
        CorruptResultError: If it is half-written, edited, of wrong types or of another
            format.
    """
    try:
        result = checked(json.loads(path.read_text(encoding="utf-8")))
    except CorruptResultError as error:
        raise CorruptResultError(f"{path} is not a whole result: {error}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise CorruptResultError(f"{path} is not a whole result: {error}") from error
    if result["key"] != path.stem:
        raise CorruptResultError(
            f"{path} does not hold the run that its name says: it was renamed"
        )
    return result


def result_files(folder: Path) -> list[Path]:
    """Return the paths of all results in a folder, whole or not."""
    files = folder.glob("*.json") if folder.is_dir() else []
    return sorted(path for path in files if KEY_FORM.fullmatch(path.stem))


def read_folder(folder: Path) -> list[Result]:
    """Read all results of a folder; warn of files that are not whole, and skip them."""
    results = []
    for path in result_files(folder):
        try:
            results.append(read_result(path))
        except CorruptResultError as error:
            warnings.warn(f"{error}; skipped: `sas-study run` repeats it", stacklevel=2)
    return results


def is_finished(folder: Path, run: Run) -> bool:
    """Return whether a run has its result; put a corrupt one aside, with a warning."""
    path = result_path(folder, run.key)
    if not path.exists():
        return False
    try:
        read_result(path)
    except CorruptResultError as error:
        aside = path.with_suffix(".corrupt")
        os.replace(path, aside)
        warnings.warn(
            f"{error}; moved to {aside}, and the run is repeated", stacklevel=2
        )
        return False
    return True


def finished_settings(folder: Path) -> set[str]:
    """Return the settings that have a result, made with any versions."""
    return {Run.from_dict(result["run"]).setting for result in read_folder(folder)}
