"""A drawing of the Bay Area on its real geography."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from sas_gym._types import Floats, Ints, Mask
from sas_gym.rendering._draw import draw, draw_background
from sas_gym.rendering._graph_view import (
    EDGE,
    GraphView,
    draw_action_paths,
    draw_edges,
    draw_nodes,
)
from sas_gym.rendering._routing import (
    ROUTING_LEGEND,
    draw_waiting,
    road_paths,
    write_routing_summary,
)
from sas_gym.rendering._style import (
    CURRENT_DOT,
    DARK,
    GREY,
    draw_arrows,
    draw_legend,
    draw_lines,
    show_square,
    write,
    write_labels,
    write_title,
)
from sas_gym.tasks._bay_area import BayArea
from sas_gym.tasks._routing import NO_ROAD

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LATITUDE = 37.6
# A degree of longitude is shorter than one of latitude: all is drawn in the latter.
SCALE = np.array([np.cos(np.radians(LATITUDE)), 1.0])
CENTRE, HALF_WIDTH = np.array([-122.28, 37.63]) * SCALE, 0.42
WATER = "#DCE9F2"

# Longitudes and latitudes by hand, no better than they look.
BAY = np.array([
    (-122.478, 37.828), (-122.477, 37.857), (-122.440, 37.875), (-122.478, 37.938),
    (-122.440, 37.965), (-122.490, 38.020), (-122.400, 38.080), (-122.280, 38.060),
    (-122.270, 38.020), (-122.360, 37.990), (-122.420, 37.955), (-122.385, 37.908),
    (-122.315, 37.890), (-122.305, 37.840), (-122.330, 37.810), (-122.330, 37.785),
    (-122.270, 37.752), (-122.250, 37.720), (-122.190, 37.690), (-122.155, 37.640),
    (-122.130, 37.590), (-122.100, 37.530), (-122.070, 37.505), (-121.980, 37.455),
    (-122.020, 37.440), (-122.075, 37.443), (-122.105, 37.465), (-122.135, 37.497),
    (-122.200, 37.520), (-122.250, 37.575), (-122.320, 37.590), (-122.360, 37.610),
    (-122.385, 37.635), (-122.385, 37.710), (-122.370, 37.730), (-122.385, 37.765),
    (-122.390, 37.790), (-122.415, 37.808), (-122.475, 37.810),
])  # fmt: skip
OCEAN = np.array([
    (-122.475, 37.810), (-122.510, 37.785), (-122.510, 37.720), (-122.497, 37.665),
    (-122.500, 37.600), (-122.520, 37.540), (-122.460, 37.490), (-122.440, 37.450),
    (-122.400, 37.360), (-122.415, 37.260), (-122.380, 37.180), (-123.000, 37.180),
    (-123.000, 38.040), (-122.950, 38.000), (-122.720, 37.910), (-122.650, 37.900),
    (-122.600, 37.860), (-122.530, 37.815), (-122.478, 37.828),
])  # fmt: skip
PLACES = {
    "San\nFrancisco": (-122.475, 37.745),
    "Berkeley": (-122.22, 37.885),
    "Oakland": (-122.16, 37.815),
    "Concord": (-122.00, 38.030),
    "Dublin": (-121.88, 37.720),
    "Hayward": (-122.04, 37.665),
    "Fremont": (-121.95, 37.565),
    "San Mateo": (-122.39, 37.550),
    "Palo Alto": (-122.20, 37.445),
    "San Jose": (-121.80, 37.300),
}
BRIDGES = {
    "Bay\nBridge": (-122.343, 37.757),
    "San Mateo\nBridge": (-122.215, 37.655),
    "Dumbarton\nBridge": (-122.165, 37.555),
    "Richmond\nBridge": (-122.43, 37.985),
    "Golden\nGate": (-122.58, 37.865),
}
# The one road far from a straight line: by the Golden Gate, Marin and Richmond Bridge.
DETOUR_ENDS = (4, 11)
DETOUR = np.array([
    (-122.309, 37.886), (-122.385, 37.930), (-122.480, 37.945), (-122.515, 37.900),
    (-122.478, 37.828), (-122.470, 37.805), (-122.420, 37.790), (-122.405, 37.767),
])  # fmt: skip

CLOSE_UP = 0.38
"""Width of the close-up of the junction in the lower left corner, over the map's."""
CLOSE_UP_CENTRE = CENTRE - HALF_WIDTH * (1 - CLOSE_UP)
CLOSE_UP_UNIT = HALF_WIDTH * CLOSE_UP
CLOSE_UP_TITLE = CLOSE_UP_CENTRE + CLOSE_UP_UNIT * np.array([0.0, 0.85])
ARROW_LENGTH, LABEL_DISTANCE = 0.42, 0.63
"""Over half the width of the close-up."""
MIN_ANGLE = 0.7
"""Least angle between the arrows, so that there is room for their labels."""


