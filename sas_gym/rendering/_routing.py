"""A drawing of any road graph."""

from typing import TYPE_CHECKING

import numpy as np

from sas_gym.action_sets import Floats, Ints, Mask
from sas_gym.rendering._draw import draw
from sas_gym.rendering._graph_view import (
    Plan,
    draw_marks,
    draw_network,
    draw_ways_out,
    ways_out,
)
from sas_gym.rendering._style import (
    ARROW_SIGNS,
    GOAL_STAR,
    GREY,
    HERE_DOT,
    INK,
    SMALL,
    Style,
    caption,
    draw_sign,
    legend,
    show_square,
    write,
)
from sas_gym.tasks._routing import NO_ROAD, Routing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NODES = 60
"""Of a larger graph the neighbourhood is drawn, beside an overview."""
MANY_NODES = 500
"""If more are in the picture, they are mere dots."""
LONGEST_INSIDE, LONGEST_NAME = 3, 12
"""Letters in a name that fits into a node, and in any."""
MOST_BESIDE = 6
"""If more nodes are within reach, their names would stand in each other's way."""
SLANT = 0.4
"""Share of a direction from which on it counts as up, down, left or right."""
MARGIN = 1.18
"""Width of the picture over that of the whole graph."""
ZOOM = 2.3
"""Width of the picture over that of the roads out of the current node."""
OVERVIEW = (0.76, 0.0, 0.24, 0.24)
"""Where the overview lies in the axes: left, bottom, width and height."""
ROAD_SIGNS = {**ARROW_SIGNS, "here": HERE_DOT, "goal": GOAL_STAR}


@draw.register(Routing)
def draw_routing(routing: Routing, ax: "Axes", state: int, mask: Mask) -> None:
    """Draw the roads, with those out of the current node as the actions."""
    positions = _layout(routing)
    plan = _whole(positions, routing.successor, int(state))
    if len(positions) > MOST_NODES:
        plan = _zoom(plan)
    show_square(ax, plan.centre, plan.half_width)
    draw_network(ax, plan)
    draw_ways_out(ax, roads_out(routing, plan), mask, list(map(str, range(mask.size))))
    _draw_nodes(ax, routing, plan)
    if routing.wait_cost is not None:
        draw_waiting(ax, (0.05, 0.97), mask)
    if not plan.is_shown.all():
        _draw_overview(ax.inset_axes(OVERVIEW), routing, plan)
    describe(ax, routing, plan.here, mask)


def roads_out(routing: Routing, plan: Plan) -> dict[int, Floats]:
    """Return the lines of the roads out of here, [P, 2]: all actions but waiting."""
    ways = ways_out(plan)
    if routing.wait_cost is not None:
        del ways[routing.num_actions - 1]
    return ways


def draw_waiting(ax: "Axes", place: tuple[float, float], mask: Mask) -> None:
    """Write a sign for waiting, the last action, at a place in the axes."""
    draw_sign(
        ax, place, f"{mask.size - 1} wait", bool(mask[-1]), transform=ax.transAxes
    )


def describe(ax: "Axes", routing: Routing, here: int, mask: Mask) -> None:
    """Say where one is and how many actions there are, and explain the signs."""
    num_actions = (routing.successor[here] != NO_ROAD).sum()
    place = f"at {_name(routing, here)}, goal {_name(routing, routing.goal)}"
    caption(ax, routing, f"{place}: {mask.sum()} of {num_actions} actions available")
    legend(ax, ROAD_SIGNS)


def _name(routing: Routing, node: int) -> str:
    """Return what a node is called, cut short."""
    name = str(routing.labels[node])
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 3]}..."


def _layout(routing: Routing) -> Floats:
    """Return where the nodes are, in a circle if they were given no place, [S, 2]."""
    if routing.positions is not None:
        return routing.positions
    angle = 2 * np.pi * np.arange(len(routing.labels)) / len(routing.labels)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _whole(positions: Floats, successor: Ints, here: int) -> Plan:
    """Show the whole graph."""
    low, high = positions.min(axis=0), positions.max(axis=0)
    width = float((high - low).max()) or 1.0
    return Plan(positions, successor, here, (low + high) / 2, MARGIN * width / 2)


def _zoom(plan: Plan) -> Plan:
    """Show the neighbourhood of the current node, if that is less than there is."""
    here = plan.positions[plan.here]
    half_width = ZOOM * float(abs(plan.positions[plan.neighbours] - here).max())
    if not 0 < half_width < plan.half_width:
        return plan
    return plan._replace(centre=here, half_width=half_width)


def _draw_nodes(ax: "Axes", routing: Routing, plan: Plan) -> None:
    """Draw the nodes, named inside where the names are few and short, else beside."""
    shown = np.flatnonzero(plan.is_shown)
    names = [_name(routing, node) for node in shown[: MOST_NODES + 1]]
    inside = len(names) <= MOST_NODES and max(map(len, names)) <= LONGEST_INSIDE
    if inside:
        draw_marks(ax, plan, routing.goal)
        for node, name in zip(shown, names, strict=True):
            ink = "white" if node == plan.here else INK
            write(ax, plan.positions[node], name, color=ink)
        return
    node_scale = 0.3 if len(shown) <= MANY_NODES else 0.1
    draw_marks(ax, plan, routing.goal, mark_scale=0.7, node_scale=node_scale)
    near = plan.neighbours if len(plan.neighbours) <= MOST_BESIDE else plan.heads[:0]
    for node in {*near.tolist(), routing.goal} & set(shown.tolist()) - {plan.here}:
        step = plan.positions[node] - plan.positions[plan.here]
        _write_beside(ax, plan.positions[node], _name(routing, node), step)


def _write_beside(ax: "Axes", place: Floats, name: str, away: Floats) -> None:
    """Write a name beside a place, on the side to which a vector [2] points."""
    x, y = away / np.hypot(*away)
    beside: Style = {
        "ha": "left" if x > SLANT else "right" if x < -SLANT else "center",
        "va": "bottom" if y > SLANT else "top" if y < -SLANT else "center",
        "textcoords": "offset points",
    }
    style: Style = {"fontsize": SMALL, "color": INK, "parse_math": False}
    ax.annotate(name, tuple(place), (8 * x, 8 * y), **beside, **style)


def _draw_overview(ax: "Axes", routing: Routing, plan: Plan) -> None:
    """Draw all nodes as dots, and where among them one is."""
    ax.plot(*plan.positions.T, color=GREY, linestyle="none", marker=",")
    ax.plot(*plan.positions[routing.goal], **GOAL_STAR | {"markersize": 10})
    ax.plot(*plan.positions[plan.here], **HERE_DOT | {"markersize": 5})
    ax.set(xticks=[], yticks=[], aspect="equal")
