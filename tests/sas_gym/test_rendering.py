"""Pictures: the same for the same state and set, different for different ones."""

import subprocess
import sys

import gymnasium as gym
import networkx as nx
import numpy as np
import pytest
from gymnasium.error import DependencyNotInstalled
from gymnasium.wrappers import RecordVideo, TimeLimit

from sas_gym import BayArea, Maze, Routing, SanFrancisco, SASEnv, Task, ThetaTwoTheta
from sas_gym.action_sets import Independent
from sas_gym.rendering import Window, draw, frame
from sas_gym.rendering._graph_view import Plan, ways_out
from sas_gym.tasks._recommender import Recommender
from sas_gym.tasks._san_francisco import POSITIONS, ROADS

CAPTION_HEIGHT = 36
TASKS = [SanFrancisco, BayArea, Maze, Recommender, ThetaTwoTheta]
every_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.__name__)


class Corridor(Task):
    """A user's own task, of which the drawings know nothing."""

    num_actions = 3
    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_sets = Independent(0.5)

    def reset(self, num_envs, rng):
        return rng.normal(size=(num_envs, 2))

    def transition(self, state, action, rng):
        reward = rng.normal(size=len(state))
        return state + action[:, None], reward, np.zeros(len(state), dtype=bool)


def a_state(task, seed=0):
    return task.reset(1, np.random.default_rng(seed))[0]


def all_possible(task, state):
    possible = task.possible(np.asarray(state)[None])
    return np.ones(task.num_actions, dtype=bool) if possible is None else possible[0]


def drawing(*arguments):
    """Return the picture below its caption, which tells the number of actions."""
    return frame(*arguments)[CAPTION_HEIGHT:]


def step_at_random(env, mask):
    return env.step(env.unwrapped.np_random.choice(np.flatnonzero(mask)))


@every_task
def test_frames_keep_their_size_over_an_episode(task):
    env = TimeLimit(SASEnv(task(), render_mode="rgb_array"), 3)
    _, info = env.reset(seed=0)
    frames, done = [env.render()], False
    while not done:
        _, _, terminated, truncated, info = step_at_random(env, info["action_mask"])
        frames.append(env.render())
        done = terminated or truncated
    assert {(picture.dtype, picture.shape) for picture in frames} == {
        (np.dtype(np.uint8), (600, 600, 3))
    }


@every_task
def test_every_single_action_shows_whether_it_is_available(task):
    task = task()
    for state in (a_state(task, seed) for seed in range(2)):
        check_that_every_action_shows(task, state)


def check_that_every_action_shows(task, state):
    full = all_possible(task, state)
    actions = np.flatnonzero(full)[:16]
    pictures = {drawing(task, state, full).tobytes()}
    for action in actions:
        without = full.copy()
        without[action] = False
        pictures.add(drawing(task, state, without).tobytes())
    assert len(pictures) == 1 + len(actions)


@every_task
def test_one_state_and_set_give_one_picture(task):
    state = a_state(task())
    mask = all_possible(task(), state)
    np.testing.assert_array_equal(
        frame(task(), state, mask), frame(task(), state, mask)
    )


