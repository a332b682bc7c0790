"""How figures look: styles of algorithms, panels of tasks, references, names.

The colours are Okabe and Ito's, which the colour-blind can distinguish, and every
algorithm has a line style and a marker as well, for print without colour.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

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


def grid(
    results: pd.DataFrame, ylabel: str
) -> tuple[Figure, Iterator[tuple[Axes, pd.DataFrame]]]:
    """Make a panel per task: rows by availability, columns by environment.

    Where most environments have variants of their own, the panels just follow each
    other.
    """
    tasks = list(dict.fromkeys(zip(results.environment, results.variant, strict=True)))
    environments = list(results.environment.unique())
    variants = sorted(results.variant.unique(), key=_place)
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


def _place(variant: str) -> tuple[float, str]:
    """Return the sort key of a variant: high availabilities first, others last."""
    try:
        return -float(variant.partition(",")[0]), variant
    except ValueError:
        return np.inf, variant


def draw_band(
    axes: Axes, group: pd.DataFrame, column: str, label: str, look: Style
) -> None:
    """Draw the mean of a column against steps, with one standard deviation."""
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


def say_steps(axes: Axes) -> None:
    """Label the axis of the steps."""
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlabel("steps")


def with_legend(figure: Figure) -> Figure:
    """Put one legend under all panels."""
    entries: dict[str, Any] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside lower center",
        ncols=max(int(figure.get_figwidth() / _legend_width(list(entries))), 1),
        frameon=False,
        handlelength=3.2,
    )
    return figure


def _legend_width(labels: list[str]) -> float:
    """Return about how many inches the widest entry of a legend takes with its line."""
    return 0.8 + 0.085 * max(map(len, labels), default=0)


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
