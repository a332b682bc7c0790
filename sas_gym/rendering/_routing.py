"""Drawings of tasks on graphs: any road graph, San Francisco, theta -> 2 theta."""

from typing import TYPE_CHECKING

import numpy as np

from sas_gym._types import Floats, Mask
from sas_gym.rendering._draw import draw, draw_background
from sas_gym.rendering._graph_view import (
    NODE,
    GraphView,
    action_paths,
    draw_action_label,
    draw_action_paths,
    draw_edges,
    draw_nodes,
)
from sas_gym.rendering._layout import layout
from sas_gym.rendering._once_per_task import OncePerTask
from sas_gym.rendering._style import (
    ARROW_LEGEND,
    CURRENT_DOT,
    DARK,
    GOAL_STAR,
    GREY,
    LARGE,
    SMALL,
    Style,
    draw_legend,
    show_square,
    write,
    write_labels,
    write_summary,
    write_title,
)
from sas_gym.tasks._routing import NO_ROAD, Routing
from sas_gym.tasks._san_francisco import BRIDGE, POSITIONS, SanFrancisco
from sas_gym.tasks._theta_two_theta import LEFT, RIGHT, ThetaTwoTheta

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_NODES = 60
"""Of a larger graph the neighbourhood of the current node is drawn, and an overview."""
MAX_RINGS = 500
"""If more nodes are in the picture, they are mere dots."""
MAX_LENGTH_INSIDE, MAX_LENGTH = 3, 10
"""Characters of a name that fits into a node, and of any name."""
MAX_NAMES_BESIDE = 6
"""If a node has more neighbours, their names would overlap."""
DIAGONAL = 0.4
"""Component of a unit vector from which on it points up, down, left or right."""
MARGIN = 1.18
"""Width of the picture over that of the whole graph."""
ZOOM = 2.3
"""Width of the picture over that of the edges out of the current node."""
OVERVIEW = (0.76, 0.0, 0.24, 0.24)
"""Where the overview lies in the axes: left, bottom, width and height."""
ROUTING_LEGEND = {**ARROW_LEGEND, "current node": CURRENT_DOT, "goal": GOAL_STAR}


@draw_background.register(Routing)
def draw_routing_background(routing: Routing, ax: "Axes") -> None:
    """Draw the title, the legend and, unless the graph is large, the edges."""
    view = _whole_graph(routing)
    show_square(ax, view.centre, view.half_width)
    if not _is_large(view):
        draw_edges(ax, view)
    write_title(ax, routing)
    draw_legend(ax, ROUTING_LEGEND)


@draw.register(Routing)
def draw_routing(routing: Routing, ax: "Axes", state: int, mask: Mask) -> None:
    """Draw the nodes, and the edges out of the current one as the actions."""
    node = int(state)
    view = _whole_graph(routing)
    if _is_large(view):
        view = _zoom(view, node)
        show_square(ax, view.centre, view.half_width)
        draw_edges(ax, view)
    labels = [str(action) for action in range(mask.size)]
    draw_action_paths(ax, road_paths(routing, view, node), mask, labels)
    _draw_named_nodes(ax, routing, view, node)
    if routing.wait_cost is not None:
        draw_waiting(ax, (0.05, 0.97), mask)
    if not view.is_shown.all():
        _draw_overview(ax.inset_axes(OVERVIEW), routing, view, node)
    write_routing_summary(ax, routing, node, mask)


def road_paths(routing: Routing, view: GraphView, node: int) -> dict[int, Floats]:
    """Return the lines of the roads out of a node, [P, 2]: all actions but waiting."""
    paths = action_paths(view, node)
    if routing.wait_cost is not None:
        del paths[routing.num_actions - 1]
    return paths


def draw_waiting(ax: "Axes", point: tuple[float, float], mask: Mask) -> None:
    """Draw waiting, the last action, as a label at a point in the axes."""
    label, available = f"{mask.size - 1} wait", bool(mask[-1])
    draw_action_label(ax, point, label, available, transform=ax.transAxes)


def write_routing_summary(ax: "Axes", routing: Routing, node: int, mask: Mask) -> None:
    """Write the current node, the goal and how many actions are available."""
    num_actions = (routing.successor[node] != NO_ROAD).sum()
    nodes = f"at {_name(routing, node)}, goal {_name(routing, routing.goal)}"
    write_summary(ax, f"{nodes}: {mask.sum()} of {num_actions} actions available")


def _name(routing: Routing, node: int) -> str:
    """Return the name of a node, cut short."""
    name = str(routing.labels[node])
    return name if len(name) <= MAX_LENGTH else f"{name[: MAX_LENGTH - 3]}..."


def _whole_graph(routing: Routing) -> GraphView:
    """Show the whole graph."""
    positions = _positions(routing)
    low, high = positions.min(axis=0), positions.max(axis=0)
    half_width = MARGIN / 2 * (float((high - low).max()) or 1.0)
    return GraphView(positions, routing.successor, (low + high) / 2, half_width)


def _positions(routing: Routing) -> Floats:
    """Return where the nodes are, [S, 2]: given, or else arranged."""
    given = routing.positions
    return _arranged(routing) if given is None else given


@OncePerTask
def _arranged(routing: Routing) -> Floats:
    return layout(routing.successor, routing.goal)


