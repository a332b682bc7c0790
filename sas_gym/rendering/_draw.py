"""The function that draws a task, and how it draws a task it does not know."""

from functools import singledispatch
from math import ceil, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from sas_gym.action_sets import Floats, Mask
from sas_gym.rendering._style import (
    AVAILABLE,
    CROSS,
    INK,
    LARGE,
    MARKER,
    UNAVAILABLE,
    caption,
    legend,
    width_in_points,
    write,
)
from sas_gym.tasks._task import Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CELLS = 900
MOST_NUMBERS = 225
LONGEST_ROW = 8
CELLS_HEIGHT = 0.75  # share of the axes


@singledispatch
def draw(task: Task, ax: "Axes", state: Any, mask: Mask) -> None:
    """Draw one lane's state and action set.

    It calls the drawing that `draw.register` knows for the task's class or its closest
    base class. Without one, it writes the state down and draws one cell an action.

    Args:
        task: The task.
        ax: Where to draw: axes of matplotlib.
        state: The state of one lane.
        mask: Its action set, [A].
    """
    first = f", first {MOST_CELLS} shown" if mask.size > MOST_CELLS else ""
    caption(ax, task, f"{mask.sum()} of {mask.size} actions available{first}")
    ax.text(0, 1, f"state\n{_written(state)}", va="top", color=INK, family="monospace")
    _draw_cells(ax, mask[:MOST_CELLS])


def _written(state: Any) -> str:
    """Write a state in a few lines of at most 60 letters."""
    text = np.array2string(
        np.asarray(state), precision=3, threshold=24, edgeitems=2, max_line_width=60
    )
    lines = text.splitlines()
    return "\n".join(lines if len(lines) <= 5 else [*lines[:4], "..."])


def _draw_cells(ax: "Axes", mask: Mask) -> None:
    """Draw one cell an action, filled if it is available and hollow if not."""
    count = mask.size
    columns = count if count <= LONGEST_ROW else ceil(sqrt(count / CELLS_HEIGHT))
    row, column = np.divmod(np.arange(count), columns)
    pitch = 1 / max(columns, LONGEST_ROW)
    x, y = (column + 0.5) * pitch, CELLS_HEIGHT - (row + 0.5) * pitch
    size = 0.8 * pitch * width_in_points(ax)
    corner = 0.28 * pitch
    filled = {**MARKER, "marker": "s", "color": AVAILABLE, "markeredgecolor": AVAILABLE}
    hollow = {**filled, "color": "none", "markeredgecolor": UNAVAILABLE}
    cross = {**CROSS, "linestyle": "none"}
    ax.plot(x[mask], y[mask], **filled, markersize=size)
    ax.plot(x[~mask], y[~mask], **hollow, markersize=size)
    if count <= MOST_NUMBERS:
        ax.plot(
            x[~mask] + corner, y[~mask] + corner, **cross | {"markersize": size / 6}
        )
        _number_cells(ax, x, y, mask)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    large = {"markersize": LARGE}
    legend(ax, {"available": filled | large, "unavailable": hollow | large})


def _number_cells(ax: "Axes", x: Floats, y: Floats, mask: Mask) -> None:
    """Write the actions' numbers into their cells, [A]."""
    for action, is_open in enumerate(mask):
        ink = "white" if is_open else INK
        write(ax, (x[action], y[action]), str(action), color=ink)
