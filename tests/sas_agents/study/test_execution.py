"""Carrying out studies: resuming, killed processes, failures, a full disk."""

import errno
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from sas_agents.study import (
    AlgorithmSettings,
    Backend,
    StorageError,
    Study,
    run_study,
)
from sas_agents.study.running import _execution as execution
from sas_agents.study.running._backends import Outcome, run_locally
from sas_agents.study.running._training import execute
from sas_agents.study.storage._store import read_folder, result_files, write_result

pytestmark = pytest.mark.slow

ONE_JOB = Backend(num_jobs=1)


def without_timings(folder: Path) -> dict[str, Any]:
    return {
        result["key"]: {key: result[key] for key in result if key != "timing"}
        for result in read_folder(folder)
    }


class InProcess:
    """A backend that runs in this process, counts, and may be interrupted."""

    def __init__(self, function: Any = None, stop_after: int | None = None) -> None:
        self.function = function
        self.num_calls = 0
        self.stop_after = stop_after

    def map(self, function: Any, items: Any) -> Any:
        for item in items:
            if self.num_calls == self.stop_after:
                raise KeyboardInterrupt
            self.num_calls += 1
            yield Outcome(item, (self.function or function)(item))


def run_in(backend: Any, study: Study, folder: Path) -> execution.Report:
    """Run a study in a stand-in for a backend."""
    return run_study(study.runs(), folder, backend, progress=False)


def test_interrupted_study_goes_on_where_it_was(
    tiny: Study, tmp_path: Path, made_up: Callable[..., Any]
) -> None:
    """After an interruption only what is missing is run, and then nothing more."""
    first, second, third = (InProcess(made_up, stop) for stop in (5, None, None))
    with pytest.raises(KeyboardInterrupt):
        run_in(first, tiny, tmp_path)
    assert len(result_files(tmp_path)) == 5
    report = run_in(second, tiny, tmp_path)
    assert (report.num_kept, second.num_calls) == (5, 7)
    before = {path: path.stat().st_mtime_ns for path in result_files(tmp_path)}
    report = run_in(third, tiny, tmp_path)
    assert (report.num_kept, third.num_calls) == (12, 0)
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_killed_worker_loses_its_own_run_only(
    tiny: Study, undisturbed: dict[str, Any]
) -> None:
    """With a worker killed at a random moment every run has its one result."""
    runs = [run for _, run in tiny.runs()]
    keys, killed = [], False
    for outcome in run_locally(execute, runs, num_jobs=2):
        assert outcome.error is None
        keys.append(outcome.answer["key"])
        assert outcome.answer["run"] == undisturbed[keys[-1]]["run"]
        assert outcome.answer["curve"] == undisturbed[keys[-1]]["curve"]
        if not killed:
            time.sleep(random.Random(0).random())
            busy = max(worker_processes(), key=lambda worker: worker.cpu_percent(0.1))
            busy.kill()
            killed = True
    assert sorted(keys) == sorted(undisturbed)
    assert not worker_processes()


def test_worker_that_always_dies_is_given_up() -> None:
    """A run that kills its worker every time becomes a failure, not a loop."""
    outcomes = list(run_locally(os._exit, [1, 2], num_jobs=1, max_retries=1))
    assert [outcome.item for outcome in outcomes] == [1, 2]
    assert all("was killed 2 times" in str(outcome.error) for outcome in outcomes)


def worker_processes() -> list[psutil.Process]:
    """Return loky's workers among the children of this process."""
    return [
        child
        for child in psutil.Process().children()
        if "loky" in " ".join(child.cmdline()) and "tracker" not in str(child.cmdline())
    ]


