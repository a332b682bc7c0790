"""A drawing of the Bay Area on its real geography."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from sas_gym.action_sets import Floats, Ints, Mask
from sas_gym.rendering._draw import draw
from sas_gym.rendering._graph_view import (
    ROAD,
    Plan,
    draw_marks,
    draw_network,
    draw_ways_out,
)
from sas_gym.rendering._routing import describe, draw_waiting, roads_out
from sas_gym.rendering._style import (
    GREY,
    HERE_DOT,
    INK,
    draw_rose,
    show_square,
    write,
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

ROSE = (0.0, 0.0, 0.38, 0.38)
"""Where the close-up of the junction lies in the axes."""
ARM, LABEL_DISTANCE = 0.5, 1.5
"""Length of its arrows, and how many of these away their labels stand."""
LEAST_ANGLE = 0.7
"""Least angle between them, so that there is room for their labels."""


@draw.register(BayArea)
def draw_bay_area(bay: BayArea, ax: "Axes", state: int, mask: Mask) -> None:
    """Draw the map, and beside it the roads out of the current junction by number."""
    plan = _plan(bay, int(state))
    show_square(ax, plan.centre, plan.half_width)
    _draw_land(ax)
    draw_network(ax, plan._replace(successor=_straight(bay.successor)))
    ax.plot(*(DETOUR * SCALE).T, **ROAD)
    ways = _ways(bay, plan)
    draw_ways_out(ax, ways, mask)
    draw_marks(ax, plan, bay.goal, mark_scale=0.7, node_scale=0.3)
    _draw_junction(ax.inset_axes(ROSE), plan, ways, mask)
    describe(ax, bay, plan.here, mask)


def _plan(bay: BayArea, here: int) -> Plan:
    """Project the map."""
    positions = np.asarray(bay.positions) * SCALE
    return Plan(positions, bay.successor, here, CENTRE, HALF_WIDTH)


def _straight(successor: Ints) -> Ints:
    """Return the table of roads without the detour, [S, A]."""
    table = successor.copy()
    for tail, head in (DETOUR_ENDS, DETOUR_ENDS[::-1]):
        table[tail, table[tail] == head] = NO_ROAD
    return table


def _draw_land(ax: "Axes") -> None:
    """Draw the water and write the names."""
    for shore in (BAY, OCEAN):
        ax.fill(*(shore * SCALE).T, color=WATER, linewidth=0, zorder=0)
    for names, ink, slant in ((PLACES, INK, "normal"), (BRIDGES, GREY, "italic")):
        for name, place in names.items():
            write(ax, np.array(place) * SCALE, name, color=ink, fontstyle=slant)


def _ways(bay: BayArea, plan: Plan) -> dict[int, Floats]:
    """Return the lines of the roads out of here, [P, 2]."""
    ways = roads_out(bay, plan)
    for action in ways:
        if {plan.here, int(plan.heads[action])} == set(DETOUR_ENDS):
            forward = plan.here == DETOUR_ENDS[0]
            ways[action] = (DETOUR if forward else DETOUR[::-1]) * SCALE
    return ways


def _draw_junction(
    ax: "Axes", plan: Plan, ways: Mapping[int, Floats], mask: Mask
) -> None:
    """Draw which way the roads leave, and write which actions they are."""
    show_square(ax, np.zeros(2), 1.2)
    ax.set(xticks=[], yticks=[])
    first_steps = np.array([way[1] - way[0] for way in ways.values()])
    bearing = _spread(np.arctan2(first_steps[:, 1], first_steps[:, 0]))
    arms = ARM * np.stack([np.cos(bearing), np.sin(bearing)], axis=1)
    labels = [f"{action} \N{RIGHTWARDS ARROW} {plan.heads[action]}" for action in ways]
    draw_rose(ax, np.zeros(2), arms, mask[list(ways)], labels, LABEL_DISTANCE)
    ax.plot(0, 0, **HERE_DOT)
    draw_waiting(ax, (0.5, 0.08), mask)
    write(ax, (0, 1), f"junction {plan.here}")


def _spread(angle: Floats) -> Floats:
    """Push angles apart, a little at a time, until none are too close, [M]."""
    order = np.argsort(angle)
    spread = angle[order]
    for _ in range(20):
        gap = np.diff(spread, append=spread[0] + 2 * np.pi)
        push = np.maximum(LEAST_ANGLE - gap, 0) / 2
        spread = spread - push + np.roll(push, 1)
    return spread[np.argsort(order)]
