"""The signs that all pictures share: colours, line styles, captions and legends."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sas_gym.action_sets import Floats, Mask
from sas_gym.tasks._task import Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Style = dict[str, Any]
"""Keyword arguments for matplotlib."""
Place = Floats | tuple[float, float]
"""A point (x, y)."""

# Okabe and Ito's palette, which the colour-blind can tell apart; line styles and
# crosses go with it, so that nothing is said by colour alone.
AVAILABLE, UNAVAILABLE = "#009E73", "#D55E00"
HERE, GOAL = "#0072B2", "#F0E442"
INK, GREY, PALE = "#222222", "#8C8C8C", "#D4D4D4"
SMALL, MEDIUM, LARGE = 8, 10, 14  # points

OPEN: Style = {"color": AVAILABLE, "linewidth": 2.5}
CLOSED: Style = {"color": UNAVAILABLE, "linewidth": 1.3, "linestyle": (0, (4, 3))}
MARKER: Style = {"linestyle": "none", "markeredgecolor": INK}
CROSS: Style = {"color": UNAVAILABLE, "marker": "x", "markersize": 7, "mew": 1.8}
HERE_DOT: Style = {**MARKER, "color": HERE, "marker": "o", "markersize": 14}
GOAL_STAR: Style = {**MARKER, "color": GOAL, "marker": "*", "markersize": 24}
CROSS_LETTER = "\N{MULTIPLICATION SIGN}"

ARROW_SIGNS: Mapping[str, Style] = {
    "available": {**OPEN, "marker": ">", "markersize": 14},
    "unavailable": {**CROSS, **CLOSED, "markersize": 14},
}
"""Signs for the legend where actions are arrows."""


def caption(ax: "Axes", task: Task, detail: str) -> None:
    """Write the task's name and a detail above, and take the axes' lines away."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(task).__name__)
    # With a height of its own a title need not be fitted to ticks, which takes long.
    style: Style = {"y": 1.0, "fontsize": MEDIUM, "color": INK, "parse_math": False}
    ax.set_title(name, loc="left", fontweight="bold", **style)
    ax.set_title(detail, loc="right", **style)
    ax.set_axis_off()


def legend(ax: "Axes", signs: Mapping[str, Style]) -> None:
    """Explain signs in one row below."""
    handles = [
        ax.plot([], [], label=label, **style)[0] for label, style in signs.items()
    ]
    ax.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=len(handles),
        fontsize=SMALL,
        labelcolor=INK,
        frameon=False,
        markerscale=0.5,
    )


def show_square(ax: "Axes", centre: Floats, half_width: float) -> None:
    """Show a square of the plane, undistorted."""
    ax.set_xlim(centre[0] - half_width, centre[0] + half_width)
    ax.set_ylim(centre[1] - half_width, centre[1] + half_width)
    ax.set_aspect("equal")


def write(ax: "Axes", place: Place, text: str, **options: Any) -> None:
    """Write a text with its middle at a place; further options as for `Axes.text`."""
    x, y = place
    style: Style = {"ha": "center", "va": "center", "fontsize": SMALL, "color": INK}
    ax.text(x, y, text, parse_math=False, **style | options)


def width_in_points(ax: "Axes") -> float:
    """Return how wide axes are: markers and text are measured in points."""
    return 72 * float(ax.bbox.width) / ax.figure.dpi


def draw_arrow(
    ax: "Axes", points: Floats, is_open: bool, label: str, clearance: float
) -> None:
    """Draw an action that leads along a line.

    Args:
        ax: Where to draw.
        points: The line, [P, 2].
        is_open: Whether it is available: an arrow with the label, or else dashes with a
            cross.
        label: Usually the action's number; without one there is no arrowhead either.
        clearance: How far the tip stays away from the line's end, in points.
    """
    if not is_open:
        ax.plot(*points.T, **CLOSED)
        ax.plot(*_along(points, 0.5), **CROSS)
        return
    ax.plot(*points.T, **OPEN)
    if label:
        tip: Style = {"color": AVAILABLE, "linewidth": 0, "mutation_scale": 22}
        tip |= {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": clearance}
        ax.annotate("", tuple(points[-1]), tuple(_along(points, 0.75)), arrowprops=tip)
        draw_sign(ax, _along(points, 0.5), label, is_open)


def draw_sign(
    ax: "Axes", place: Place, label: str, is_open: bool, **options: Any
) -> None:
    """Write an action's label in a box, which is dashed and crossed if unavailable.

    Args:
        ax: Where to draw.
        place: Where on it, (x, y).
        label: The label.
        is_open: Whether the action is available.
        **options: As for `write`.
    """
    edge: Style = {"edgecolor": AVAILABLE if is_open else UNAVAILABLE}
    edge["linestyle"] = "-" if is_open else CLOSED["linestyle"]
    box = {"boxstyle": "round,pad=0.25", "facecolor": "white", **edge}
    text = label if is_open else f"{label} {CROSS_LETTER}"
    write(ax, place, text, bbox=box, **options)


def draw_rose(
    ax: "Axes",
    centre: Floats,
    arms: Floats,
    mask: Mask,
    labels: Sequence[str],
    label_distance: float = 1.25,
) -> None:
    """Draw actions that lead away from a point: arrows, or else dashes with a cross.

    Args:
        ax: Where to draw.
        centre: The point, [2].
        arms: Which way and how far each action leads, [A, 2].
        mask: The action set, [A].
        labels: What to write beyond the arrows' ends, if anything.
        label_distance: How far from the centre, over an arrow's length.
    """
    start = np.broadcast_to(centre, arms.shape)
    end = start + arms
    ax.plot(*segments(start[~mask], end[~mask]).T, **CLOSED)
    ax.plot(*(start + 0.85 * arms)[~mask].T, **CROSS | {"linestyle": "none"})
    plane: Style = {"angles": "xy", "scale_units": "xy", "scale": 1}
    ax.quiver(
        *start[mask].T, *arms[mask].T, color=AVAILABLE, units="dots", width=4, **plane
    )
    for place, label in zip(centre + label_distance * arms, labels, strict=False):
        write(ax, place, label)


def segments(start: Floats, end: Floats) -> Floats:
    """Join lines [M, 2] -> [M, 2] into one with gaps, [3 M, 2], which draws faster."""
    gap = np.full_like(start, np.nan)
    return np.stack([start, end, gap], axis=1).reshape(-1, 2)


def _along(points: Floats, share: float) -> Floats:
    """Return the point at a share of the way along a line, [2]."""
    step = np.hypot(*np.diff(points, axis=0).T)
    walked = np.concatenate([[0.0], step.cumsum()])
    return np.array([np.interp(share * walked[-1], walked, axis) for axis in points.T])
