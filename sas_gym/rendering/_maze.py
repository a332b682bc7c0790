"""A drawing of the maze."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from sas_gym._types import Floats, Mask
from sas_gym.rendering._draw import draw, draw_background
from sas_gym.rendering._style import (
    ARROW_LEGEND,
    CURRENT_DOT,
    DARK,
    GOAL,
    GOAL_STAR,
    GREY,
    draw_arrows,
    draw_legend,
    show_square,
    write_labels,
    write_summary,
    write_title,
)
from sas_gym.tasks._maze import Maze

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ARROW_LENGTH, NUMBER_DISTANCE = 0.105, 0.14
"""From the agent; the maze's side is 1."""
HALF_WIDTH = 0.66
"""Half the width of the picture, so that arrows at the rim are inside."""
MAX_NUMBERS = 24
UNIT_SQUARE = (0.0, 1.0, 0.0, 1.0)


@draw_background.register(Maze)
def draw_maze_background(maze: Maze, ax: "Axes") -> None:
    """Draw the walls and the goal."""
    show_square(ax, np.array([0.5, 0.5]), HALF_WIDTH)
    for wall in maze.walls:
        _draw_box(ax, wall, facecolor=GREY)
    _draw_box(ax, UNIT_SQUARE, facecolor="none", edgecolor=DARK)
    _draw_box(ax, maze.goal, facecolor=GOAL, alpha=0.4)
    ax.plot(*maze.goal.reshape(2, 2).mean(axis=1), **GOAL_STAR)
    write_title(ax, maze)
    draw_legend(ax, {**ARROW_LEGEND, "agent": CURRENT_DOT, "goal": GOAL_STAR})


@draw.register(Maze)
def draw_maze(maze: Maze, ax: "Axes", state: Floats, mask: Mask) -> None:
    """Draw the agent, with one arrow per actuator."""
    draw_arrows(ax, state, ARROW_LENGTH * maze.directions, mask)
    if mask.size <= MAX_NUMBERS:
        places = state + NUMBER_DISTANCE * maze.directions
        write_labels(ax, places, map(str, range(mask.size)))
    ax.plot(*state, **CURRENT_DOT)
    write_summary(ax, f"{mask.sum()} of {mask.size} actuators available")


def _draw_box(ax: "Axes", box: Iterable[float], **style: Any) -> None:
    x_low, x_high, y_low, y_high = box
    ax.fill([x_low, x_high, x_high, x_low], [y_low, y_low, y_high, y_high], **style)
