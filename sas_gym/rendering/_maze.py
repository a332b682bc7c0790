"""A drawing of the maze."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from sas_gym.action_sets import Floats, Mask
from sas_gym.rendering._draw import draw
from sas_gym.rendering._style import (
    ARROW_SIGNS,
    GOAL,
    GOAL_STAR,
    GREY,
    HERE_DOT,
    INK,
    caption,
    draw_rose,
    legend,
    show_square,
)
from sas_gym.tasks._maze import Maze

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ARROW = 0.105
"""Length of an arrow; the maze's side is 1."""
HALF_WIDTH = 0.63
"""Half the width of the picture, so that arrows at the rim are inside."""
MOST_NUMBERS = 24
UNIT_SQUARE = (0.0, 1.0, 0.0, 1.0)


@draw.register(Maze)
def draw_maze(maze: Maze, ax: "Axes", state: Floats, mask: Mask) -> None:
    """Draw the walls, the goal, and the agent with one arrow an actuator."""
    show_square(ax, np.array([0.5, 0.5]), HALF_WIDTH)
    for wall in maze.walls:
        _draw_box(ax, wall, facecolor=GREY)
    _draw_box(ax, UNIT_SQUARE, facecolor="none", edgecolor=INK)
    _draw_box(ax, maze.goal, facecolor=GOAL, alpha=0.4)
    ax.plot(*maze.goal.reshape(2, 2).mean(axis=1), **GOAL_STAR)
    numbers = [str(k) for k in range(mask.size if mask.size <= MOST_NUMBERS else 0)]
    draw_rose(ax, state, ARROW * maze.directions, mask, numbers)
    ax.plot(*state, **HERE_DOT)
    caption(ax, maze, f"{mask.sum()} of {mask.size} actuators available")
    legend(ax, {**ARROW_SIGNS, "agent": HERE_DOT, "goal": GOAL_STAR})


def _draw_box(ax: "Axes", box: Iterable[float], **style: Any) -> None:
    x_low, x_high, y_low, y_high = box
    ax.fill([x_low, x_high, x_high, x_low], [y_low, y_low, y_high, y_high], **style)
