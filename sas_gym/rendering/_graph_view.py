"""Nodes and roads in the plane: what the drawings of graphs are made of."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sas_gym.action_sets import Floats, Ints, Mask
from sas_gym.rendering._style import (
    GOAL_STAR,
    HERE_DOT,
    MARKER,
    PALE,
    Style,
    draw_arrow,
    segments,
)
from sas_gym.tasks._routing import NO_ROAD

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROAD: Style = {"color": PALE, "linewidth": 1.2, "zorder": 1}
NODE: Style = {**MARKER, "color": "white", "marker": "o", "markersize": 14}
BEND = 0.25
"""How far roads between the same two nodes stand apart, over their length."""
LOOP = 0.06
MOST_ROADS = 5000


class Plan(NamedTuple):
    """A graph in the plane, seen from one of its nodes."""

    positions: Floats
    """Where the nodes are, [S, 2]."""
    successor: Ints
    """Where each action leads from each node, [S, A]."""
    here: int
    """The current node."""
    centre: Floats
    """Middle of the square that is shown, [2]."""
    half_width: float
    """Half its width."""

    @property
    def heads(self) -> Ints:
        """Where each action leads from here, [A]."""
        heads: Ints = self.successor[self.here]
        return heads

    @property
    def neighbours(self) -> Ints:
        """Where the roads out of here lead."""
        neighbours: Ints = self.heads[self.heads != NO_ROAD]
        return neighbours

    @property
    def is_shown(self) -> Mask:
        """Which nodes are in the square, [S]."""
        distance = abs(self.positions - self.centre).max(axis=1)
        shown: Mask = distance <= self.half_width
        return shown


def draw_network(ax: "Axes", plan: Plan) -> None:
    """Draw the roads that may cross the square, unless they would blacken it."""
    tail, action = np.nonzero(plan.successor != NO_ROAD)
    start, end = plan.positions[tail], plan.positions[plan.successor[tail, action]]
    beyond = np.minimum(start, end) > plan.centre + plan.half_width
    before = np.maximum(start, end) < plan.centre - plan.half_width
    near = ~(beyond | before).any(axis=1)
    if near.sum() <= MOST_ROADS:
        ax.plot(*segments(start[near], end[near]).T, **ROAD)


def draw_ways_out(
    ax: "Axes",
    ways: Mapping[int, Floats],
    mask: Mask,
    labels: Sequence[str] = (),
    clearance: float = NODE["markersize"] / 2,
) -> None:
    """Draw the roads out of the current node.

    Args:
        ax: Where to draw.
        ways: The line along which each action leads, [P, 2].
        mask: The action set, [A].
        labels: What to write on each action's arrow; by default there are mere lines.
        clearance: How far the tips stay away from the nodes' middles, in points.
    """
    for action, points in ways.items():
        label = labels[action] if labels else ""
        draw_arrow(ax, points, bool(mask[action]), label, clearance)


def draw_marks(
    ax: "Axes",
    plan: Plan,
    goal: int,
    mark_scale: float = 1.0,
    node_scale: float = 1.0,
) -> None:
    """Draw the nodes as rings, the goal as a star and the current node as a dot."""
    for nodes, style, scale in (
        (np.flatnonzero(plan.is_shown), NODE, node_scale),
        ([goal], GOAL_STAR, mark_scale),
        ([plan.here], HERE_DOT, mark_scale),
    ):
        size = {"markersize": scale * style["markersize"], "zorder": 2.5}
        ax.plot(*plan.positions[nodes].T, **style | size)


def ways_out(plan: Plan, loop_radius: float = LOOP) -> dict[int, Floats]:
    """Return the line along which each action leads from here, [P, 2].

    Args:
        plan: The graph.
        loop_radius: Radius of a road back to here, over half the picture's width.
    """
    here, heads = plan.positions[plan.here], plan.heads
    taken = list(_angles(plan.positions[plan.neighbours] - here))
    ways = {}
    for action in np.flatnonzero(heads != NO_ROAD).tolist():
        head = heads[action]
        if head == plan.here:
            taken.append(_free_angle(taken))
            ways[action] = _loop(here, taken[-1], loop_radius * plan.half_width)
        else:
            parallel = np.flatnonzero(heads == head)
            rank = np.searchsorted(parallel, action) - (len(parallel) - 1) / 2
            ways[action] = _arc(here, plan.positions[head], BEND * float(rank))
    return ways


def _angles(arms: Floats) -> Floats:
    """Return the angles of those arms [M, 2] that lead away at all."""
    x, y = arms[arms.any(axis=1)].T
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
    middle = node + radius * np.array([np.cos(angle), np.sin(angle)])
    circle: Floats = middle + radius * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return circle


def _arc(start: Floats, end: Floats, bend: float) -> Floats:
    """Return a line from point to point that swings out sideways, [P, 2]."""
    if not bend:
        return np.stack([start, end])
    along = end - start
    share = np.linspace(0, 1, 20)[:, None]
    swing = bend * np.array([along[1], -along[0]])
    arc: Floats = start + share * along + 4 * share * (1 - share) * swing
    return arc
