"""The functions that draw a task, and how they draw a task they do not know."""

from functools import singledispatch
from math import ceil, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from sas_gym._types import Mask
from sas_gym.rendering._style import (
    AVAILABLE,
    CROSS,
    DARK,
    LARGE,
    MARKER,
    UNAVAILABLE,
    draw_legend,
    width_in_points,
    write_labels,
    write_summary,
    write_title,
)
from sas_gym.tasks._task import Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_CELLS = 900
MAX_NUMBERED_CELLS = 225
MIN_COLUMNS = 8
CELLS_HEIGHT = 0.75  # share of the axes


@singledispatch
def draw(task: Task, ax: "Axes", state: Any, mask: Mask) -> None:
    """Draw the state and the action set of one environment.

    It calls the function that `draw.register` knows for the task's class or its closest
    base class. Without one, it writes the state as text and draws one cell per action.

    Args:
        task: The task.
        ax: Where to draw: axes of matplotlib, empty and transparent, with the limits
            and the aspect that `draw_background` set.
        state: The state of one environment.
        mask: Its action set, [A].
    """
    shown = f", first {MAX_CELLS} shown" if mask.size > MAX_CELLS else ""
    write_title(ax, task)
    write_summary(ax, f"{mask.sum()} of {mask.size} actions available{shown}")
    ax.text(0, 1, f"state\n{_as_text(state)}", va="top", color=DARK, family="monospace")
    _draw_cells(ax, mask[:MAX_CELLS])


@singledispatch
def draw_outcome(
    task: Task,  # for the functions that are registered
    ax: "Axes",
    state: Any,
    outcome: int,
) -> None:
    """Draw the outcome that decided the action set, such as dice; by default nothing.

    It is called where the action sets are `Outcomes`.

    Args:
        task: The task.
        ax: Where to draw.
        state: The state of one environment.
        outcome: Number of the outcome.
    """


@singledispatch
def draw_background(
    task: Task,  # noqa: ARG001  # for the functions that are registered
    ax: "Axes",
) -> None:
    """Draw the part that no state and no action set changes; by default nothing.

    It is drawn once per task and lies below what `draw` draws. A background is worth
    registering for what takes long: a legend, names, hundreds of lines.

    Args:
        task: The task.
        ax: Where to draw; its limits and its aspect also hold for `draw`.
    """
    ax.set_axis_off()


def _as_text(state: Any) -> str:
    """Write a state in at most five lines of 60 characters."""
    text = np.array2string(
        np.asarray(state), precision=3, threshold=24, edgeitems=2, max_line_width=60
    )
    lines = text.splitlines()
    return "\n".join(lines if len(lines) <= 5 else [*lines[:4], "..."])


def _draw_cells(ax: "Axes", mask: Mask) -> None:
    """Draw one cell per action: filled if available, else hollow with a cross."""
    count = mask.size
    columns = count if count <= MIN_COLUMNS else ceil(sqrt(count / CELLS_HEIGHT))
    row, column = np.divmod(np.arange(count), columns)
    pitch = 1 / max(columns, MIN_COLUMNS)
    x, y = (column + 0.5) * pitch, CELLS_HEIGHT - (row + 0.5) * pitch
    size = 0.8 * pitch * width_in_points(ax)
    filled = {**MARKER, "marker": "s", "color": AVAILABLE, "markeredgecolor": AVAILABLE}
    hollow = {**filled, "color": "none", "markeredgecolor": UNAVAILABLE}
    ax.plot(x[mask], y[mask], **filled, markersize=size)
    ax.plot(x[~mask], y[~mask], **hollow, markersize=size)
    if count <= MAX_NUMBERED_CELLS:
        corner = 0.28 * pitch
        small = {**CROSS, "markersize": size / 6}
        ax.plot(x[~mask] + corner, y[~mask] + corner, **small)
        colors = np.where(mask, "white", DARK).tolist()
        write_labels(ax, np.stack([x, y], axis=1), map(str, range(count)), colors)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    large = {"markersize": LARGE}
    draw_legend(ax, {"available": filled | large, "unavailable": hollow | large})
