"""The commands that run: run, search, repeat, and status."""

import argparse
import math
from dataclasses import replace
from pathlib import Path

from sas_agents.study.commands._options import (
    backend_of,
    check_output,
    folders_of,
    study_of,
)
from sas_agents.study.definition._identity import versions_for
from sas_agents.study.definition._presets import load_presets
from sas_agents.study.running._execution import run_study
from sas_agents.study.running._training import execute
from sas_agents.study.search._search import run_search, searches
from sas_agents.study.search._search_settings import open_storage
from sas_agents.study.storage._store import failure_path
from sas_agents.study.storage._table import collect, find_run


def run_command(options: argparse.Namespace) -> int:
    """Run every run without a result."""
    backend = backend_of(options)
    study = study_of(options)
    folder, *others = folders_of(options)
    report = run_study(
        study.runs(),
        folder,
        backend,
        any_version=options.any_version,
        progress=not options.no_progress,
        done=frozenset(keys_in(others)),
    )
    print(
        f"{len(report.written)} runs done, {report.num_kept} were done before, "
        f"{len(report.failed)} failed; results are in {folder}"
    )
    for path in report.failed.values():
        print(f"failed: {path.read_text().splitlines()[-1]}; see {path}")
    return 1 if report.failed else 0


def keys_in(sources: list[Path]) -> set[str]:
    """Return the keys of all runs whose results are in some folders or CSV files."""
    results = collect(sources)
    return set() if results.empty else set(results.key)


def search_command(options: argparse.Namespace) -> int:
    """Search settings, and write the best ones."""
    backend = backend_of(options)
    study = study_of(options, with_seeds=False)  # --seeds is for the trials.
    storage = options.storage or str(folders_of(options)[0] / "search.log")
    settings = study.search
    if options.trials is not None:
        settings = replace(settings, num_trials=options.trials)
    if options.seeds is not None:
        settings = replace(settings, num_seeds=options.seeds)
    study = replace(study, search=settings)
    check_output(options.output, "--output")
    if options.output.exists():
        load_presets(options.output)
    todo = searches(study, storage, options.sampler, options.pruner)
    open_storage(storage)
    messages, num_written = run_search(
        todo,
        settings.num_trials,
        options.output,
        backend,
        not options.no_progress,
    )
    print("\n".join(messages))
    print(f"{num_written} of {len(todo)} presets are in {options.output}")
    return 0 if num_written == len(todo) else 1


def status_command(options: argparse.Namespace) -> int:
    """Show the finished runs."""
    import pandas as pd

    runs = study_of(options).runs()
    sources = folders_of(options)
    kept = keys_in(sources)
    rows = [
        {
            "environment": run.environment,
            "algorithm": label,
            "done": run.key in kept,
            "failed": any(failure_path(one, run.key).exists() for one in sources),
            "runs": 1,
        }
        for label, run in runs
    ]
    table = pd.DataFrame(rows).groupby(["environment", "algorithm"], sort=False).sum()
    print(table.to_string())
    others = len(kept - {run.key for _, run in runs})
    where = ", ".join(map(str, sources))
    print(
        f"\n{table.done.sum()} of {len(runs)} runs are done; {others} other results in "
        f"{where} (of other studies, or of other versions)"
    )
    return 0


def repeat_command(options: argparse.Namespace) -> int:
    """Repeat one run and compare."""
    path = Path(options.key)
    sources = [path.parent] if path.is_file() else folders_of(options)
    run, kept = find_run(sources, path.name)
    here = versions_for(run.environment, run.entry.location)
    for name, there in run.versions.items():
        if there != here.get(name):
            print(f"note: {name} was {there} and is {here.get(name)}")
    curve = execute(run)["curve"]
    repeated = dict(zip(curve["step"], curve["mean_return"], strict=True))
    print(f"{'step':>10} {'kept':>12} {'repeated':>12}")
    same = True
    for step, old in zip(kept["step"], kept["mean_return"], strict=True):
        new = repeated.get(step)
        new = math.nan if new is None else new
        print(f"{step:>10} {old:>12.6g} {new:>12.6g}")
        same = same and (old == new or (math.isnan(old) and math.isnan(new)))
    print("the curves are equal" if same else "the curves differ")
    return 0 if same else 1
