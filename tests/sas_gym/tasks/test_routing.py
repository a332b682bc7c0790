"""The road maps have their published values, and any graph can be a task."""

import gymnasium as gym
import networkx as nx
import numpy as np
import pytest
from helpers import brute_force, published
from helpers.statistical import assert_mean

from sas_gym import (
    RandomPolicy,
    Routing,
    SanFrancisco,
    SASEnv,
    SASVectorEnv,
    episode_returns,
)
from sas_gym.tasks._routing import can_reach


def mean_return(task, choose, horizon):
    """Return the mean return of a policy that is given by its choice from every set."""
    mdp = task.tabular()
    return mdp.initial_distribution @ brute_force.values(mdp, horizon, choose)


@pytest.mark.parametrize(
    ("availability", "optimum"), published.SAN_FRANCISCO_OPTIMA.items()
)
def test_san_francisco_published_values(availability, optimum):
    task = SanFrancisco(availability)
    random = published.SAN_FRANCISCO_RANDOM
    assert mean_return(task, np.max, 30) == pytest.approx(optimum, abs=5e-4)
    assert mean_return(task, np.mean, 30) == pytest.approx(random, abs=5e-4)


@pytest.mark.parametrize("availability", [0.2, 0.8])
def test_random_play_has_exact_return(availability):
    exact = mean_return(SanFrancisco(availability), np.mean, 30)
    env = gym.make_vec("SAS/SanFrancisco-v0", num_envs=1000, availability=availability)
    assert_mean(episode_returns(env, RandomPolicy(seed=0), 40_000, seed=0), exact)


def test_bridge_availability():
    plain, bridged = SanFrancisco(0.6), SanFrancisco(0.6, bridge_availability=0.1)
    (where,) = np.argwhere(plain.availability != bridged.availability)
    assert plain.successor[tuple(where)] == 0
    assert where[0] == 27
    assert bridged.availability[tuple(where)] == 0.1


def test_san_francisco_rewards():
    task = SanFrancisco()
    rng = np.random.default_rng(0)
    for tail, action, head, reward in [
        (1, 0, 0, 9.9),  # arrival
        (4, 1, 4, -1.1),  # a road back to where it started
        (20, 4, 23, -0.1),
    ]:
        state, gained, ended = task.transition(
            np.array([tail]), np.array([action]), rng
        )
        assert (state[0], gained[0], ended[0]) == (
            head,
            pytest.approx(reward),
            head == 0,
        )


def test_starts_are_uniform():
    starts = SanFrancisco(goal=5).reset(270_000, np.random.default_rng(0))
    frequency = np.bincount(starts, minlength=28) / len(starts)
    assert frequency[5] == 0
    # Standard deviation 0.00036: a bound of 0.002 fails by chance less than 1e-6.
    np.testing.assert_allclose(np.delete(frequency, 5), 1 / 27, atol=0.002)


def test_waiting_is_always_available_and_costs():
    env = gym.make("SAS/BayArea-v0", availability=0.01, start=0)
    _, info = env.reset(seed=0)
    wait = len(info["action_mask"]) - 1
    for _ in range(50):
        assert info["action_mask"][wait] == 1
        obs, reward, _, _, info = env.step(wait)
        assert (obs["observation"], reward) == (0, -5.0)


def square(directed):
    graph = nx.DiGraph() if directed else nx.Graph()
    graph.add_edge("a", "b", length=2.0, availability=0.5)
    graph.add_edge("b", "c", length=3.0, availability=0.25)
    graph.add_edge("c", "a", length=1.0, availability=1.0)
    return graph


def roads(task):
    """Return {(tail, head): (reward, availability)} in the graph's own labels."""
    return {
        (task.labels[tail], task.labels[task.successor[tail, action]]): (
            task.reward[tail, action],
            task.availability[tail, action],
        )
        for tail, action in np.argwhere(task.successor >= 0)
    }


def test_directed_graph_keeps_roads():
    task = Routing.from_networkx(square(True), goal="c", availability="availability")
    assert roads(task) == {
        ("a", "b"): (-2.0, 0.5),
        ("b", "c"): (-3.0, 0.25),
        ("c", "a"): (-1.0, 1.0),
    }


def test_undirected_graph_has_two_way_roads():
    graph = square(False)
    graph.add_edge("a", "a", length=7.0, availability=0.1)
    task = Routing.from_networkx(graph, goal="c", availability=0.4)
    both_ways = {("a", "b"): -2.0, ("b", "c"): -3.0, ("c", "a"): -1.0}
    both_ways |= {(v, u): reward for (u, v), reward in both_ways.items()}
    expected = {road: (reward, 0.4) for road, reward in both_ways.items()}
    assert roads(task) == expected | {("a", "a"): (-7.0, 0.4)}


def test_parallel_roads_are_separate_actions():
    graph = nx.MultiDiGraph([("a", "b", {"length": 1.0}), ("a", "b", {"length": 2.0})])
    task = Routing.from_networkx(graph, goal="b")
    assert task.num_actions == 2
    np.testing.assert_array_equal(task.reward[0], [-1.0, -2.0])