@pytest.mark.parametrize(
    ("task", "states"),
    [
        (SanFrancisco, np.arange(28)),
        (BayArea, np.arange(33)),
        (ThetaTwoTheta, np.arange(2)),
        (Maze, np.array([[0.2, 0.1], [0.2, 0.12], [0.21, 0.1], [0.9, 0.9]])),
        (Recommender, Recommender().reset(4, np.random.default_rng(0))),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_every_state_has_a_picture_of_its_own(task, states):
    task = task()
    mask = np.ones(task.num_actions, dtype=bool)
    pictures = {drawing(task, state, mask).tobytes() for state in states}
    assert len(pictures) == len(states)


def test_drawing_changes_neither_state_nor_set():
    for task in TASKS:
        state = a_state(task())
        mask = all_possible(task(), state)
        before = state.copy(), mask.copy()
        frame(task(), state, mask)
        np.testing.assert_array_equal(state, before[0])
        np.testing.assert_array_equal(mask, before[1])


def test_nothing_of_pyplot_is_used():
    code = """
import sys, numpy as np
from sas_gym import Maze
from sas_gym.rendering import frame
frame(Maze(), np.array([0.25, 0.1]), np.ones(16, dtype=bool))
assert "matplotlib" in sys.modules and "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("num_actions", [1, 3, 16, 100, 5_000])
def test_a_task_of_ones_own_is_drawn_as_text_and_cells(num_actions):
    corridor = Corridor()
    mask = np.ones(num_actions, dtype=bool)
    picture = drawing(corridor, np.array([0.5, 2.0]), mask)
    assert (picture != drawing(corridor, np.array([0.5, 3.0]), mask)).any()
    mask[0] = False
    assert (picture != drawing(corridor, np.array([0.5, 2.0]), mask)).any()


@pytest.mark.parametrize("shape", [(), (300,), (12, 12), (2, 3, 4, 5)])
def test_states_of_any_shape_are_written_down(shape):
    mask = np.ones(3, dtype=bool)
    state = np.random.default_rng(0).normal(size=shape)
    written = drawing(Corridor(), state, mask)
    assert (written != drawing(Corridor(), state + 1, mask)).any()


def test_a_registered_drawing_is_used_for_the_task_and_its_subclasses():
    class Tiled(Corridor):
        pass

    class Striped(Tiled):
        pass

    seen = []

    @draw.register(Tiled)
    def _(task, ax, state, mask):
        seen.append((task, state, mask))
        ax.set_facecolor("black")

    mask = np.ones(3, dtype=bool)
    task = Striped()
    assert frame(task, 7, mask).mean() < frame(Corridor(), 7, mask).mean() / 2
    assert seen == [(task, 7, mask)]


def test_no_road_of_the_map_crosses_another_or_passes_through_a_junction():
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
    along = end - start
    share = np.clip((point - start) @ along / (along @ along), 0, 1)
    return np.hypot(*(start + share * along - point))


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
    ids=["few without places", "many without places", "few", "many"],
)
@pytest.mark.parametrize("wait_cost", [None, 1.0])
def test_any_road_graph_can_be_drawn(graph, wait_cost):
    goal = list(graph)[-1]
    routing = Routing.from_networkx(graph, goal=goal, length=None, wait_cost=wait_cost)
    check_that_every_action_shows(routing, np.int64(0))


def test_names_of_any_kind_can_be_written():
    names = ["$a$b$", "a_{", "a name much longer than there is room for", ""]
    roads = dict(tail=[0, 1, 2], head=[1, 2, 3], reward=-1.0, availability=1.0)
    routing = Routing(**roads, num_nodes=4, goal=3, labels=names)
    for node in range(4):
        frame(routing, np.int64(node), routing.possible(np.array([node]))[0])


def test_roads_that_run_side_by_side_or_lead_nowhere_are_told_apart():
    routing = Routing(
        [0, 0, 0, 1], [1, 1, 0, 0], -1.0, 0.5, num_nodes=2, goal=1, wait_cost=1.0
    )
    pictures = [drawing(routing, np.int64(0), row) for row in np.eye(4, dtype=bool)]
    assert len({picture.tobytes() for picture in pictures}) == 4


def test_roads_side_by_side_stand_apart_and_a_loop_keeps_clear_of_them():
    successor = np.array([[1, 1, 0], [0, -1, -1]])
    ends = np.array([[0.0, 0.0], [1.0, 0.0]])
    ways = ways_out(
        Plan(ends, successor, 0, centre=np.array([0.5, 0.0]), half_width=1.0)
    )
    assert ways[0][:, 1].max() > 0.1
    assert ways[1][:, 1].min() < -0.1
    assert ways[2][:, 0].max() < 1e-9
    assert ways_out(Plan(ends, successor, 1, ends[0], 1.0)).keys() == {0}


def test_a_maze_without_walls_and_with_hundreds_of_actuators_can_be_drawn():
    maze = Maze(num_actuators=500, walls=[])
    mask = np.ones(500, dtype=bool)
    picture = drawing(maze, maze.start, mask)
    mask[::2] = False
    assert (picture != drawing(maze, maze.start, mask)).any()


@pytest.mark.parametrize(("num_products", "num_topics"), [(2, 2), (100_000, 50)])
def test_a_catalogue_of_any_size_can_be_drawn(num_products, num_topics):
    shop = Recommender(num_products=num_products, num_topics=num_topics)
    state = a_state(shop)
    mask = np.ones(num_products, dtype=bool)
    with_all = drawing(shop, state, mask)
    mask[shop.expected_profit(state[None]).argmax()] = False
    assert (with_all != drawing(shop, state, mask)).any()


@pytest.mark.parametrize("driver", ["dummy", None])
def test_human_mode_works_without_a_display(driver, monkeypatch, capfd):
    for name in ("SDL_VIDEODRIVER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    if driver is not None:
        monkeypatch.setenv("SDL_VIDEODRIVER", driver)
    env = SASEnv(Maze(), render_mode="human")
    _, info = env.reset(seed=0)
    import pygame

    assert pygame.display.get_driver() == "dummy"
    assert pygame.display.get_caption()[0] == str(env)
    expected = frame(env.task, env.state, env.action_masks()).swapaxes(0, 1)
    shown = pygame.surfarray.array3d(pygame.display.get_surface())
    np.testing.assert_array_equal(shown, expected)
    step_at_random(env, info["action_mask"])
    assert (pygame.surfarray.array3d(pygame.display.get_surface()) != expected).any()
    assert env.render() is None
    env.close()
    env.close()
    assert not pygame.display.get_init()
    assert capfd.readouterr() == ("", "")


def test_a_window_that_was_closed_opens_again():
    picture = np.zeros((40, 60, 3), dtype=np.uint8)
    window = Window("closed by another", fps=4)
    window.show(picture)
    Window("another", fps=4).close()
    window.show(picture)
    window.close()


def test_an_unseen_window_does_not_hold_the_caller(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    window = Window("unseen", fps=4)
    monkeypatch.setattr(window, "_clock", None)  # whoever asks it for the time, fails
    window.show(np.zeros((40, 60, 3), dtype=np.uint8))
    window.close()


def test_a_video_can_be_recorded(tmp_path):
    env = TimeLimit(SASEnv(Maze(), render_mode="rgb_array"), 4)
    env = RecordVideo(env, str(tmp_path / "videos"), disable_logger=True)
    _, info = env.reset(seed=0)
    truncated = False
    while not truncated:
        _, _, _, truncated, info = step_at_random(env, info["action_mask"])
    env.close()
    (video,) = (tmp_path / "videos").glob("*.mp4")
    assert video.stat().st_size > 1000


def test_importing_loads_neither_matplotlib_nor_pygame():
    code = """
import importlib, pkgutil, sys
import sas_gym
for module in pkgutil.walk_packages(sas_gym.__path__, "sas_gym."):
    importlib.import_module(module.name)
assert "sas_gym.rendering._window" in sys.modules
assert not {"matplotlib", "pygame"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_pygame_loads_beside_an_old_setuptools_where_warnings_are_errors(tmp_path):
    (tmp_path / "pkg_resources.py").write_text(
        "import warnings\nwarnings.warn('pkg_resources is deprecated')\n"
        "resource_exists = resource_stream = None\n"
    )
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from sas_gym.rendering import Window
Window("quiet", fps=4)
assert "pkg_resources" in sys.modules
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


INSTALL = r'pip install "sas-gym\[render\]"'


def test_a_frame_without_matplotlib_says_what_to_install(monkeypatch):
    for module in [name for name in sys.modules if name.startswith("matplotlib.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    env = SASEnv(Maze(), render_mode="rgb_array")
    env.reset(seed=0)
    with pytest.raises(DependencyNotInstalled, match=f"matplotlib.*{INSTALL}"):
        env.render()


def test_a_window_without_pygame_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    env = SASEnv(Maze(), render_mode="human")
    with pytest.raises(DependencyNotInstalled, match=f"pygame.*{INSTALL}"):
        env.reset(seed=0)
