"""Drawings: different states and sets look different, whatever a task's arguments."""

import networkx as nx
import numpy as np
import pytest
from helpers.pictures import (
    VISIBLE,
    Corridor,
    below_caption,
    check_every_action_shows,
    every_task,
    start_state,
    without_colour,
)

from sas_gym import (
    BayArea,
    Maze,
    Recommender,
    Routing,
    SanFrancisco,
    SASVectorEnv,
    ShutTheBox,
    ThetaTwoTheta,
)
from sas_gym.masks import sample_actions
from sas_gym.rendering import Story, frame
from sas_gym.rendering._graph_view import GraphView, action_paths
from sas_gym.tasks._san_francisco import POSITIONS, ROADS

pytestmark = pytest.mark.slow


@every_task
def test_every_action_shows_without_colour(task):
    task = task()
    for seed in range(2):
        check_every_action_shows(task, start_state(task, seed))


@pytest.mark.parametrize(
    ("task", "states"),
    [
        (SanFrancisco, np.arange(28)),
        (BayArea, np.arange(33)),
        (ThetaTwoTheta, np.arange(2)),
        (ShutTheBox, 2 ** np.arange(9)),
        (Maze, np.array([[0.2, 0.1], [0.2, 0.12], [0.21, 0.1], [0.9, 0.9]])),
        (Recommender, Recommender().reset(4, np.random.default_rng(0))),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_different_states_look_different(task, states):
    task = task()
    mask = np.ones(task.num_actions, dtype=bool)
    pictures = {below_caption(task, state, mask).tobytes() for state in states}
    assert len(pictures) == len(states)


@pytest.mark.parametrize("num_actions", [1, 3, 16, 100, 5_000])
def test_unknown_task_shows_its_state_and_set(num_actions):
    corridor, state = Corridor(), np.array([0.5, 2.0])
    mask = np.ones(num_actions, dtype=bool)
    picture = without_colour(corridor, state, mask)
    assert (picture != without_colour(corridor, 2 * state, mask)).any()
    num_shown = min(num_actions, 900)
    for action in {0, num_shown // 3, num_shown - 1}:
        other = mask.copy()
        other[action] = False
        changed = picture != without_colour(corridor, state, other)
        assert changed.sum() >= VISIBLE


@pytest.mark.parametrize("shape", [(), (300,), (12, 12), (2, 3, 4, 5)])
def test_unknown_state_of_any_shape_shows(shape):
    mask = np.ones(3, dtype=bool)
    state = np.random.default_rng(0).normal(size=shape)
    picture = below_caption(Corridor(), state, mask)
    assert (picture != below_caption(Corridor(), state + 1, mask)).any()


def test_roads_of_san_francisco_keep_apart():
    """No road crosses another or passes through a junction."""
    places = np.array(POSITIONS)
    roads = sorted(
        {tuple(sorted((t, h))) for t in range(28) for h in ROADS[t] if h != t}
    )
    for tail, head in roads:
        for node in set(range(28)) - {tail, head}:
            distance = distance_to_line(places[node], places[tail], places[head])
            assert distance > 0.1, (tail, head, node)
        for other in roads:
            if not {tail, head} & set(other):
                assert not cross(*places[[tail, head, *other]]), (tail, head, other)


def distance_to_line(point, start, end):
    forward = end - start
    share = np.clip((point - start) @ forward / (forward @ forward), 0, 1)
    return np.hypot(*(start + share * forward - point))


def cross(a, b, c, d):
    def side(p, q, r):
        return np.sign((q - p)[0] * (r - p)[1] - (q - p)[1] * (r - p)[0])

    return side(a, b, c) != side(a, b, d) and side(c, d, a) != side(c, d, b)


def ring_with_chords(num_nodes):
    graph = nx.cycle_graph(num_nodes)
    graph.add_edges_from((i, (i * 7 + 3) % num_nodes) for i in range(num_nodes))
    return graph


def square_grid(side):
    graph = nx.grid_2d_graph(side, side)
    nx.set_node_attributes(graph, {node: node for node in graph}, "pos")
    return graph


@pytest.mark.parametrize(
    "graph",
    [ring_with_chords(12), ring_with_chords(10_000), square_grid(5), square_grid(100)],
    ids=["few without positions", "many without positions", "few", "many"],
)
@pytest.mark.parametrize("wait_cost", [None, 1.0])
def test_every_action_of_any_road_graph_shows(graph, wait_cost):
    goal = list(graph)[-1]
    routing = Routing.from_networkx(graph, goal=goal, length=None, wait_cost=wait_cost)
    check_every_action_shows(routing, np.int64(0))


def named_roads(*names):
    tail, head = [0, 1, 2], [1, 2, 3]
    return Routing(tail, head, -1.0, 1.0, num_nodes=4, goal=3, labels=names)


NAMES = ["", " ", "$", "$a$", "$a_{$", r"\x", "a name longer than its place"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("others", ["abc", ("long", "and", "longer")])
def test_node_names_of_any_kind_show(name, others):
    """Also where matplotlib would read a formula, inside nodes and beside them."""
    mask = np.array([True])
    named, unnamed = (
        below_caption(named_roads(*others, goal), 0, mask) for goal in (name, "")
    )
    assert (named != unnamed).any() == bool(name.strip())


def test_parallel_roads_loops_and_waiting_look_different():
    routing = Routing(
        [0, 0, 0, 1], [1, 1, 0, 0], -1.0, 0.5, num_nodes=2, goal=1, wait_cost=1.0
    )
    check_every_action_shows(routing, np.int64(0))


def test_paths_of_parallel_edges_and_loops_keep_apart():
    successor = np.array([[1, 1, 0], [0, -1, -1]])
    ends = np.array([[0.0, 0.0], [1.0, 0.0]])
    view = GraphView(ends, successor, centre=np.array([0.5, 0.0]), half_width=1.0)
    paths = action_paths(view, 0)
    assert paths[0][:, 1].max() > 0.1
    assert paths[1][:, 1].min() < -0.1
    assert paths[2][:, 0].max() < 1e-9
    assert action_paths(view, 1).keys() == {0}


def test_maze_without_walls_and_with_500_actuators_shows_its_set():
    maze = Maze(num_actuators=500, walls=[])
    mask = np.ones(500, dtype=bool)
    picture = without_colour(maze, maze.start, mask)
    mask[::2] = False
    assert (picture != without_colour(maze, maze.start, mask)).sum() >= VISIBLE


@pytest.mark.parametrize(("num_products", "num_topics"), [(2, 2), (100_000, 50)])
def test_catalogue_of_any_size_shows_the_best_product(num_products, num_topics):
    shop = Recommender(num_products=num_products, num_topics=num_topics)
    state = start_state(shop)
    mask = np.ones(num_products, dtype=bool)
    with_all = without_colour(shop, state, mask)
    mask[shop.expected_profit(state[None]).argmax()] = False
    assert (with_all != without_colour(shop, state, mask)).sum() >= VISIBLE


def test_dice_of_every_throw_look_different():
    task = ShutTheBox(one_die=True)
    mask = np.ones(task.num_actions, dtype=bool)
    both = {
        frame(task, 2 * 512 + 1, mask, Story(0.0, None, throw)).tobytes()
        for throw in range(36)
    }
    one = {
        frame(task, 512 + 1, mask, Story(0.0, None, throw)).tobytes()
        for throw in range(36)
    }
    choosing = {
        frame(task, 1, mask, Story(0.0, None, throw)).tobytes() for throw in range(36)
    }
    assert (len(both), len(one), len(choosing)) == (36, 6, 1)


def test_picture_tells_the_last_action_and_the_return():
    env = SASVectorEnv(SanFrancisco(1.0, start=5), 2, render_mode="rgb_array")
    env.reset(seed=0)
    start = env.render()[0]
    assert str(env._batch.story(0)) == "return so far: 0"
    env.step([1, 2])
    stories = [str(env._batch.story(i)) for i in range(2)]
    assert stories == [
        "last action: to 4, return so far: -0.1",
        "last action: to 7, return so far: -0.1",
    ]
    env.step([0, 0])
    assert str(env._batch.story(0)) == "last action: to 2, return so far: -0.2"
    assert (env.render()[0][-20:] != start[-20:]).any()


def test_dice_in_the_picture_are_the_dice_of_the_mask():
    """At any step and after any restart, in one environment and in many."""
    for num_envs in (1, 3, 500):
        task = ShutTheBox()
        env = SASVectorEnv(task, num_envs)
        _, infos = env.reset(seed=0)
        rng = np.random.default_rng(0)
        for _ in range(40):
            mask = infos["action_mask"]
            for i in range(min(num_envs, 3)):
                story = env._batch.story(i)
                shown = task.available(
                    env._batch.state[i : i + 1], np.array([story.outcome])
                )
                np.testing.assert_array_equal(shown[0], mask[i])
            *_, infos = env.step(sample_actions(mask, rng))