def test_killed_command_goes_on_where_it_was(
    tiny_file: Path, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    """`kill -9`, then again in two processes: the files that one process writes."""
    folder = tmp_path / "results"
    command = [sys.executable, "-m", "sas_agents.study", "run", str(tiny_file)]
    command += ["--folder", str(folder), "--no-progress", "--jobs"]
    rng = random.Random(time.time_ns())

    with subprocess.Popen([*command, "1"], stdout=subprocess.DEVNULL) as first:
        wait_for_results(folder, 2)
        time.sleep(0.3 * rng.random())
        children = psutil.Process(first.pid).children()
        first.kill()
        first.wait()
    assert 2 <= len(result_files(folder)) < 12
    # Its worker must not go on by itself.
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive

    second = subprocess.run(
        [*command, "2"], stdout=subprocess.PIPE, text=True, timeout=120, check=True
    )
    assert "0 failed" in second.stdout
    assert without_timings(folder) == undisturbed
    assert not list(folder.glob(".*"))


def wait_for_results(folder: Path, number: int) -> None:
    """Wait until a folder has so many results."""
    deadline = time.monotonic() + 120
    while len(result_files(folder)) < number:
        assert time.monotonic() < deadline, "no results came"
        time.sleep(0.02)


def test_failing_run_leaves_its_traceback_and_the_others(
    tiny: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that raises an error does not stop the others; fixed, it is run again."""
    broken = AlgorithmSettings("broken", "helpers.own_algorithms:failing")
    study = replace(
        tiny, algorithms=(broken, tiny.algorithms[0]), num_seeds=1, num_steps=100
    )
    report = run_study(study.runs(), tmp_path, ONE_JOB, progress=False)
    assert len(report.written) == len(report.failed) == 2
    for path in report.failed.values():
        assert "ArithmeticError: the policy" in path.read_text()
    assert report.first_error == "ArithmeticError: the policy"
    assert "the first failed run: ArithmeticError: the policy; see " in (
        capsys.readouterr().out
    )


def test_full_disk_stops_with_whole_files(
    tiny: Study,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    made_up: Callable[..., Any],
) -> None:
    """When the disk fills up, what was written stays whole and the message says so."""
    fsync, calls = os.fsync, []

    def full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="the disk is full") as raised:
        run_in(InProcess(made_up), tiny, tmp_path)
    assert "give the same command again" in str(raised.value)
    assert len(read_folder(tmp_path)) == 2
    assert not list(tmp_path.glob(".*"))
    report = run_in(InProcess(made_up), tiny, tmp_path)
    assert report.num_kept == 2


def test_worker_with_other_versions_refuses(
    tiny: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine of a cluster with other packages says so and does not run."""
    run = tiny.runs()[0].run
    other = {**run.versions, "torch": "0"}
    monkeypatch.setattr(execution, "versions_for", lambda *_: other)
    with pytest.raises(RuntimeError, match=r"torch.* 0 here"):
        execution.execute_here(run)


def test_finished_run_of_other_versions_counts_if_asked(
    tiny: Study, tmp_path: Path, made_up: Callable[..., Any]
) -> None:
    """An update makes runs again, unless any version will do."""
    part = tiny.part(algorithms=["SASPG"], num_seeds=1)
    for _, run in part.runs():
        write_result(tmp_path, made_up(replace(run, versions={"torch": "1.0"})))
    runs = part.runs()
    assert len(execution.unfinished(runs, tmp_path)) == len(runs)
    assert not execution.unfinished(runs, tmp_path, any_version=True)


def test_impossible_environment_is_named_before_anything_runs(
    tiny: Study, tmp_path: Path
) -> None:
    """One message, not one failed run per seed."""
    wrong = replace(tiny.environments[0], arguments={"size": 3})
    with pytest.raises(ValueError, match=r"cannot make SAS/SanFrancisco-v0 .*'size'"):
        run_study(replace(tiny, environments=(wrong,)).runs(), tmp_path)
    assert not list(tmp_path.iterdir())


def test_impossible_argument_is_named_once_before_anything_runs(
    tiny: Study, tmp_path: Path
) -> None:
    """One message, not one failed run per seed."""
    broken = AlgorithmSettings("broken", "SASPG", arguments={"n_steps": -1})
    study = replace(tiny, algorithms=(broken,))
    with pytest.raises(ValueError, match=r"cannot make SASPG.*n_steps must be an int"):
        run_study(study.runs(), tmp_path)
    assert not list(tmp_path.iterdir())


def test_folder_that_is_a_file_is_named_before_anything_runs(
    tiny: Study, tmp_path: Path
) -> None:
    """Such as a table's CSV file, which other commands take as a folder."""
    path = tmp_path / "results.csv.gz"
    path.touch()
    with pytest.raises(StorageError, match="choose another --folder"):
        run_study(tiny.runs(), path)
