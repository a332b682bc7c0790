"""The arguments of the command line, and the texts that explain them."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from sas_agents.study.definition._study_file import STUDIES, load_study

Command = Callable[[argparse.Namespace], int]
"""Carries a command out, and returns the exit code."""

OVERVIEW = """\
Run studies of agents on environments whose actions are not always available.

A study is a TOML file: environments with their availabilities, algorithms with their
arguments, steps, seeds, evaluation. These are shipped, and are examples to copy:
{studies}

  sas-study run quick                    every run that has no result yet
  sas-study status quick                 finished runs and missing runs
  sas-study table quick                  returns, scores and intervals
  sas-study plot quick                   learning curves and more, as PNG
  sas-study search quick --trials 20     better settings, written as presets
  sas-study compare mine --with results  means, differences, intervals

Every run leaves one small file in a folder (--folder, by default `results`). A command
that was interrupted, or killed, goes on where it was when it is given again. Where a
folder is asked for, the CSV file of a table will do. --folder may be given several
times.

A study file, a result that is repeated and a model file can run any code: use files of
people whom you trust.
"""
EXAMPLES = {
    "run": """\
Runs every run without a result, and writes one JSON file per run.

  sas-study run quick
  sas-study run my_study.toml --folder my_results --jobs 8
  sas-study run ours --environment SAS/Maze-v0 --availability 0.8 --seeds 5
  sas-study run ours --algorithm my_module:MyAlgorithm --algorithm SASPG
  sas-study run ours --algorithm '{ class = "my_module:train", greedy = true }'
  sas-study run ours --backend ray --address auto      on a Ray cluster

The name of a file is a hash of all that defines its run: environment, algorithm, their
arguments, seed, evaluation, and the versions of packages, agents and environments; of
your own code a hash of its files. So a finished run is never repeated, and several
studies can share a folder. After an update results are made again, unless you say
--any-version. With several --folder the first is written to, and runs whose results
are in the others are not repeated.

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

With one standard deviation over seeds in curves, 95 % intervals elsewhere, and the
optimum and random play drawn in.
""",
    "table": """\
Prints final scores with intervals, comparisons, and the steps to a score.

  sas-study table ours
  sas-study table ours --csv results.csv.gz     everything, a row per evaluation

The CSV file is read by `pandas.read_csv("results.csv.gz")`, and by --folder here.
""",
    "compare": """\
Compares your results with a reference: means, differences, chances, and profiles.

  sas-study compare my_results --with reference.csv.gz
  sas-study compare mine --with theirs --correct --output figures

Both are folders or CSV files, on whose common environments the policies are compared,
acting in the same way: sampled where both can, else greedily.
""",
    "status": """\
Shows how many runs of a study are done, by environment and algorithm.

  sas-study status ours
""",
    "repeat": """\
Repeats one run and compares its learning curve with the one that was kept.

  sas-study repeat results/0123456789abcdef.json
  sas-study repeat 0123 --folder results.csv.gz

On the same machine with the same versions the curves are equal. It runs any code that
the file names: use files of people whom you trust.
""",
}


def make_parser(commands: dict[str, Command]) -> argparse.ArgumentParser:
    """Return the parser of all commands; each sets `command` to its function."""
    shipped = "\n".join(
        f"  {path.stem:6} {load_study(path.stem).description}"
        for path in sorted(STUDIES.glob("*.toml"))
    )
    parser = _Parser(
        prog="sas-study",
        description=OVERVIEW.format(studies=shipped),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    adder = parser.add_subparsers(metavar="COMMAND", required=True)
    added = {name: _add_command(adder, name, commands[name]) for name in EXAMPLES}

    _add_backend(added["run"]).add_argument(
        "--any-version", action="store_true", help="keep results of other versions"
    )
    search = _add_backend(added["search"])
    search.add_argument("--trials", type=int, help="settings to try for each")
    search.add_argument("--sampler", choices=["random", "tpe"], default="random")
    search.add_argument("--pruner", choices=["none", "halving"], default="none")
    search.add_argument("--storage", help="file or URL (default: FOLDER/search.log)")
    search.add_argument(
        "--output", type=Path, default=Path("presets.toml"), metavar="FILE"
    )
    plot = added["plot"]
    plot.add_argument("--output", type=Path, default=Path("figures"), metavar="FOLDER")
    plot.add_argument(
        "--figure", action="append", help="only this one; may be repeated"
    )
    plot.add_argument("--format", choices=["png", "pdf", "svg"], default="png")
    added["table"].add_argument(
        "--csv", type=Path, help="write everything to this file as well"
    )
    added["repeat"].add_argument("key", help="result file, or the start of its key")
    _add_comparison(added["compare"])
    return parser


class _Parser(argparse.ArgumentParser):
    """A parser that names a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        """Print the message and exit."""
        self.exit(2, f"sas-study: {message}; see {self.prog} --help\n")


def _add_comparison(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "mine", type=Path, nargs="+", help="folders or CSV files of your results"
    )
    parser.add_argument(
        "--with",
        dest="reference",
        type=Path,
        nargs="+",
        required=True,
        metavar="REFERENCE",
        help="folders or CSV files of the reference",
    )
    parser.add_argument("--study", help="the study that your results are of")
    parser.add_argument(
        "--correct",
        action="store_true",
        help="correct the p-values for their number, by Holm's method",
    )
    parser.add_argument("--csv", type=Path, help="write the comparison to this file")
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="draw figures in this folder"
    )


def _add_command(adder: Any, name: str, command: Command) -> argparse.ArgumentParser:
    """Add a command with the arguments that all have."""
    parser: argparse.ArgumentParser = adder.add_parser(
        name,
        help=EXAMPLES[name].partition("\n")[0],
        description=EXAMPLES[name],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=command)
    if name == "compare":
        return parser
    parser.add_argument(
        "--folder",
        type=Path,
        action="append",
        help="where results are, or a CSV file of them (default: results); may be "
        "repeated",
    )
    if name == "repeat":
        return parser
    parser.add_argument("study", help="name of a shipped study, or a TOML file")
    part = parser.add_argument_group("a part of the study; each may be repeated")
    part.add_argument(
        "--environment",
        action="append",
        metavar="ID",
        help="an id of the study, or an own one, module:name",
    )
    part.add_argument(
        "--algorithm",
        action="append",
        metavar="NAME",
        help="a name in the study; or an own one, module:name, or a table of TOML",
    )
    part.add_argument("--availability", action="append", type=float, metavar="P")
    part.add_argument("--seeds", type=int, metavar="N", help="number of seeds")
    return parser


def _add_backend(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    group = parser.add_argument_group("where it runs")
    group.add_argument("--backend", choices=["joblib", "ray"], default="joblib")
    group.add_argument("--jobs", type=int, default=-1, help="processes (all cores)")
    group.add_argument("--address", help="of the Ray cluster, such as auto")
    group.add_argument("--no-progress", action="store_true", help="no progress bar")
    return parser