def test_goal_without_way_out_has_action_set():
    env = SASEnv(
        Routing.from_networkx(nx.path_graph(3, nx.DiGraph), goal=2, length=None)
    )
    env.reset(seed=0)
    while not (returned := env.step(0))[2]:
        pass
    np.testing.assert_array_equal(returned[-1]["action_mask"], [1])


def test_positions_from_graph():
    graph = nx.path_graph(2)
    assert Routing.from_networkx(graph, goal=0, length=None).positions is None
    for node in graph:
        graph.nodes[node].update(x=node, y=2 * node)
    task = Routing.from_networkx(graph, goal=0, length=None)
    np.testing.assert_array_equal(task.positions, [[0, 0], [1, 2]])


def test_ten_thousand_nodes():
    """On a grid where all is open, play by exact distances takes shortest paths."""
    graph = nx.grid_2d_graph(100, 100)
    task = Routing.from_networkx(graph, goal=(0, 0), length=None, availability=1.0)
    distance = np.array([sum(label) for label in graph.nodes])
    env = SASVectorEnv(task, 256)
    obs, infos = env.reset(seed=0)
    start, total, left = distance[obs["observation"]], np.zeros(256), np.ones(256, bool)
    while left.any():
        ahead = np.where(
            infos["action_mask"] == 1, distance[task.successor[obs["observation"]]], 999
        )
        obs, reward, terminated, _, infos = env.step(ahead.argmin(axis=1))
        total += reward * left
        left &= ~terminated
    np.testing.assert_array_equal(-total, start)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"goal": 9}, r"goal \[9\] is not a node: the nodes are 0 to 3"),
        ({"goal": 1.5}, "goal must be integers that name nodes"),
        ({"start": 3, "goal": 3}, "start and goal are the same node, 3"),
        ({"head": [1, 2, 4]}, r"head \[4\] is not a node"),
        ({"tail": [0.0, 1.0, 2.0]}, "tail must be integers that name nodes"),
        ({"tail": [], "head": []}, "tail must be integers that name nodes"),
        ({"reward": [0, np.nan, 0]}, "reward must be finite"),
        ({"wait_cost": np.inf}, "wait_cost must be a finite number"),
        (
            {"availability": [0.5, 2.0, 0.5]},
            r"availability must be probabilities in \[0, 1\]",
        ),
        ({"availability": [0.5, 0.0, 0.5]}, "leads out of node 1"),
        ({"goal": 0}, "leads out of node 3"),
        ({"goal": 0, "wait_cost": 1.0}, "goal 0 cannot be reached from node 1, 2, 3"),
    ],
)
def test_malformed_graph_error(options, message):
    path = {"tail": [0, 1, 2], "head": [1, 2, 3], "reward": -1.0, "availability": 0.5}
    with pytest.raises(ValueError, match=message):
        Routing(**{**path, "num_nodes": 4, "goal": 3, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"goal": "z"}, "goal 'z' is not a node"),
        ({"goal": "a", "start": "z"}, "start 'z' is not a node"),
        ({"goal": "a", "length": "km"}, "edge 'a' -> 'b' has no attribute 'km'"),
        ({"goal": "a", "availability": "p"}, "edge 'a' -> 'b' has no attribute 'p'"),
    ],
)
def test_from_networkx_argument_error(options, message):
    with pytest.raises(ValueError, match=message):
        Routing.from_networkx(square(True), **options)


def test_negative_length_error():
    with pytest.raises(ValueError, match="'length' has negative lengths"):
        Routing.from_networkx(nx.Graph([(0, 1, {"length": -1.0})]), goal=0)


def test_chosen_start_must_reach_goal():
    graph = nx.DiGraph([(0, 1), (1, 2), (2, 1), (3, 4), (4, 3)])
    with pytest.raises(ValueError, match="cannot be reached from node 3, 4"):
        Routing.from_networkx(graph, goal=2, length=None)
    task = Routing.from_networkx(graph, goal=2, start=0, length=None)
    np.testing.assert_array_equal(task.reset(3, np.random.default_rng(0)), 0)


def test_can_reach_equals_brute_force():
    rng = np.random.default_rng(0)
    for _ in range(50):
        num_nodes, num_edges = int(rng.integers(1, 12)), rng.integers(0, 20)
        tail, head = rng.integers(num_nodes, size=(2, num_edges))
        targets = rng.integers(num_nodes, size=rng.integers(3))
        expected = np.isin(np.arange(num_nodes), targets)
        for _ in range(num_nodes):
            expected[tail[expected[head]]] = True
        found = can_reach(targets, tail, head, num_nodes)
        np.testing.assert_array_equal(found, expected)


def test_long_path_is_built_in_linear_time():
    """A search of quadratic time takes minutes here."""
    node = np.arange(31_999)
    task = Routing(node, node + 1, -1.0, 0.5, num_nodes=32_000, goal=31_999)
    assert task.num_states == 32_000
