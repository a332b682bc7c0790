"""The road maps are the published ones, and any graph can be one."""

import gymnasium as gym
import networkx as nx
import numpy as np
import pytest
from helpers.statistical import all_masks, assert_mean, independent_law

from sas_gym import (
    BayArea,
    RandomPolicy,
    Routing,
    SanFrancisco,
    SASEnv,
    SASVectorEnv,
    episode_returns,
)


def backup(routing, v, choose):
    """Average a choice of action values over every set, enumerated."""
    q = routing.reward + np.where(
        routing.successor == routing.goal, 0.0, v[routing.successor]
    )
    sets = all_masks(routing.num_actions)[1:]
    new = np.zeros(len(v))
    for state in range(len(v)):
        law = independent_law(routing.availability[state])[1:]
        new[state] = sum(
            chance * choose(q[state, mask])
            for mask, chance in zip(sets, law, strict=True)
            if chance
        )
    new[routing.goal] = 0.0
    return new


def mean_return(routing, choose, horizon):
    v = np.zeros(routing.num_states)
    for _ in range(horizon):
        v = backup(routing, v, choose)
    return np.delete(v, routing.goal).mean()


@pytest.mark.parametrize(
    ("availability", "optimum"),
    [(0.2, 3.967), (0.4, 7.567), (0.6, 9.047), (0.8, 9.432), (1.0, 9.596)],
)
def test_san_francisco_has_its_published_values(availability, optimum):
    task = SanFrancisco(availability)
    assert mean_return(task, np.max, 30) == pytest.approx(optimum, abs=5e-4)
    assert mean_return(task, np.mean, 30) == pytest.approx(0.341, abs=5e-4)


@pytest.mark.parametrize("availability", [0.2, 0.8])
def test_random_play_on_the_map_has_its_exact_return(availability):
    exact = mean_return(SanFrancisco(availability), np.mean, 30)
    env = gym.make_vec("SAS/SanFrancisco-v0", num_envs=1000, availability=availability)
    assert_mean(episode_returns(env, RandomPolicy(seed=0), 40_000, seed=0), exact)


def test_the_bridge_has_a_probability_of_its_own():
    plain, bridged = SanFrancisco(0.6), SanFrancisco(0.6, bridge_availability=0.1)
    (where,) = np.argwhere(plain.availability != bridged.availability)
    assert plain.successor[tuple(where)] == 0
    assert where[0] == 27
    assert bridged.availability[tuple(where)] == 0.1


def test_the_map_rewards_as_stated():
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


def test_starts_are_uniform_over_all_but_the_goal():
    starts = SanFrancisco(goal=5).reset(270_000, np.random.default_rng(0))
    frequency = np.bincount(starts, minlength=28) / len(starts)
    assert frequency[5] == 0
    # Standard deviation 0.00036: a bound of 0.002 fails by chance less than 1e-6.
    np.testing.assert_allclose(np.delete(frequency, 5), 1 / 27, atol=0.002)


@pytest.mark.parametrize(
    ("bridge", "cost"),
    [
        (1, 11.3),
        (0.8, 12.5),
        (0.4, 18.8),
        (0.2, 31.3),
        (0.1, 56.3),
        (0.05, 68.8),
        (0.02, 72.8),
        (0.01, 74.1),
    ],
)
def test_the_bay_area_has_its_published_costs(bridge, cost):
    """Kilometres across the Bay, every link but the bridge open half of the time."""
    task = BayArea(0.5, bridge)
    v, change = np.zeros(task.num_states), np.inf
    while change > 1e-5:
        new = backup(task, v, np.max)
        v, change = new, np.abs(new - v).max()
    assert -v[9] == pytest.approx(cost, abs=0.05)


def test_waiting_in_the_bay_area_is_always_available_and_costs():
    env = gym.make("SAS/BayArea-v0", availability=0.01, start=0)
    _, info = env.reset(seed=0)
    wait = env.action_space.n - 1
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


