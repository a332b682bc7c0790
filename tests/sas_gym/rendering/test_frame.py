"""Frames: their contract, what is kept between them, windows, videos and imports."""

import copy
import gc
import pickle
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import DependencyNotInstalled
from gymnasium.wrappers import HumanRendering, RecordVideo, TimeLimit
from helpers.pictures import TASKS, Corridor, every_task, start

from sas_gym import SPECS, Maze, SASEnv, SASVectorEnv
from sas_gym.rendering import _frame, draw, draw_background, frame

every_id = pytest.mark.parametrize("env_id", [spec.id for spec in SPECS])


def step_at_random(env, mask):
    return env.step(env.unwrapped.np_random.choice(np.flatnonzero(mask)))


@every_task
def test_frames_keep_their_size(task):
    env = TimeLimit(SASEnv(task(), render_mode="rgb_array"), 3)
    _, info = env.reset(seed=0)
    frames, done = [np.asarray(env.render())], False
    while not done:
        _, _, terminated, truncated, info = step_at_random(env, info["action_mask"])
        frames.append(np.asarray(env.render()))
        done = terminated or truncated
    assert len(frames) > 1
    assert {(picture.dtype, picture.shape) for picture in frames} == {
        (np.dtype(np.uint8), (600, 600, 3))
    }


@every_task
def test_frame_is_a_function_of_state_and_set(task):
    """It depends neither on the frames before nor on what the task object has seen."""
    task, state, mask = start(task())
    first = frame(task, state, mask)
    frame(task, task.reset(1, np.random.default_rng(1))[0], ~mask)
    np.testing.assert_array_equal(frame(task, state, mask), first)
    np.testing.assert_array_equal(frame(type(task)(), state, mask), first)


@every_task
def test_frame_changes_neither_state_nor_set(task):
    task, state, mask = start(task())
    before = state.copy(), mask.copy()
    frame(task, state, mask)
    np.testing.assert_array_equal(state, before[0])
    np.testing.assert_array_equal(mask, before[1])


def test_vector_env_renders_every_environment():
    env = SASVectorEnv(Maze(), 3, render_mode="rgb_array")
    env.reset(seed=0)
    env.step([mask.argmax() for mask in env.action_masks()])
    frames = env.render()
    batch = env._batch
    for i, picture in enumerate(frames):
        expected = frame(Maze(), batch.state[i], batch.mask[i], batch.story(i))
        np.testing.assert_array_equal(picture, expected)
    assert len(frames) == 3


def test_draw_is_registered_for_a_class_and_its_subclasses():
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


def test_background_is_drawn_once_below_the_drawing_in_the_same_view():
    class Lit(Corridor):
        pass

    drawn = []

    @draw_background.register(Lit)
    def _(task, ax):
        drawn.append(task)
        ax.set(xlim=(0, 2), ylim=(0, 2), aspect="equal")
        ax.fill([0, 1, 1, 0], [0, 0, 2, 2], color="red")
        ax.set_axis_off()

    @draw.register(Lit)
    def _(_task, ax, _state, _mask):
        assert (*ax.get_xlim(), *ax.get_ylim(), ax.get_aspect()) == (0, 2, 0, 2, 1)
        ax.fill([0, 2, 2, 0], [0, 0, 1, 1], color="blue")
        ax.set_axis_off()

    task, mask = Lit(), np.ones(3, dtype=bool)
    pictures = [frame(task, state, mask) for state in (0, 1)]
    assert drawn == [task]
    for picture in pictures:
        upper, lower = picture[200, [200, 400]], picture[400, [200, 400]]
        assert upper.tolist() == [[255, 0, 0], [255, 255, 255]]
        assert lower.tolist() == [[0, 0, 255], [0, 0, 255]]


def test_background_is_dropped_with_its_task():
    gc.collect()
    before = set(_frame._background.kept)
    task = Maze()
    frame(*start(task))
    assert set(_frame._background.kept) - before == {id(task)}
    del task
    gc.collect()
    assert set(_frame._background.kept) == before


@every_task
def test_background_is_neither_pickled_nor_copied(task):
    env = SASEnv(task(), render_mode="rgb_array")
    env.reset(seed=0)
    size = len(pickle.dumps(env))
    picture = env.render()
    assert len(pickle.dumps(env)) == size
    for other in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert id(other.task) not in _frame._background.kept
        np.testing.assert_array_equal(other.render(), picture)


def test_tasks_need_not_be_hashable():
    class Unhashable(Corridor):
        __hash__ = None  # type: ignore[assignment]  # as a dataclass has it

    frame(*start(Unhashable()))


@every_id
def test_window_shows_the_frames(env_id, monkeypatch):
    """`gymnasium.make` opens it, by its own wrapper, where there is no native one."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    with pytest.warns(UserWarning, match="HumanRendering wrapper is being applied"):
        env = gym.make(env_id, render_mode="human")
    assert isinstance(env, HumanRendering)
    _, info = env.reset(seed=0)
    import pygame

    def shown():
        return pygame.surfarray.array3d(pygame.display.get_surface()).swapaxes(0, 1)

    first = shown()
    np.testing.assert_array_equal(first, env.unwrapped.render())
    step_at_random(env, info["action_mask"])
    np.testing.assert_array_equal(shown(), env.unwrapped.render())
    assert (shown() != first).any()
    env.close()


def test_human_mode_without_make_says_what_to_do():
    with pytest.raises(ValueError, match=r"gymnasium.make\(id, render_mode='human'\)"):
        SASEnv(Maze(), render_mode="human")


def test_video_is_recorded(tmp_path):
    limited = TimeLimit(SASEnv(Maze(), render_mode="rgb_array"), 4)
    env = RecordVideo(limited, str(tmp_path / "videos"), disable_logger=True)
    _, info = env.reset(seed=0)
    truncated = False
    while not truncated:
        _, _, _, truncated, info = step_at_random(env, info["action_mask"])
    env.close()
    (video,) = (tmp_path / "videos").glob("*.mp4")
    assert video.stat().st_size > 1000


def test_import_does_not_load_matplotlib():
    code = """
import importlib, pkgutil, sys
import sas_gym
for module in pkgutil.walk_packages(sas_gym.__path__, "sas_gym."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
assert "sas_gym.rendering._maze" in sys.modules
assert not {"matplotlib", "pygame"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_frame_does_not_use_pyplot():
    code = """
import sys, numpy as np
from sas_gym import Maze
from sas_gym.rendering import frame
frame(Maze(), np.array([0.25, 0.1]), np.ones(16, dtype=bool))
assert "matplotlib" in sys.modules and "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_missing_matplotlib_says_what_to_install(monkeypatch):
    for module in [name for name in sys.modules if name.startswith("matplotlib.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    env = SASEnv(Maze(), render_mode="rgb_array")
    env.reset(seed=0)
    install = r'pip install "sas-gym\[render\]"'
    with pytest.raises(DependencyNotInstalled, match=f"matplotlib.*{install}"):
        env.render()


def test_every_registered_task_has_a_drawing_and_a_background():
    for task in TASKS:
        assert draw.dispatch(task) is not draw.dispatch(object)
        assert draw_background.dispatch(task) is not draw_background.dispatch(object)
    assert len(TASKS) == len(SPECS)