@draw_background.register(BayArea)
def draw_bay_area_background(bay_area: BayArea, ax: "Axes") -> None:
    """Draw the land, the roads, the names, and the frame of the close-up."""
    show_square(ax, CENTRE, HALF_WIDTH)
    for shore in (BAY, OCEAN):
        ax.fill(*(shore * SCALE).T, color=WATER, linewidth=0, zorder=0)
    for names, color, style in ((PLACES, DARK, "normal"), (BRIDGES, GREY, "italic")):
        for name, place in names.items():
            write(ax, np.array(place) * SCALE, name, color=color, fontstyle=style)
    straight = _without_detour(bay_area.successor)
    draw_edges(ax, _view(bay_area)._replace(successor=straight))
    draw_lines(ax, [DETOUR * SCALE], EDGE)
    corners = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])
    box = CLOSE_UP_CENTRE + CLOSE_UP_UNIT * corners
    ax.fill(*box.T, facecolor="white", edgecolor=DARK, clip_on=False)
    write_title(ax, bay_area)
    draw_legend(ax, ROUTING_LEGEND)


@draw.register(BayArea)
def draw_bay_area(bay_area: BayArea, ax: "Axes", state: int, mask: Mask) -> None:
    """Draw the roads out of the current junction, on the map and in a close-up."""
    node = int(state)
    view = _view(bay_area)
    paths = _paths(bay_area, view, node)
    draw_action_paths(ax, paths, mask)
    draw_nodes(ax, view, node, bay_area.goal, 0.7, 0.7, 0.3)
    successors = bay_area.successor[node]
    labels = [f"{k} \N{RIGHTWARDS ARROW} {successors[k]}" for k in paths]
    _draw_close_up(ax, paths, mask, labels)
    write_labels(ax, CLOSE_UP_TITLE, [f"junction {node}"])
    draw_waiting(ax, (CLOSE_UP / 2, 0.08 * CLOSE_UP), mask)
    write_routing_summary(ax, bay_area, node, mask)


def _view(bay_area: BayArea) -> GraphView:
    """Project the map."""
    positions = np.asarray(bay_area.positions) * SCALE
    return GraphView(positions, bay_area.successor, CENTRE, HALF_WIDTH)


def _without_detour(successor: Ints) -> Ints:
    """Return the table of roads without the detour, [S, A]."""
    table = successor.copy()
    for tail, head in (DETOUR_ENDS, DETOUR_ENDS[::-1]):
        table[tail, table[tail] == head] = NO_ROAD
    return table


def _paths(bay_area: BayArea, view: GraphView, node: int) -> dict[int, Floats]:
    """Return the lines of the roads out of a junction, [P, 2]."""
    paths = road_paths(bay_area, view, node)
    for action in paths:
        if {node, int(view.successor[node, action])} == set(DETOUR_ENDS):
            forward = node == DETOUR_ENDS[0]
            paths[action] = (DETOUR if forward else DETOUR[::-1]) * SCALE
    return paths


def _draw_close_up(
    ax: "Axes", paths: Mapping[int, Floats], mask: Mask, labels: list[str]
) -> None:
    """Draw in which directions the roads leave, and label them."""
    first_steps = np.array([path[1] - path[0] for path in paths.values()])
    angle = _spread(np.arctan2(first_steps[:, 1], first_steps[:, 0]))
    direction = CLOSE_UP_UNIT * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    draw_arrows(ax, CLOSE_UP_CENTRE, ARROW_LENGTH * direction, mask[list(paths)])
    write_labels(ax, CLOSE_UP_CENTRE + LABEL_DISTANCE * direction, labels)
    ax.plot(*CLOSE_UP_CENTRE, **CURRENT_DOT)


def _spread(angle: Floats) -> Floats:
    """Push angles apart, a little at a time, until none are too close, [M]."""
    order = np.argsort(angle)
    spread = angle[order]
    for _ in range(20):
        gap = np.diff(spread, append=spread[0] + 2 * np.pi)
        push = np.maximum(MIN_ANGLE - gap, 0) / 2
        spread = spread - push + np.roll(push, 1)
    return spread[np.argsort(order)]
