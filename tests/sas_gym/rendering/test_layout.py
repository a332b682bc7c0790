"""Positions for graphs that come without any."""

import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from sas_gym import Routing
from sas_gym.rendering import frame
from sas_gym.rendering._layout import MAX_NODES, layout
from sas_gym.tasks._routing import NO_ROAD


def positions_of(graph, **options):
    goal = next(iter(graph))
    routing = Routing.from_networkx(graph, goal=goal, length=None, **options)
    return layout(routing.successor, routing.goal)


@pytest.mark.parametrize("size", [4, 30])
def test_grid_is_laid_out_as_an_upright_grid(size):
    """The README's streets: every street is straight, upright or level."""
    graph = nx.grid_2d_graph(size, size)
    positions = positions_of(graph).reshape(size, size, 2)
    streets = np.concatenate([positions, positions.swapaxes(0, 1)])
    widths = np.ptp(streets, axis=1)
    block = np.ptp(positions) / (size - 1)
    assert (widths.min(axis=1) < 0.5 * block).all()
    assert (widths.max(axis=1) > 0.9 * np.ptp(positions)).all()


@pytest.mark.parametrize(
    "graph",
    [nx.grid_2d_graph(30, 30), nx.cycle_graph(12), nx.random_labeled_tree(60, seed=0)],
    ids=["grid", "ring", "tree"],
)
def test_neighbours_are_close_and_no_nodes_meet(graph):
    """No two nodes are closer than a third of the mean length of an edge."""
    positions = positions_of(graph)
    distance = squareform(pdist(positions))
    joined = nx.to_numpy_array(graph, dtype=bool)
    length = distance[joined].mean()
    assert distance[~np.eye(len(positions), dtype=bool)].min() > length / 3
    assert distance[joined].max() < 2 * length


@pytest.mark.parametrize("size", [10, MAX_NODES + 1])
def test_layout_is_the_same_every_time(size):
    graph = nx.cycle_graph(size)
    np.testing.assert_array_equal(positions_of(graph), positions_of(graph))


def test_large_graph_is_laid_out_without_distances_between_all_nodes():
    """The table of 90,000 distances squared would need 65 gigabytes."""
    positions = positions_of(nx.grid_2d_graph(300, 300))
    assert np.isfinite(positions).all()
    assert len(np.unique(positions.round(9), axis=0)) == 90_000


def test_parts_that_no_road_joins_are_laid_out_side_by_side():
    graph = nx.disjoint_union(nx.path_graph(3), nx.path_graph(3))
    positions = positions_of(graph, start=1)
    assert pdist(positions).min() > 0.1 * pdist(positions).max()


@pytest.mark.parametrize("size", [2, 3, 4])
def test_few_nodes_do_not_meet(size):
    distances = pdist(positions_of(nx.path_graph(size)))
    assert distances.min() > 0.1 * distances.max()


def test_roads_from_a_node_to_itself_and_parallel_roads_are_laid_out():
    successor = np.array([[1, 1, 0], [0, NO_ROAD, NO_ROAD]])
    assert pdist(layout(successor, goal=1)).min() > 0


def test_layout_is_kept_and_not_part_of_the_task():
    """The task's own positions stay empty, so that it is pickled as it was made."""
    task = Routing.from_networkx(nx.cycle_graph(5), goal=0, length=None)
    mask = np.ones(2, dtype=bool)
    np.testing.assert_array_equal(frame(task, 1, mask), frame(task, 1, mask))
    assert task.positions is None


def test_missing_networkx_is_named_with_its_cure():
    code = (
        "import sys; sys.modules['networkx'] = None\n"
        "import numpy as np\n"
        "from sas_gym.rendering._layout import layout\n"
        "layout(np.array([[1], [0]]), 0)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True
    )
    assert 'pip install "sas-gym[render]"' in answer.stderr
