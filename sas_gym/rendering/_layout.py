"""Positions for the nodes of a graph that has none."""

from typing import Any

import numpy as np
from gymnasium.error import DependencyNotInstalled
from jaxtyping import Float, Int

from sas_gym._types import Floats, Ints
from sas_gym.tasks._routing import NO_ROAD

MAX_NODES = 1000
"""Up to here networkx arranges the nodes; its memory grows with their square."""
NUM_PIVOTS = 50
"""Nodes whose distances from all others decide where the layout starts."""


def layout(successor: Int[Ints, "S A"], goal: int) -> Float[Floats, "S 2"]:
    """Return positions at which few edges cross and neighbours are close.

    A projection of some distances places the nodes. networkx then moves the nodes of a
    graph of at most `MAX_NODES` until their distances in the plane agree with their
    distances in the graph (Kamada and Kawai, 1989).

    Args:
        successor: Node to which each action leads from each node, or `NO_ROAD`.
        goal: Node that the layout joins to the parts of a graph in several parts.

    Raises:
        DependencyNotInstalled: If there is no networkx or no SciPy.
    """
    try:
        import networkx as nx
        import scipy  # noqa: F401  # networkx needs it here
    except ImportError as error:
        raise DependencyNotInstalled(
            "a graph without positions needs networkx and SciPy to be drawn: give "
            'positions=, or run `pip install "sas-gym[render]"`'
        ) from error
    tail, action = np.nonzero(successor != NO_ROAD)
    graph = nx.empty_graph(len(successor))
    graph.add_edges_from(zip(tail, successor[tail, action], strict=True))
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    for part in list(nx.connected_components(graph)):
        if goal not in part:
            graph.add_edge(goal, min(part))
    positions = _from_distances(nx.to_scipy_sparse_array(graph, range(len(graph))))
    if len(graph) <= MAX_NODES:
        start = dict(enumerate(positions))
        arranged = nx.kamada_kawai_layout(graph, pos=start, weight=None)
        positions = np.array([arranged[node] for node in range(len(graph))])
    return _turned_to_fill_a_square(positions)


def _from_distances(adjacency: Any) -> Float[Floats, "S 2"]:
    """Project the distances to a few nodes that are far apart onto the plane.

    The coordinates are the two principal components of `NUM_PIVOTS` columns of the
    table of distances in the graph.
    """
    from scipy.sparse.csgraph import dijkstra

    size = adjacency.shape[0]
    distance, pivot = np.empty((size, min(NUM_PIVOTS, size))), 0
    nearest = np.full(size, np.inf)
    for column in distance.T:
        column[:] = dijkstra(adjacency, indices=pivot, unweighted=True)
        nearest = np.minimum(nearest, column)
        pivot = int(nearest.argmax())
    # No two nodes may start at the same place.
    distance += np.random.default_rng(0).normal(scale=0.01, size=distance.shape)
    centred = distance - distance.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    positions: Floats = centred @ axes[:2].T
    return positions


def _turned_to_fill_a_square(positions: Float[Floats, "S 2"]) -> Float[Floats, "S 2"]:
    """Turn positions so that the upright square round them is smallest."""
    angles = np.linspace(0, np.pi / 2, 90, endpoint=False)
    turned = [
        positions @ np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
        for a in angles
    ]
    widths = [np.ptp(points, axis=0).max() for points in turned]
    smallest: Floats = turned[int(np.argmin(widths))]
    return smallest
