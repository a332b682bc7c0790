"""The command line: `sas-study`, or `python -m sas_agents.study`."""

import argparse
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sas_gym  # noqa: F401  # Registers the ids.
from sas_agents.study._files import StorageError
from sas_agents.study.commands._parser import Command, make_parser
from sas_agents.study.definition._algorithms import ALGORITHMS
from sas_agents.study.definition._identity import versions_for
from sas_agents.study.definition._settings import Study
from sas_agents.study.definition._study_file import load_study
from sas_agents.study.running._backends import Backend
from sas_agents.study.running._execution import run_study
from sas_agents.study.running._training import execute
from sas_agents.study.search._search import run_search, searches
from sas_agents.study.storage._store import collect, find_run, read_folder

if TYPE_CHECKING:
    import pandas as pd


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return 0 if all went well."""
    # A user's own environments: `python -m` finds modules here, and so does the script.
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    options = make_parser(COMMANDS).parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("always", module=r"sas_agents\.study")
            warnings.showwarning = _show_warning
            return int(options.command(options))
    except (ValueError, StorageError, ImportError) as error:
        print(f"sas-study: {error}{_cure(error)}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # Whoever read the output, such as `head`, has enough.
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        print("\nsas-study: interrupted; the same command goes on", file=sys.stderr)
        return 130


def _cure(error: Exception) -> str:
    if not isinstance(error, ImportError):
        return ""
    return '; install what studies need: pip install "sas-gym[study,ray]"'


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    print(f"sas-study: warning: {message}", file=sys.stderr)


def _study(options: argparse.Namespace) -> Study:
    is_search = options.command is search_command  # Its seeds are those of a trial.
    return load_study(options.study).part(
        options.environment,
        options.algorithm,
        options.availability,
        None if is_search else options.seeds,
    )


def _backend(options: argparse.Namespace) -> Backend:
    if options.jobs == 0 or options.jobs < -1:
        raise ValueError(
            f"--jobs must be at least 1, or -1 for all; got {options.jobs}"
        )
    return Backend(options.backend, options.jobs, options.address)


def run_command(options: argparse.Namespace) -> int:
    """Run what has no result yet."""
    report = run_study(
        _study(options).runs(),
        options.folder,
        _backend(options),
        any_version=options.any_version,
        progress=not options.no_progress,
    )
    print(
        f"{len(report.written)} runs done, {report.num_kept} were done before, "
        f"{len(report.failed)} failed; results are in {options.folder}"
    )
    for path in report.failed.values():
        print(f"failed: {path.read_text().splitlines()[-1]}; see {path}")
    return 1 if report.failed else 0


def search_command(options: argparse.Namespace) -> int:
    """Search settings, and write the best ones."""
    study = _study(options)
    storage = options.storage or str(options.folder / "search.log")
    settings = study.search
    if options.trials is not None:
        settings = replace(settings, num_trials=options.trials)
    if options.seeds is not None:
        settings = replace(settings, num_seeds=options.seeds)
    study = replace(study, search=settings)
    todo = searches(study, storage, options.sampler, options.pruner)
    messages, num_written = run_search(
        todo,
        settings.num_trials,
        options.output,
        _backend(options),
        not options.no_progress,
    )
    print("\n".join(messages))
    print(f"{num_written} of {len(todo)} presets are in {options.output}")
    return 0 if num_written == len(todo) else 1


def _results(options: argparse.Namespace) -> "pd.DataFrame":
    results = collect(options.folder, _study(options).runs())
    if results.empty:
        raise ValueError(
            f"{options.folder} has no results of this study: give the folder that "
            f"`sas-study run {options.study} --folder ...` wrote to"
        )
    return results


def plot_command(options: argparse.Namespace) -> int:
    """Draw figures."""
    from sas_agents.study.figures import FIGURES

    names = options.figure or list(FIGURES)
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        raise ValueError(
            f"there is no figure {unknown[0]!r}; there are {list(FIGURES)}"
        )
    results = _results(options)
    options.output.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = options.output / f"{name}.{options.format}"
        try:
            FIGURES[name](results).savefig(path, dpi=150)
            print(path)
        except ValueError as error:
            if options.figure:
                raise
            print(f"{name} left out: {error}")
    return 0


def table_command(options: argparse.Namespace) -> int:
    """Print tables."""
    from sas_agents.study import statistics

    results = _results(options)
    if options.csv is not None:
        results.to_csv(options.csv, index=False)
        print(f'everything: pandas.read_csv("{options.csv}")')
    for title, make in (
        ("Final evaluation", statistics.final_table),
        ("Interquartile mean score over all tasks", statistics.aggregate_table),
        ("Probability of improvement", statistics.improvement_table),
        ("Sample efficiency, median over seeds", statistics.efficiency_table),
    ):
        table = make(results).dropna(axis="columns", how="all")
        if len(table):
            text = table.to_string(
                index=False, float_format="{:.4g}".format, na_rep="-"
            )
            print(f"\n{title}\n{text}")
    print(f"\n{_scale(results)}; intervals: 95 %, bootstrap")
    return 0


def _scale(results: "pd.DataFrame") -> str:
    """Say what a score is, and which environments have none."""
    unknown = sorted(set(results.environment[results.score.isna()]))
    if not unknown:
        return "score: 0 is random play, 1 the optimum"
    if results.score.isna().all():
        return "no scores, as no optimum is known"
    return (
        "score: 0 is random play, 1 the optimum, which is not known everywhere in "
        f"{', '.join(unknown)}"
    )


def status_command(options: argparse.Namespace) -> int:
    """Show what is done."""
    import pandas as pd

    runs = _study(options).runs()
    kept = {result["key"] for result in read_folder(options.folder)}
    rows = [
        {
            "environment": run.environment,
            "algorithm": label,
            "done": run.key in kept,
            "failed": (options.folder / f"{run.key}.failed.txt").exists(),
            "runs": 1,
        }
        for label, run in runs
    ]
    table = pd.DataFrame(rows).groupby(["environment", "algorithm"], sort=False).sum()
    print(table.to_string())
    others = len(kept - {run.key for _, run in runs})
    print(
        f"\n{table.done.sum()} of {len(runs)} runs are done; {others} other results in "
        f"{options.folder} (of other studies, or of other versions)"
    )
    return 0


def repeat_command(options: argparse.Namespace) -> int:
    """Repeat one run and compare."""
    path = Path(options.key)
    folder = path.parent if path.is_file() else options.folder
    run, kept = find_run(folder, path.name)
    here = versions_for(run.environment, ALGORITHMS[run.algorithm].location)
    for name, there in run.versions.items():
        if there != here.get(name):
            print(f"note: {name} was {there} and is {here.get(name)}")
    curve = execute(run)["curve"]
    print(f"{'step':>10} {'kept':>12} {'repeated':>12}")
    for step, old, new in zip(
        curve["step"], kept["mean_return"], curve["mean_return"], strict=True
    ):
        print(f"{step:>10} {old:>12.6g} {new:>12.6g}")
    same = curve["mean_return"] == kept["mean_return"]
    print("the curves are equal" if same else "the curves differ")
    return 0 if same else 1


COMMANDS: dict[str, Command] = {
    "run": run_command,
    "search": search_command,
    "plot": plot_command,
    "table": table_command,
    "status": status_command,
    "repeat": repeat_command,
}

if __name__ == "__main__":
    sys.exit(main())
