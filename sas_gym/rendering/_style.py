"""What all drawings share: colours, line styles, text, legends and arrows."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sas_gym._types import Floats, Mask
from sas_gym.tasks._task import Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.path import Path

Style = dict[str, Any]
"""Keyword arguments for matplotlib."""
Point = Floats | tuple[float, float]
"""A point (x, y)."""

# Okabe and Ito's palette, which the colour-blind can distinguish; line styles and
# crosses go with it, so that nothing is said by colour alone.
AVAILABLE, UNAVAILABLE = "#009E73", "#D55E00"
CURRENT, GOAL = "#0072B2", "#F0E442"
DARK, GREY, PALE = "#222222", "#8C8C8C", "#D4D4D4"
SMALL, MEDIUM, LARGE = 8, 10, 14  # points

SOLID: Style = {"color": AVAILABLE, "linewidth": 2.5}
DASHED: Style = {"color": UNAVAILABLE, "linewidth": 1.3, "linestyle": (0, (4, 3))}
MARKER: Style = {"linestyle": "none", "markeredgecolor": DARK}
CROSS: Style = {
    "color": UNAVAILABLE,
    "linestyle": "none",
    "marker": "x",
    "markersize": 7,
    "mew": 1.8,
}
CURRENT_DOT: Style = {**MARKER, "color": CURRENT, "marker": "o", "markersize": 14}
GOAL_STAR: Style = {**MARKER, "color": GOAL, "marker": "*", "markersize": 24}

ARROW_LEGEND: Mapping[str, Style] = {
    "available": {**SOLID, "marker": ">", "markersize": 14},
    "unavailable": {**CROSS, **DASHED, "markersize": 14},
}
"""Legend where actions are arrows."""


def show_square(ax: "Axes", centre: Floats, half_width: float) -> None:
    """Show a square of the plane, undistorted."""
    ax.set_xlim(centre[0] - half_width, centre[0] + half_width)
    ax.set_ylim(centre[1] - half_width, centre[1] + half_width)
    ax.set_aspect("equal")


def width_in_points(ax: "Axes") -> float:
    """Return how wide axes are: markers and text are measured in points."""
    return 72 * float(ax.bbox.width) / ax.figure.dpi


def write_title(ax: "Axes", task: Task) -> None:
    """Write the name of the task above axes, on the left, and hide their lines."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(task).__name__)
    _write_above(ax, name, loc="left", fontweight="bold")


def write_summary(ax: "Axes", summary: str) -> None:
    """Write a summary above axes, on the right, and hide their lines."""
    _write_above(ax, summary, loc="right")


def write_footer(ax: "Axes", text: str) -> None:
    """Write a line at the foot of the picture, below the legend."""
    style: Style = {"fontsize": SMALL, "color": DARK, "parse_math": False}
    ax.figure.text(0.5, 0.004, text, ha="center", va="bottom", **style)


def write(ax: "Axes", point: Point, text: str, **options: Any) -> None:
    """Write a text centred at a point; further options as for `Axes.text`."""
    x, y = point
    style: Style = {"ha": "center", "va": "center", "fontsize": SMALL, "color": DARK}
    ax.text(x, y, text, parse_math=False, **style | options)


def write_labels(
    ax: "Axes",
    points: Floats,
    labels: Iterable[str],
    colors: str | Sequence[str] = DARK,
    size: float = SMALL,
) -> None:
    """Write many labels of one line each, as a single artist.

    A text per label would take about 1 ms each, which is most of a frame's time.

    Args:
        ax: Where to write.
        points: The centres of the labels, [M, 2].
        labels: The labels.
        colors: Their colours, or that of all.
        size: Their size in points.
    """
    from matplotlib.collections import PathCollection
    from matplotlib.transforms import Affine2D

    collection = PathCollection(
        [_outline(label, size) for label in labels],
        offsets=points,
        offset_transform=ax.transData,
        facecolors=colors,
        linewidths=0,
        clip_on=False,
        zorder=3,
    )
    # Outlines are in points, 72 per inch; the figure scales inches to pixels.
    collection.set_transform(Affine2D().scale(1 / 72) + ax.figure.dpi_scale_trans)
    ax.add_collection(collection, autolim=False)


def draw_legend(ax: "Axes", styles: Mapping[str, Style]) -> None:
    """Explain styles in one row below axes."""
    handles = [
        ax.plot([], [], label=label, **style)[0] for label, style in styles.items()
    ]
    ax.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        borderaxespad=0.0,
        ncols=len(handles),
        fontsize=SMALL,
        labelcolor=DARK,
        frameon=False,
        markerscale=0.5,
    )


def draw_arrows(ax: "Axes", origin: Floats, vectors: Floats, mask: Mask) -> None:
    """Draw actions that lead away from a point: arrows, or else dashes with a cross.

    Args:
        ax: Where to draw.
        origin: The point, [2].
        vectors: Which way and how far each action leads, [A, 2].
        mask: The action set, [A].
    """
    start = np.broadcast_to(origin, vectors.shape)
    draw_lines(ax, np.stack([start, start + vectors], axis=1)[~mask], DASHED)
    ax.plot(*(start + 0.85 * vectors)[~mask].T, **CROSS)
    plane: Style = {"angles": "xy", "scale_units": "xy", "scale": 1}
    ax.quiver(
        *start[mask].T,
        *vectors[mask].T,
        color=AVAILABLE,
        units="dots",
        width=4,
        **plane,
    )


def draw_lines(ax: "Axes", lines: Iterable[Floats], style: Style) -> None:
    """Draw lines, each [P, 2], as a single artist."""
    from matplotlib.collections import LineCollection

    ax.add_collection(LineCollection(list(lines), **style), autolim=False)


def _write_above(ax: "Axes", text: str, **options: Any) -> None:
    # With a height of its own a title need not be fitted to ticks, which takes long.
    ax.set_title(text, y=1.0, fontsize=MEDIUM, color=DARK, parse_math=False, **options)
    ax.set_axis_off()


@lru_cache(maxsize=1024)
def _outline(label: str, size: float) -> "Path":
    """Return the outline of a label around the origin, in points."""
    from matplotlib.path import Path
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    if not label.strip():
        return Path(np.empty((0, 2)))
    # A dollar would begin a formula.
    outline = TextPath((0, 0), label.replace("$", r"\$"), size=size)
    box = outline.get_extents()
    return outline.transformed(
        Affine2D().translate(-(box.x0 + box.x1) / 2, -(box.y0 + box.y1) / 2)
    )