def _is_large(view: GraphView) -> bool:
    return len(view.positions) > MAX_NODES


def _zoom(view: GraphView, node: int) -> GraphView:
    """Show the neighbourhood of a node, if that is less than is shown already."""
    here = view.positions[node]
    half_width = ZOOM * float(abs(view.positions[view.neighbours(node)] - here).max())
    if not 0 < half_width < view.half_width:
        return view
    return view._replace(centre=here, half_width=half_width)


def _draw_named_nodes(ax: "Axes", routing: Routing, view: GraphView, node: int) -> None:
    """Draw the nodes, named inside if the names are few and short, else beside."""
    shown = np.flatnonzero(view.is_shown)
    names = [_name(routing, other) for other in shown[: MAX_NODES + 1]]
    if len(names) <= MAX_NODES and max(map(len, names)) <= MAX_LENGTH_INSIDE:
        draw_nodes(ax, view, node, routing.goal, goal_scale=1.4)
        colors = np.where(shown == node, "white", DARK).tolist()
        write_labels(ax, view.positions[shown], names, colors)
        return
    node_scale = 0.3 if len(shown) <= MAX_RINGS else 0.1
    draw_nodes(ax, view, node, routing.goal, 0.7, 0.7, node_scale)
    near = view.neighbours(node).tolist()
    named = {routing.goal, *(near if len(near) <= MAX_NAMES_BESIDE else ())}
    for other in named & set(shown.tolist()) - {node}:
        direction = view.positions[other] - view.positions[node]
        _write_beside(ax, view.positions[other], _name(routing, other), direction)


def _write_beside(ax: "Axes", point: Floats, name: str, direction: Floats) -> None:
    """Write a name beside a point, on the side to which a vector [2] points."""
    x, y = direction / np.hypot(*direction)
    beside: Style = {
        "ha": "left" if x > DIAGONAL else "right" if x < -DIAGONAL else "center",
        "va": "bottom" if y > DIAGONAL else "top" if y < -DIAGONAL else "center",
        "textcoords": "offset points",
    }
    style: Style = {"fontsize": SMALL, "color": DARK, "parse_math": False}
    ax.annotate(name, tuple(point), (8 * x, 8 * y), **beside, **style)


def _draw_overview(ax: "Axes", routing: Routing, view: GraphView, node: int) -> None:
    """Draw all nodes as dots, and the current one and the goal among them."""
    ax.plot(*view.positions.T, color=GREY, linestyle="none", marker=",")
    ax.plot(*view.positions[routing.goal], **GOAL_STAR | {"markersize": 10})
    ax.plot(*view.positions[node], **CURRENT_DOT | {"markersize": 5})
    ax.set(xticks=[], yticks=[], aspect="equal")


@draw_background.register(SanFrancisco)
def draw_san_francisco_background(san_francisco: SanFrancisco, ax: "Axes") -> None:
    """Draw the map as a road graph, and write the bridge's name along it."""
    draw_routing_background(san_francisco, ax)
    start, end = np.array(POSITIONS)[list(BRIDGE)]
    above = (start + end) / 2 + 0.03
    slope = np.degrees(np.arctan2(*(end - start)[::-1]))
    write(ax, above, "bridge", rotation=slope, color=GREY, fontstyle="italic")


# Either action of theta -> 2 theta leads to its own side from either state.
THETA_VIEW = GraphView(
    positions=np.array([[-0.5, 0.0], [0.5, 0.0]]),
    successor=np.array([[LEFT, RIGHT], [LEFT, RIGHT]]),
    centre=np.zeros(2),
    half_width=1.0,
)
THETA_LABELS = ("0 left", "1 right")
THETA_LOOP_RADIUS = 0.13
THETA_NODE_SIZE = 32  # points
BELOW_NODE = np.array([0.0, 0.22])


@draw_background.register(ThetaTwoTheta)
def draw_theta_two_theta_background(task: ThetaTwoTheta, ax: "Axes") -> None:
    """Draw the edge, and write the feature below each state."""
    show_square(ax, THETA_VIEW.centre, THETA_VIEW.half_width)
    draw_edges(ax, THETA_VIEW)
    for node, position in enumerate(THETA_VIEW.positions):
        write(ax, position - BELOW_NODE, f"x = {node + 1}", fontsize=LARGE)
    write_title(ax, task)
    draw_legend(ax, {**ARROW_LEGEND, "current state": CURRENT_DOT})


@draw.register(ThetaTwoTheta)
def draw_theta_two_theta(
    task: ThetaTwoTheta,  # noqa: ARG001  # it has no arguments that could be drawn
    ax: "Axes",
    state: int,
    mask: Mask,
) -> None:
    """Draw the two states, and the edges out of the current one as the actions."""
    paths = action_paths(THETA_VIEW, int(state), THETA_LOOP_RADIUS)
    draw_action_paths(ax, paths, mask, THETA_LABELS, THETA_NODE_SIZE / 2)
    for node, position in enumerate(THETA_VIEW.positions):
        style = CURRENT_DOT if node == state else NODE
        ax.plot(*position, **style | {"markersize": THETA_NODE_SIZE})
    colors = np.where(np.arange(2) == state, "white", DARK).tolist()
    write_labels(ax, THETA_VIEW.positions, "12", colors, LARGE)
    write_summary(ax, f"{mask.sum()} of {mask.size} actions available")
