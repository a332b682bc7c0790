"""The command line: `sas-study`, or `python -m sas_agents.study`."""

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sas_gym  # noqa: F401  # Registers the ids.
from sas_agents.study._backends import Backend
from sas_agents.study._execution import run_study
from sas_agents.study._runs import execute, versions
from sas_agents.study._search import run_search, searches
from sas_agents.study._settings import STUDIES, Study, load_study
from sas_agents.study._store import StorageError, collect, find_run, read_folder

if TYPE_CHECKING:
    import pandas as pd

OVERVIEW = """\
Run studies of agents on environments whose actions are not always available.

A study is a TOML file: environments with their availabilities, algorithms with their
arguments, steps, seeds, evaluation. These are shipped, and are examples to copy:
{studies}

  sas-study run quick                    every run that has no result yet
  sas-study status quick                 what is done and what is left
  sas-study table quick                  returns, scores and intervals
  sas-study plot quick                   learning curves and more, as PNG
  sas-study search quick --trials 20     better settings, written as presets

Every run leaves one small file in a folder (--folder, by default `results`). A command
that was interrupted, or killed, goes on where it was when it is given again.
"""
EXAMPLES = {
    "run": """\
Runs whatever has no result yet, and writes one JSON file per run.

  sas-study run quick
  sas-study run my_study.toml --folder my_results --jobs 8
  sas-study run ours --environment SAS/Maze-v0 --availability 0.8 --seeds 5
  sas-study run ours --backend ray --address auto      on a Ray cluster

The name of a file is a hash of all that defines its run: environment, algorithm, their
arguments, seed, evaluation, package versions and the agents' source. So a finished run
is never repeated, and several studies can share a folder. After an update results are
made again, unless you say --any-version.

On a cluster, start Ray (`ray start --head`, and `ray start --address=...` elsewhere)
with the same packages on every machine; results are written by this command alone.
""",
    "search": """\
Searches settings of every algorithm that has search ranges in the study.

  sas-study search ours --trials 60 --pruner halving --output my_presets.toml
  sas-study search paper --environment SAS/Maze-v0 --algorithm SASPG --trials 30
  sas-study search ours --storage postgresql://user@host/optuna     many machines

Trials are kept in the storage: the same command goes on where it was, and several
commands, on several machines, can work on one storage at the same time. The best
settings go into the output, which a study uses by `preset = "my_presets.toml"`.
""",
    "plot": """\
Draws figures from results, of a folder or of a table's CSV file.

  sas-study plot ours --output figures
  sas-study plot ours --folder results.csv.gz --figure learning_curves --format pdf

With one standard deviation over seeds in curves, 95 % stratified bootstrap intervals
elsewhere, and the optimum and random play drawn in.
""",
    "table": """\
Prints final returns, scores with intervals, comparisons and sample efficiency.

  sas-study table ours
  sas-study table ours --csv results.csv.gz     everything, a row per evaluation

The CSV file is read by `pandas.read_csv("results.csv.gz")`, and by --folder here.
""",
    "status": """\
Shows how many runs of a study are done, by environment and algorithm.

  sas-study status ours
""",
    "repeat": """\
Repeats one run and compares its learning curve with the one that was kept.

  sas-study repeat results/0123456789abcdef.json
  sas-study repeat 0123 --folder results.csv.gz

On the same machine with the same versions the curves are equal.
""",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return 0 if all went well."""
    options = make_parser().parse_args(arguments)
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


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    shipped = "\n".join(
        f"  {path.stem:6} {load_study(path.stem).description}"
        for path in sorted(STUDIES.glob("*.toml"))
    )
    parser = argparse.ArgumentParser(
        prog="sas-study",
        description=OVERVIEW.format(studies=shipped),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    add = {name: _command(commands, name) for name in EXAMPLES}

    _add_backend(add["run"](run_command))
    search = _add_backend(add["search"](search_command))
    search.add_argument("--trials", type=int, help="settings to try for each")
    search.add_argument("--sampler", choices=["random", "tpe"], default="random")
    search.add_argument("--pruner", choices=["none", "halving"], default="none")
    search.add_argument("--storage", help="file or URL (default: FOLDER/search.log)")
    search.add_argument("--output", type=Path, default=Path("presets.toml"))
    plot = add["plot"](plot_command)
    plot.add_argument("--output", type=Path, default=Path("figures"), metavar="FOLDER")
    plot.add_argument(
        "--figure", action="append", help="only this one; may be repeated"
    )
    plot.add_argument("--format", choices=["png", "pdf", "svg"], default="png")
    table = add["table"](table_command)
    table.add_argument("--csv", type=Path, help="write everything to this file as well")
    add["status"](status_command)
    repeat = add["repeat"](repeat_command)
    repeat.add_argument("key", help="result file, or the start of its key")
    return parser


def _command(
    commands: Any, name: str
) -> Callable[[Callable[[argparse.Namespace], int]], argparse.ArgumentParser]:
    """Return what adds a command with the arguments that all have."""

    def add(function: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = commands.add_parser(
            name,
            help=EXAMPLES[name].partition("\n")[0],
            description=EXAMPLES[name],
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.set_defaults(command=function)
        parser.add_argument(
            "--folder", type=Path, default=Path("results"), help="where results are"
        )
        if name == "repeat":
            return parser
        parser.add_argument("study", help="name of a shipped study, or a TOML file")
        part = parser.add_argument_group("a part of the study; each may be repeated")
        part.add_argument("--environment", action="append", metavar="ID")
        part.add_argument("--algorithm", action="append", metavar="NAME")
        part.add_argument("--availability", action="append", type=float, metavar="P")
        part.add_argument("--seeds", type=int, metavar="N", help="number of seeds")
        return parser

    return add


def _add_backend(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    group = parser.add_argument_group("where it runs")
    group.add_argument("--backend", choices=["joblib", "ray"], default="joblib")
    group.add_argument("--jobs", type=int, default=-1, help="processes (all cores)")
    group.add_argument("--address", help="of the Ray cluster, such as auto")
    group.add_argument("--any-version", action="store_true", help="keep old results")
    group.add_argument("--no-progress", action="store_true", help="no progress bar")
    return parser


def _study(options: argparse.Namespace) -> Study:
    return load_study(options.study).part(
        options.environment, options.algorithm, options.availability, options.seeds
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
    todo = searches(study, storage, options.sampler, options.pruner)
    if options.seeds is not None:
        seeds = tuple(todo[0].seeds[0] + i for i in range(options.seeds))
        todo = [replace(search, seeds=seeds) for search in todo]
    num_trials = options.trials or study.search.num_trials
    messages = run_search(
        todo, num_trials, options.output, _backend(options), not options.no_progress
    )
    print("\n".join(messages))
    print(f"presets are in {options.output}")
    return 0


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
        table = make(results)
        text = table.to_string(index=False, float_format="{:.4g}".format, na_rep="-")
        print(f"\n{title}\n{text}")
    print("\nscore: 0 is random play, 1 the optimum; intervals: 95 %, bootstrap")
    return 0


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
    for name, there in run.versions.items():
        if there != versions().get(name):
            print(f"note: {name} was {there} and is {versions().get(name)}")
    curve = execute(run)["curve"]
    print(f"{'step':>10} {'kept':>12} {'repeated':>12}")
    for step, old, new in zip(
        curve["step"], kept["mean_return"], curve["mean_return"], strict=True
    ):
        print(f"{step:>10} {old:>12.6g} {new:>12.6g}")
    same = curve["mean_return"] == kept["mean_return"]
    print("the curves are equal" if same else "the curves differ")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
