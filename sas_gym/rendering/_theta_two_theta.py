"""A drawing of the theta -> 2 theta counterexample."""

from typing import TYPE_CHECKING

import numpy as np

from sas_gym.action_sets import Mask
from sas_gym.rendering._draw import draw
from sas_gym.rendering._graph_view import (
    NODE,
    Plan,
    draw_network,
    draw_ways_out,
    ways_out,
)
from sas_gym.rendering._style import (
    ARROW_SIGNS,
    HERE_DOT,
    INK,
    LARGE,
    caption,
    legend,
    show_square,
    write,
)
from sas_gym.tasks._theta_two_theta import LEFT, RIGHT, ThetaTwoTheta

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POSITIONS = np.array([[-0.5, 0.0], [0.5, 0.0]])
# Either action leads to its own side from either state.
SUCCESSOR = np.array([[LEFT, RIGHT], [LEFT, RIGHT]])
LOOP_RADIUS = 0.13
NODE_SIZE = 32  # points
BELOW = np.array([0.0, 0.16])
NAMES = ("0 left", "1 right")


@draw.register(ThetaTwoTheta)
def draw_theta_two_theta(
    task: ThetaTwoTheta, ax: "Axes", state: int, mask: Mask
) -> None:
    """Draw the two states, and the arrows out of the current one."""
    plan = Plan(POSITIONS, SUCCESSOR, int(state), np.zeros(2), 1.0)
    show_square(ax, plan.centre, plan.half_width)
    draw_network(ax, plan)
    draw_ways_out(ax, ways_out(plan, LOOP_RADIUS), mask, NAMES, NODE_SIZE / 2)
    for node, place in enumerate(POSITIONS):
        style, ink = (HERE_DOT, "white") if node == state else (NODE, INK)
        ax.plot(*place, **style | {"markersize": NODE_SIZE})
        write(ax, place, str(node + 1), color=ink, fontsize=LARGE)
        write(ax, place - BELOW, f"x = {node + 1}", fontsize=LARGE)
    caption(ax, task, f"{mask.sum()} of {mask.size} actions available")
    legend(ax, {**ARROW_SIGNS, "current state": HERE_DOT})
