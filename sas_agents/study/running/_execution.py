"""Run the unfinished runs of a study, and write their results."""

import json
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sas_agents.study._files import make_folder, write_text
from sas_agents.study.definition._identity import versions_for
from sas_agents.study.definition._runs import Run
from sas_agents.study.definition._settings import Labelled
from sas_agents.study.running._backends import Backend
from sas_agents.study.running._before import check_environments, check_models
from sas_agents.study.running._training import execute
from sas_agents.study.storage._format import Result
from sas_agents.study.storage._store import (
    failure_path,
    finished_settings,
    is_finished,
    result_files,
    write_result,
)


@dataclass
class Report:
    """The outcome of a study."""

    num_kept: int
    """Runs that had their result already."""
    written: list[Path] = field(default_factory=list)
    failed: dict[str, Path] = field(default_factory=dict)
    """By key of a run that raised an error: the file with its traceback."""
    first_error: str = ""
    """Error of the first failed run, in one line."""


def run_study(
    runs: Sequence[Labelled],
    folder: Path,
    backend: Backend | None = None,
    *,
    any_version: bool = False,
    progress: bool = True,
    done: frozenset[str] = frozenset(),
) -> Report:
    """Run every run without a result, and write one file per run.

    A run that raises an error leaves its traceback and does not stop the others; the
    first error is printed at once.

    Args:
        runs: The runs, as `Study.runs` gives them.
        folder: Where the results are.
        backend: Where to run; all cores of this machine by default.
        any_version: Whether a result made with other versions counts as one.
        progress: Whether to show a progress bar.
        done: Keys of runs whose results are elsewhere.

    Raises:
        ValueError: If an environment or an algorithm cannot be made with its arguments.
        StorageError: If a result cannot be written; results written before are whole.
    """
    from tqdm import tqdm

    make_folder(folder)
    left = unfinished(runs, folder, any_version)
    left = [run for run in left if run.key not in done]
    check_environments(left)
    check_models(left)
    report = Report(num_kept=len({run.key for _, run in runs}) - len(left))
    total = sum(run.num_steps for run in left)
    bar = tqdm(total=total, unit="step", unit_scale=True, disable=not progress)
    with bar:
        bar.set_description(f"{len(left)} runs")
        for outcome in (backend or Backend()).map(execute_here, left):
            run: Run = outcome.item
            if outcome.error is None:
                report.written.append(write_result(folder, outcome.answer))
                failure_path(folder, run.key).unlink(missing_ok=True)
            else:
                _note_failure(report, folder, run, outcome.error, tqdm.write)
            bar.update(run.num_steps)
            num_done = len(report.written) + len(report.failed)
            failed = f", {len(report.failed)} failed" if report.failed else ""
            bar.set_description(f"{num_done} of {len(left)} runs{failed}")
    remove_leftovers(folder)
    return report


def _note_failure(
    report: Report,
    folder: Path,
    run: Run,
    error: BaseException,
    say: Callable[[str], None],
) -> None:
    path = write_failure(folder, run, error)
    report.failed[run.key] = path
    if not report.first_error:
        lines = traceback.format_exception_only(error)[-1].strip().splitlines()
        report.first_error = lines[0]
        say(f"the first failed run: {lines[0]}; see {path}")


def execute_here(run: Run) -> Result:
    """Execute a run, if this process has the versions that the run names."""
    here = versions_for(run.environment, run.entry.location)
    if run.versions != here:
        differing = {
            name: f"{there} there, {here.get(name)} here"
            for name, there in run.versions.items()
            if there != here.get(name)
        }
        raise RuntimeError(
            f"this worker has other versions than the command that asked for the run: "
            f"{differing}; install the same on every machine"
        )
    return execute(run)


def unfinished(
    runs: Sequence[Labelled], folder: Path, any_version: bool = False
) -> list[Run]:
    """Return the runs that have no result, each once."""
    distinct = {run.key: run for _, run in runs}.values()
    left = [run for run in distinct if not is_finished(folder, run)]
    if any_version and left:
        settings = finished_settings(folder)
        left = [run for run in left if run.setting not in settings]
    return left


def write_failure(folder: Path, run: Run, error: BaseException) -> Path:
    """Write the definition of a failed run and its traceback."""
    path = failure_path(folder, run.key)
    definition = json.dumps(run.to_dict(), indent=1)
    write_text(path, definition + "\n" + "".join(traceback.format_exception(error)))
    return path


def remove_leftovers(folder: Path) -> None:
    """Remove half-written files of killed processes, where the result exists now."""
    for path in result_files(folder):
        for leftover in folder.glob(f".{path.name}.*.tmp"):
            leftover.unlink(missing_ok=True)