def test_a_directed_graph_keeps_its_roads():
    task = Routing.from_networkx(square(True), goal="c", availability="availability")
    assert roads(task) == {
        ("a", "b"): (-2.0, 0.5),
        ("b", "c"): (-3.0, 0.25),
        ("c", "a"): (-1.0, 1.0),
    }


def test_an_undirected_graph_has_a_road_each_way():
    graph = square(False)
    graph.add_edge("a", "a", length=7.0, availability=0.1)
    task = Routing.from_networkx(graph, goal="c", availability=0.4)
    both_ways = {("a", "b"): -2.0, ("b", "c"): -3.0, ("c", "a"): -1.0}
    both_ways |= {(v, u): reward for (u, v), reward in both_ways.items()}
    expected = {road: (reward, 0.4) for road, reward in both_ways.items()}
    assert roads(task) == expected | {("a", "a"): (-7.0, 0.4)}


def test_parallel_roads_are_actions_of_their_own():
    graph = nx.MultiDiGraph([("a", "b", {"length": 1.0}), ("a", "b", {"length": 2.0})])
    task = Routing.from_networkx(graph, goal="b")
    assert task.num_actions == 2
    np.testing.assert_array_equal(task.reward[0], [-1.0, -2.0])


def test_a_goal_without_a_way_out_still_has_an_action_set():
    env = SASEnv(
        Routing.from_networkx(nx.path_graph(3, nx.DiGraph), goal=2, length=None)
    )
    env.reset(seed=0)
    while not (told := env.step(0))[2]:
        pass
    np.testing.assert_array_equal(told[-1]["action_mask"], [1])


def test_positions_come_with_the_graph():
    graph = nx.path_graph(2)
    assert Routing.from_networkx(graph, goal=0, length=None).positions is None
    for node in graph:
        graph.nodes[node].update(x=node, y=2 * node)
    task = Routing.from_networkx(graph, goal=0, length=None)
    np.testing.assert_array_equal(task.positions, [[0, 0], [1, 2]])


def test_ten_thousand_nodes_are_played():
    """On a grid where all is open, play by exact distances takes shortest paths."""
    graph = nx.grid_2d_graph(100, 100)
    task = Routing.from_networkx(graph, goal=(0, 0), length=None, availability=1.0)
    distance = np.array([x + y for x, y in task.labels])
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
        ({"goal": 9}, r"goal \[9\] is no node: the nodes are 0 to 3"),
        ({"goal": 1.5}, "goal must be numbers of nodes"),
        ({"start": 3, "goal": 3}, "start and goal are one node, 3"),
        ({"head": [1, 2, 4]}, r"head \[4\] is no node"),
        ({"tail": [0.0, 1.0, 2.0]}, "tail must be numbers of nodes"),
        ({"tail": [], "head": []}, "tail must be numbers of nodes"),
        ({"reward": [0, np.nan, 0]}, "reward must be finite"),
        ({"wait_cost": np.inf}, "wait_cost must be finite"),
        (
            {"availability": [0.5, 2.0, 0.5]},
            r"availability must be numbers in \[0, 1\]",
        ),
        ({"availability": [0.5, 0.0, 0.5]}, "leads out of node 1"),
        ({"goal": 0}, "leads out of node 3"),
        ({"goal": 0, "wait_cost": 1.0}, "goal 0 cannot be reached from node 1, 2, 3"),
    ],
)
def test_a_malformed_graph_is_named(options, message):
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
def test_a_graph_that_does_not_fit_its_arguments_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        Routing.from_networkx(square(True), **options)


def test_a_negative_length_is_named():
    with pytest.raises(ValueError, match="'length' has negative lengths"):
        Routing.from_networkx(nx.Graph([(0, 1, {"length": -1.0})]), goal=0)


def test_only_the_chosen_start_has_to_reach_the_goal():
    graph = nx.DiGraph([(0, 1), (1, 2), (2, 1), (3, 4), (4, 3)])
    with pytest.raises(ValueError, match="cannot be reached from node 3, 4"):
        Routing.from_networkx(graph, goal=2, length=None)
    task = Routing.from_networkx(graph, goal=2, start=0, length=None)
    np.testing.assert_array_equal(task.reset(3, np.random.default_rng(0)), 0)
