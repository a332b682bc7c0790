"""The commands that read results: table, plot and compare."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sas_agents.study._files import make_folder
from sas_agents.study.commands._options import (
    check_output,
    read_all,
    results_of,
    study_of,
)
from sas_agents.study.definition._study_file import load_study

if TYPE_CHECKING:
    import pandas as pd

ROUGH = (
    "rough: fewer than 10 seeds, which rarely show a run that fails once in ten; "
    "intervals: 95 %, Student's t, of a difference Welch's"
)


def plot_command(options: argparse.Namespace) -> int:
    """Draw figures."""
    from sas_agents.study.figures import FIGURES

    names = options.figure or list(FIGURES)
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        raise ValueError(
            f"there is no figure {unknown[0]!r}; there are {list(FIGURES)}"
        )
    make_folder(options.output, "--output")
    results = results_of(options, study_of(options))
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

    if options.csv is not None:
        check_output(options.csv, "--csv")
    results = results_of(options, study_of(options))
    if options.csv is not None:
        write_csv(results, options.csv)
        print(f'everything: pandas.read_csv("{options.csv}")')
    for title, make in (
        ("Final scores", statistics.final_table),
        ("Mean score", statistics.aggregate_table),
        ("Probability of improvement", statistics.improvement_table),
        ("Steps to a score for good, median over seeds", statistics.efficiency_table),
    ):
        show(title, make(results))
    print(f"\n{scale_of(results)}\n±, low, high: 95 % intervals. {ROUGH}")
    return 0


def compare_command(options: argparse.Namespace) -> int:
    """Compare results with a reference."""
    from sas_agents.study import figures, statistics

    if options.csv is not None:
        check_output(options.csv, "--csv")
    if options.output is not None:
        make_folder(options.output, "--output")
    study = None if options.study is None else load_study(options.study)
    mine = read_all(options.mine, study)
    reference = read_all(options.reference, None)
    name = ", ".join(_short(path) for path in options.mine)
    results = statistics.renamed(mine, reference, name)
    theirs = list(reference.label.unique())
    ours = [label for label in results.label.unique() if label not in theirs]
    table = statistics.comparison_table(results, ours, theirs, correct=options.correct)
    if options.csv is not None:
        table.to_csv(options.csv, index=False)
    show("Comparison", table)
    show("Share of runs above a score", statistics.profile_table(results))
    from sas_agents.study.analysis._comparison import budgets

    for line in budgets(results):
        print(f"note: {line}")
    corrected = "corrected by Holm" if options.correct else "not corrected"
    print(f"\n{scale_of(results)}\np-values: two-sided, {corrected}. {ROUGH}")
    if options.output is not None:
        for figure in ("performance_profiles", "score_intervals", "learning_curves"):
            path = options.output / f"{figure}.png"
            try:
                figures.FIGURES[figure](results).savefig(path, dpi=150)
                print(path)
            except ValueError as error:
                print(f"{figure} left out: {error}")
    return 0


def _short(path: Path) -> str:
    return path.name.partition(".")[0] or str(path)


def show(title: str, table: "pd.DataFrame") -> None:
    """Print a table, without the columns in which nothing is known."""
    table = table.replace("", None).dropna(axis="columns", how="all")
    if len(table):
        text = table.to_string(index=False, float_format="{:.4g}".format, na_rep="-")
        print(f"\n{title}\n{text.replace('None', '-')}")


def write_csv(results: "pd.DataFrame", path: Path) -> None:
    """Write everything, so that the same table is the same file."""
    compression: Any = "infer"
    if path.suffix == ".gz":
        compression = {"method": "gzip", "mtime": 0}
    results.to_csv(path, index=False, compression=compression)


def scale_of(results: "pd.DataFrame") -> str:
    """Explain the score, and name the environments without one."""
    unknown = sorted(set(results.environment[results.score.isna()]))
    if not unknown:
        return "score: 0 is random play, 1 the optimum"
    if results.score.isna().all():
        return "no scores, as no optimum is known"
    return (
        "score: 0 is random play, 1 the optimum, which is not known everywhere in "
        f"{', '.join(unknown)}"
    )
