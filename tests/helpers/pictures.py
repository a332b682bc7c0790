"""What the tests of the pictures share."""

import gymnasium as gym
import numpy as np
import pytest

from sas_gym import (
    BayArea,
    Maze,
    Recommender,
    SanFrancisco,
    ShutTheBox,
    Task,
    ThetaTwoTheta,
)
from sas_gym.action_sets import Independent
from sas_gym.rendering import frame

TASKS = [SanFrancisco, BayArea, Maze, Recommender, ShutTheBox, ThetaTwoTheta]
every_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.__name__)

CAPTION_HEIGHT = 36
# Bounds of the grey levels between which both colours of the palette, for available and
# for unavailable, lie; text is darker, paper lighter.
GREY_LEVELS = (80, 200)
VISIBLE = 20
"""Number of pixels in which two pictures have to differ."""


class Corridor(Task):
    """A user's own task, which has no drawing of its own."""

    num_actions = 3
    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_sets = Independent(0.5)

    def reset(self, num_envs, rng):
        return rng.normal(size=(num_envs, 2))

    def transition(self, state, action, rng):
        reward = rng.normal(size=len(state))
        return state + action[:, None], reward, np.zeros(len(state), dtype=bool)


def start_state(task, seed=0):
    return task.reset(1, np.random.default_rng(seed))[0]


def possible_actions(task, state):
    possible = task.possible(np.asarray(state)[None])
    return np.ones(task.num_actions, dtype=bool) if possible is None else possible[0]


def start(task):
    """Return the arguments of a frame: a task, its start state, all its actions."""
    state = start_state(task)
    return task, state, possible_actions(task, state)


def below_caption(*arguments):
    """Return a frame without its caption, which says how many actions there are."""
    return frame(*arguments)[CAPTION_HEIGHT:]


def without_colour(*arguments):
    """Return a frame in three levels of grey, without its caption."""
    return np.digitize(below_caption(*arguments).mean(axis=-1), GREY_LEVELS)


def check_every_action_shows(task, state):
    """Assert that each action's availability is visible, also without colour."""
    full = possible_actions(task, state)
    picture = without_colour(task, state, full)
    without = full & ~np.eye(full.size, dtype=bool)[full]
    pictures = [without_colour(task, state, mask) for mask in without]
    for action, other in zip(np.flatnonzero(full), pictures, strict=True):
        assert (picture != other).sum() >= VISIBLE, f"action {action}"
    assert len({other.tobytes() for other in pictures}) == full.sum()
