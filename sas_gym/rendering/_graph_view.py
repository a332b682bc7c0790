"""Graphs in the plane: nodes, edges, and the edges that are actions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sas_gym._types import Floats, Ints, Mask
from sas_gym.rendering._style import (
    AVAILABLE,
    CROSS,
    CURRENT_DOT,
    DASHED,
    GOAL_STAR,
    MARKER,
    PALE,
    SOLID,
    UNAVAILABLE,
    Point,
    Style,
    draw_lines,
    write,
)
from sas_gym.tasks._routing import NO_ROAD

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EDGE: Style = {"color": PALE, "linewidth": 1.2, "zorder": 1}
NODE: Style = {**MARKER, "color": "white", "marker": "o", "markersize": 14}
CROSS_LETTER = "\N{MULTIPLICATION SIGN}"
BEND = 0.25
"""Distance between edges that join the same two nodes, over their length."""
LOOP_RADIUS = 0.06
MAX_EDGES = 5000


class GraphView(NamedTuple):
    """A graph in the plane, and the square of the plane that is shown."""

    positions: Floats
    """Where the nodes are, [S, 2]."""
    successor: Ints
    """Where each action leads from each node, [S, A]."""
    centre: Floats
    """Centre of the square, [2]."""
    half_width: float
    """Half its width."""

    @property
    def is_shown(self) -> Mask:
        """Which nodes are in the square, [S]."""
        distance = abs(self.positions - self.centre).max(axis=1)
        shown: Mask = distance <= self.half_width
        return shown

    def neighbours(self, node: int) -> Ints:
        """Return where the edges out of a node lead."""
        successors = self.successor[node]
        neighbours: Ints = successors[successors != NO_ROAD]
        return neighbours


def draw_edges(ax: "Axes", view: GraphView) -> None:
    """Draw the edges that may cross the square, unless they would blacken it."""
    tail, action = np.nonzero(view.successor != NO_ROAD)
    ends = np.stack([tail, view.successor[tail, action]], axis=1)
    lines = view.positions[ends]
    beyond = lines.min(axis=1) > view.centre + view.half_width
    before = lines.max(axis=1) < view.centre - view.half_width
    near = ~(beyond | before).any(axis=1)
    if near.sum() <= MAX_EDGES:
        draw_lines(ax, lines[near], EDGE)


def draw_nodes(
    ax: "Axes",
    view: GraphView,
    current: int,
    goal: int,
    current_scale: float = 1.0,
    goal_scale: float = 1.0,
    node_scale: float = 1.0,
) -> None:
    """Draw the nodes as rings, the goal as a star and the current node as a dot."""
    others = view.is_shown.copy()
    others[[current, goal]] = False
    for nodes, style, scale in (
        (np.flatnonzero(others), NODE, node_scale),
        ([goal], GOAL_STAR, goal_scale),
        ([current], CURRENT_DOT, current_scale),
    ):
        size = {"markersize": scale * style["markersize"], "zorder": 2.5}
        ax.plot(*view.positions[nodes].T, **style | size)


def draw_action_paths(
    ax: "Axes",
    paths: Mapping[int, Floats],
    mask: Mask,
    labels: Sequence[str] = (),
    clearance: float = NODE["markersize"] / 2,
) -> None:
    """Draw actions that lead along paths: solid, or dashed if unavailable.

    Args:
        ax: Where to draw.
        paths: The line along which each action leads, [P, 2].
        mask: The action set, [A].
        labels: Labels by action. With them available actions get an arrowhead; without,
            there are just the lines, and crosses on those of unavailable actions.
        clearance: How far arrowheads stay away from the end of a path, in points.
    """
    available = [path for action, path in paths.items() if mask[action]]
    unavailable = [path for action, path in paths.items() if not mask[action]]
    draw_lines(ax, available, SOLID)
    draw_lines(ax, unavailable, DASHED)
    if not labels:
        middles = np.reshape([_point_on(path, 0.5) for path in unavailable], (-1, 2))
        ax.plot(*middles.T, **CROSS)
        return
    for path in available:
        _draw_arrowhead(ax, path, clearance)
    for action, path in paths.items():
        label = labels[action]
        draw_action_label(ax, _point_on(path, 0.5), label, bool(mask[action]))


def draw_action_label(
    ax: "Axes", point: Point, label: str, available: bool, **options: Any
) -> None:
    """Write an action's label in a box, which is dashed and crossed if unavailable.

    Args:
        ax: Where to draw.
        point: Where on it, (x, y).
        label: The label.
        available: Whether the action is available.
        **options: As for `write`.
    """
    box: Style = {"boxstyle": "round,pad=0.25", "facecolor": "white"}
    if available:
        box |= {"edgecolor": AVAILABLE}
    else:
        box |= {"edgecolor": UNAVAILABLE, "linestyle": DASHED["linestyle"]}
        label = f"{label} {CROSS_LETTER}"
    write(ax, point, label, bbox=box, **options)


def action_paths(
    view: GraphView, node: int, loop_radius: float = LOOP_RADIUS
) -> dict[int, Floats]:
    """Return the line along which each action leads from a node, [P, 2].

    Args:
        view: The graph.
        node: The node.
        loop_radius: Radius of an edge back to the node, over half the picture's width.
    """
    here, successors = view.positions[node], view.successor[node]
    taken = list(_angles(view.positions[view.neighbours(node)] - here))
    paths = {}
    for action in np.flatnonzero(successors != NO_ROAD).tolist():
        successor = successors[action]
        if successor == node:
            taken.append(_free_angle(taken))
            paths[action] = _loop(here, taken[-1], loop_radius * view.half_width)
        else:
            parallel = np.flatnonzero(successors == successor)
            rank = np.searchsorted(parallel, action) - (len(parallel) - 1) / 2
            paths[action] = _arc(here, view.positions[successor], BEND * float(rank))
    return paths


def _point_on(path: Floats, share: float) -> Floats:
    """Return the point at a share of the length of a path, [2]."""
    step = np.hypot(*np.diff(path, axis=0).T)
    length = np.concatenate([[0.0], step.cumsum()])
    return np.array([np.interp(share * length[-1], length, axis) for axis in path.T])


def _draw_arrowhead(ax: "Axes", path: Floats, clearance: float) -> None:
    """Draw an arrowhead at some points' distance from the end of a path."""
    style: Style = {"color": AVAILABLE, "linewidth": 0, "mutation_scale": 22}
    style |= {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": clearance}
    ax.annotate("", tuple(path[-1]), tuple(_point_on(path, 0.75)), arrowprops=style)


def _angles(vectors: Floats) -> Floats:
    """Return the angles of those vectors [M, 2] that are not zero."""
    x, y = vectors[vectors.any(axis=1)].T
    angles: Floats = np.arctan2(y, x)
    return angles


def _free_angle(taken: Iterable[float]) -> float:
    """Return the angle farthest from those that are taken."""
    angles = np.sort(list(taken))
    if not angles.size:
        return np.pi / 2
    gaps = np.diff(angles, append=angles[0] + 2 * np.pi)
    widest = gaps.argmax()
    return float(angles[widest] + gaps[widest] / 2)


def _loop(node: Floats, angle: float, radius: float) -> Floats:
    """Return a circle that leaves and meets a node on its side at an angle, [P, 2]."""
    turn = angle + np.pi + np.linspace(0, 2 * np.pi, 40)
    centre = node + radius * np.array([np.cos(angle), np.sin(angle)])
    circle: Floats = centre + radius * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return circle


def _arc(start: Floats, end: Floats, bend: float) -> Floats:
    """Return a line from point to point that bends sideways, [P, 2]."""
    if not bend:
        return np.stack([start, end])
    forward = end - start
    share = np.linspace(0, 1, 20)[:, None]
    sideways = bend * np.array([forward[1], -forward[0]])
    arc: Floats = start + share * forward + 4 * share * (1 - share) * sideways
    return arc
