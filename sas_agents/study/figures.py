"""The figures of a study, from its table of results.

Every function takes the table that `collect` returns and gives a Matplotlib figure.
Colours are those of Okabe and Ito, which the colour-blind can distinguish, and every
algorithm has a line style and a marker as well, for print without colour.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from sas_agents.study._runs import LAMBDAS
from sas_agents.study.statistics import (
    aggregate_table,
    final_rows,
    improvement_table,
    performance_profile,
    profile_band,
    scores_by_task,
)

OKABE_ITO = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
LINES = "-", "--", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2))
MARKERS = "osD^vP"
BAND = 0.15


class Style(NamedTuple):
    """How an algorithm is drawn."""

    color: str
    linestyle: Any
    marker: str


def styles(labels: list[str]) -> dict[str, Style]:
    """Return a style per algorithm."""
    looks = [Style(*look) for look in zip(OKABE_ITO, LINES, MARKERS, strict=True)]
    return {label: looks[i % len(looks)] for i, label in enumerate(labels)}


def learning_curves(results: pd.DataFrame) -> Figure:
    """Draw mean return against steps, with one standard deviation over seeds.

    A row per availability and a column per environment, as in the paper.
    """
    figure, panels = _grid(results, "mean return")
    looks = styles(list(results.label.unique()))
    for axes, task in panels:
        draw_references(axes, task)
        for label, group in task.groupby("label", sort=False):
            _draw_band(axes, group, "mean_return", label, looks[label])
        _say_steps(axes)
    return _with_legend(figure)


def baseline_weights(results: pd.DataFrame) -> Figure:
    """Draw the two adapted weights of each algorithm that has them, over training."""
    columns = [name for name in LAMBDAS if name in results]
    with_weights = results[results[columns].notna().any(axis=1)]
    if not columns or with_weights.empty:
        raise ValueError("no result has logged baseline weights: only SASPG has them")
    figure, panels = _grid(with_weights, "weight of the baseline")
    labels = list(with_weights.label.unique())
    names = {
        LAMBDAS[0]: r"$\lambda_1$, of $\hat v$",
        LAMBDAS[1]: r"$\lambda_2$, of $\bar q$",
    }
    series = [(label, name) for label in labels for name in columns]
    looks = styles([f"{label} {name}" for label, name in series])
    for axes, task in panels:
        axes.axhline(0, color="black", lw=0.6)
        for label, name in series:
            group = task[(task.label == label) & task[name].notna()]
            legend = names[name] if len(labels) == 1 else f"{label}: {names[name]}"
            if len(group):
                _draw_band(axes, group, name, legend, looks[f"{label} {name}"])
        _say_steps(axes)
    return _with_legend(figure)


def performance_by_availability(results: pd.DataFrame) -> Figure:
    """Draw the final return against availability, with one standard deviation."""
    final = final_rows(results)
    final = final[final.availability.notna()]
    environments = list(final.environment.unique())
    looks = styles(list(results.label.unique()))
    figure = Figure(figsize=(3.2 * len(environments) + 0.6, 3.4), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(environments)))
    for axes, environment in zip(panels, environments, strict=True):
        group = final[final.environment == environment]
        known = group.drop_duplicates("availability").sort_values("availability")
        ticks = known.availability.tolist()
        if len(ticks) == 1:
            draw_references(axes, known)
        else:
            axes.plot(ticks, known.optimal, "k-", lw=1, label="optimum")
            axes.plot(ticks, known.random, color="0.4", ls=":", label="random")
        labels = list(group.label.unique())
        for i, label in enumerate(labels):
            returns = group[group.label == label].groupby("availability").mean_return
            # A little apart, or error bars hide each other.
            shifted = returns.mean().index + 0.012 * (i - (len(labels) - 1) / 2)
            axes.errorbar(
                shifted,
                returns.mean(),
                returns.std(ddof=1).fillna(0),
                label=label,
                capsize=2,
                lw=1.3,
                ms=4,
                **looks[label]._asdict(),
            )
        axes.set(title=short_name(environment), xlabel="availability", xticks=ticks)
        axes.set_xlim(min(ticks) - 0.08, max(ticks) + 0.08)
        axes.grid(alpha=0.25)
    panels[0].set_ylabel("final mean return")
    return _with_legend(figure)


def performance_profiles(results: pd.DataFrame) -> Figure:
    """Draw the share of runs above each score, with a 95 % bootstrap band."""
    thresholds = np.linspace(0, 1, 201)
    figure = Figure(figsize=(5.2, 3.6), layout="constrained")
    axes = figure.subplots()
    for label, look in styles(list(results.label.unique())).items():
        scores = scores_by_task(results, label)
        if not scores:
            continue
        profile = performance_profile(scores, thresholds)
        axes.plot(
            thresholds,
            profile,
            label=label,
            lw=1.6,
            markevery=40,
            ms=4,
            **look._asdict(),
        )
        low, high = profile_band(scores, thresholds)
        axes.fill_between(thresholds, low, high, color=look.color, alpha=BAND, lw=0)
    axes.set(
        xlabel="score: 0 is random play, 1 the optimum",
        ylabel="share of runs above it",
        ylim=(-0.02, 1.02),
    )
    axes.grid(alpha=0.25)
    return _with_legend(figure)


def score_intervals(results: pd.DataFrame) -> Figure:
    """Draw interquartile means and probabilities of improvement, with intervals."""
    means, improvements = aggregate_table(results), improvement_table(results)
    height = 1.2 + 0.32 * max(len(means), len(improvements))
    figure = Figure(figsize=(8.5, height), layout="constrained")
    left, right = figure.subplots(1, 2)
    looks = styles(list(results.label.unique()))
    colors = [looks[label].color for label in means.algorithm]
    _draw_intervals(left, means, "IQM score", list(means.algorithm), colors)
    pairs = [
        f"{x} over {y}" for x, y in zip(improvements.X, improvements.Y, strict=True)
    ]
    _draw_intervals(right, improvements, "P(X > Y)", pairs, ["black"] * len(pairs))
    left.set(title="Interquartile mean of the score", xlabel="score")
    right.axvline(0.5, color="0.4", ls=":", lw=1)
    right.set(title="Probability of improvement", xlim=(-0.03, 1.03), xlabel="P(X > Y)")
    return figure


def final_returns(results: pd.DataFrame) -> Figure:
    """Draw the final return of every seed, and beside it the time that a run takes."""
    final = final_rows(results)
    figure, panels = _grid(final, "")
    looks = styles(list(results.label.unique()))
    for axes, task in panels:
        draw_references(axes, task, horizontal=False)
        labels = list(task.label.unique())
        for row, label in enumerate(labels):
            group, look = task[task.label == label], looks[label]
            axes.scatter(
                group.mean_return,
                np.full(len(group), row),
                s=18,
                color=look.color,
                marker=look.marker,
                alpha=0.6,
                lw=0,
            )
            mean = group.mean_return.mean()
            axes.plot([mean], [row], "|", color=look.color, ms=15, mew=2)
        seconds = task.groupby("label", sort=False).seconds.mean()
        names = [f"{label}, {seconds[label]:.0f} s" for label in labels]
        axes.set_yticks(range(len(labels)), names, fontsize="small")
        axes.set_ylim(len(labels) - 0.5, -0.5)
        axes.set_xlabel("final mean return")
    return _with_legend(figure)


FIGURES: dict[str, Callable[[pd.DataFrame], Figure]] = {
    "learning_curves": learning_curves,
    "final_returns": final_returns,
    "baseline_weights": baseline_weights,
    "performance_by_availability": performance_by_availability,
    "performance_profiles": performance_profiles,
    "score_intervals": score_intervals,
}


def _draw_intervals(
    axes: Axes, table: pd.DataFrame, column: str, names: list[str], colors: list[str]
) -> None:
    for row, (_, entry) in enumerate(table.iterrows()):
        if np.isfinite(entry.low):
            axes.plot(
                [entry.low, entry.high],
                [row, row],
                color=colors[row],
                lw=7,
                alpha=0.35,
                solid_capstyle="butt",
            )
        axes.plot([entry[column]], [row], "|", color=colors[row], ms=13, mew=2.5)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="x", alpha=0.25)


def _grid(
    results: pd.DataFrame, ylabel: str
) -> tuple[Figure, Iterator[tuple[Axes, pd.DataFrame]]]:
    """Make a panel per task: rows by availability, columns by environment.

    Where most environments have variants of their own, the panels just follow each
    other.
    """
    tasks = list(dict.fromkeys(zip(results.environment, results.variant, strict=True)))
    environments = list(results.environment.unique())
    variants = sorted(results.variant.unique(), reverse=True)
    if 2 * len(tasks) > len(environments) * len(variants):
        cells = [(e, v) for v in variants for e in environments]
        num_columns = len(environments)
    else:
        cells, num_columns = tasks, min(len(tasks), 4)
    num_rows = -(-len(cells) // num_columns)
    figure = Figure(
        figsize=(3.2 * num_columns + 0.6, 2.4 * num_rows + 0.8), layout="constrained"
    )
    grid = figure.subplots(num_rows, num_columns, squeeze=False)

    def panels() -> Iterator[tuple[Axes, pd.DataFrame]]:
        for row in range(num_rows):
            unlabelled = True
            for column in range(num_columns):
                axes, place = grid[row, column], row * num_columns + column
                if place >= len(cells) or cells[place] not in tasks:
                    axes.remove()
                    continue
                environment, variant = cells[place]
                chosen = results.environment == environment
                axes.set_title(task_name(environment, variant), fontsize="medium")
                axes.grid(alpha=0.25)
                if unlabelled:
                    axes.set_ylabel(ylabel)
                    unlabelled = False
                yield axes, results[chosen & (results.variant == variant)]

    return figure, panels()


def _draw_band(
    axes: Axes, group: pd.DataFrame, column: str, label: str, look: Style
) -> None:
    by_step = group.groupby("step")[column]
    mean, deviation = by_step.mean(), by_step.std(ddof=1).fillna(0)
    axes.plot(
        mean.index,
        mean,
        label=label,
        lw=1.6,
        ms=4,
        markevery=max(len(mean) // 6, 1),
        **look._asdict(),
    )
    axes.fill_between(
        mean.index,
        mean - deviation,
        mean + deviation,
        color=look.color,
        alpha=BAND,
        lw=0,
    )


def draw_references(axes: Axes, task: pd.DataFrame, horizontal: bool = True) -> None:
    """Draw the optimum and random play as lines, where they are known."""
    draw = axes.axhline if horizontal else axes.axvline
    optimal, random = task.optimal.iloc[0], task.random.iloc[0]
    if np.isfinite(optimal):
        draw(optimal, color="black", lw=1, label="optimum")
    if np.isfinite(random):
        draw(random, color="0.4", lw=1.2, ls=":", label="random")


def _say_steps(axes: Axes) -> None:
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlabel("steps")


def _with_legend(figure: Figure) -> Figure:
    """Put one legend under all panels."""
    entries: dict[str, Any] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside lower center",
        # An entry with its line is about this many inches wide.
        ncols=max(int(figure.get_figwidth() / 1.7), 1),
        frameon=False,
        handlelength=3.2,
    )
    return figure


def short_name(environment: str) -> str:
    """Return an id, or an entry point, as a title.

    Example:
        >>> short_name("SAS/SanFrancisco-v0"), short_name("my_module:grid")
        ('San Francisco', 'grid')
    """
    name = environment.rpartition(":")[2].rpartition("/")[2]
    name = name.rpartition("-v")[0] or name
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)


def task_name(environment: str, variant: str) -> str:
    """Return an environment and its variant as a title.

    Example:
        >>> task_name("SAS/Maze-v0", "0.8"), task_name("Taxi-v4", "")
        ('Maze, availability 0.8', 'Taxi')
    """
    first, _, others = variant.partition(", ")
    try:
        first = f"availability {float(first):g}"
    except ValueError:
        first, others = "", variant
    # The rest, such as a time limit, would not fit over a panel.
    sets = [others] if "(" in others else []
    return ", ".join([short_name(environment), *filter(None, [first]), *sets])
