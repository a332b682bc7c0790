"""Graphs of NetworkX and OSMnx, as the arguments of a road map."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from sas_gym._types import Floats, Ints

Edge = tuple[Any, Any, dict[str, Any]]
"""The two nodes of an edge, and its attributes."""
AnyAvailability = str | float | Mapping[Any, float]


def road_arguments(
    graph: Any,
    goal: Hashable,
    start: Hashable | None,
    length: str | None,
    availability: AnyAvailability,
) -> dict[str, Any]:
    """Return the arguments of `Routing` for a graph: see `Routing.from_networkx`."""
    if not (hasattr(graph, "edges") and hasattr(graph, "is_directed")):
        raise ValueError(
            "graph must be a graph of networkx, such as networkx.Graph(); got "
            f"{graph!r}"
        )
    labels = list(graph.nodes)
    number = {label: i for i, label in enumerate(labels)}
    _check_node("goal", goal, number)
    if start is not None:
        _check_node("start", start, number)
    edges = [(u, v, data) for u, v, data in graph.edges(data=True)]
    if not graph.is_directed():
        edges += [(v, u, data) for u, v, data in edges if u != v]
    cost = np.ones(len(edges)) if length is None else _attribute(edges, length)
    if (cost < 0).any():
        raise ValueError(f"edge attribute {length!r} has negative lengths")
    return {
        "tail": [number[u] for u, _, _ in edges],
        "head": [number[v] for _, v, _ in edges],
        "reward": -cost,
        "availability": _availabilities(graph, edges, availability),
        "num_nodes": len(labels),
        "goal": number[goal],
        "start": None if start is None else number[start],
        "positions": _positions(graph),
        "labels": labels,
    }


def road_things(
    tail: Int[Ints, " E"], head: Int[Ints, " E"], availability: Float[Floats, " E"]
) -> tuple[Int[Ints, " E"], Float[Floats, " G"]]:
    """Number the streets: the two directions of a street are one thing.

    Of parallel roads the first ones each way belong together, then the second ones, and
    so on. Directions with different probabilities are things of their own.

    Args:
        tail: Node at which each road starts.
        head: Node at which each road ends.
        availability: Probability that each road is open.

    Returns:
        The thing of each road, and the probability of each thing.
    """
    order = np.lexsort((head, tail))
    same = (np.diff(tail[order]) == 0) & (np.diff(head[order]) == 0)
    starts = np.flatnonzero(np.append(True, ~same))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order)) - np.repeat(
        starts, np.diff(starts, append=len(order))
    )
    ends = np.sort(np.stack([tail, head]), axis=0)
    keys = np.stack([*ends, rank, availability], axis=1)
    streets, thing = np.unique(keys, axis=0, return_inverse=True)
    return thing.ravel(), streets[:, -1]


def _check_node(name: str, node: Hashable, number: Mapping[Any, int]) -> None:
    if node in number:
        return
    twin = next((label for label in number if str(label) == str(node)), None)
    examples = ", ".join(repr(label) for label in list(number)[:3])
    cure = f"its nodes are {examples} ..." if twin is None else f"write {name}={twin!r}"
    raise ValueError(f"{name} {node!r} is not a node of the graph: {cure}")


def _availabilities(
    graph: Any, edges: list[Edge], availability: AnyAvailability
) -> float | Floats:
    if isinstance(availability, str):
        return _attribute(edges, availability)
    if not isinstance(availability, Mapping):
        return float(availability)
    # Keys may name parallel edges, which `edges` leaves out: the pair is enough.
    by_pair = {tuple(key)[:2]: p for key, p in availability.items()}
    found = []
    for u, v, _ in edges:
        p = by_pair.get((u, v))
        if p is None and not graph.is_directed():
            p = by_pair.get((v, u))
        if p is None:
            raise ValueError(
                f"availability has no entry for the edge ({u!r}, {v!r}): give one "
                "probability per edge, or name an edge attribute"
            )
        found.append(float(p))
    return np.array(found)


def _attribute(edges: list[Edge], name: str) -> Floats:
    for u, v, data in edges:
        if name not in data:
            raise ValueError(f"edge {u!r} -> {v!r} has no attribute {name!r}")
    return np.array([float(data[name]) for _, _, data in edges])


def _positions(graph: Any) -> Floats | None:
    nodes = [data for _, data in graph.nodes(data=True)]
    if nodes and all("x" in data and "y" in data for data in nodes):
        return np.array([(data["x"], data["y"]) for data in nodes], dtype=np.float64)
    if nodes and all("pos" in data for data in nodes):
        return np.array([data["pos"] for data in nodes], dtype=np.float64)
    return None
