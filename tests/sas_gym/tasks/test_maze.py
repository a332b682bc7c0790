"""The maze moves as its specification says."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sas_gym import Maze, SASVectorEnv
from sas_gym.masks import sample_actions


def scalar_step(position, action, is_random, pushes):
    """Take one action by the letter of the specification, for one robot."""
    x, y = position
    for noisy, (push_x, push_y) in zip(is_random, pushes, strict=True):
        if noisy:
            dx, dy = push_x / 1.415, push_y / 1.415
        else:
            dx, dy = np.cos(2 * np.pi * action / 16), np.sin(2 * np.pi * action / 16)
        next_x, next_y = x + dx * 0.045, y + dy * 0.045
        outside = not (0 <= next_x <= 1 and 0 <= next_y <= 1)
        in_wall = (0 <= next_x <= 0.5 and 0.25 <= next_y <= 0.3) or (
            0.5 <= next_x <= 0.55 and 0.25 <= next_y <= 0.8
        )
        if outside or in_wall:
            break
        x, y = next_x, next_y
        if 0.22 <= x <= 0.28 and 0.47 <= y <= 0.53:
            return (x, y), 99.95, True
    return (x, y), -0.05, False


def test_batch_moves_as_scalar_specification():
    maze, num_robots = Maze(), 3000
    rng = np.random.default_rng(0)
    position = rng.random((num_robots, 2))
    action = rng.integers(16, size=num_robots)
    replay = np.random.default_rng(1)
    is_random = replay.random((5, num_robots)) < 0.2
    pushes = replay.random((5, num_robots, 2))
    moved, reward, arrived = maze.transition(position, action, np.random.default_rng(1))
    assert arrived.sum() > 10
    for i in range(num_robots):
        expected = scalar_step(position[i], action[i], is_random[:, i], pushes[:, i])
        np.testing.assert_allclose(moved[i], expected[0], rtol=0, atol=1e-12)
        assert (reward[i], arrived[i]) == (pytest.approx(expected[1]), expected[2])


def one_by_one(maze, position, action, rng):
    """Take the micro-steps one after the other."""
    shape = (maze.num_micro_steps, len(position))
    is_random = rng.random(shape) < maze.noise
    pushes = rng.random((*shape, 2)) / 1.415
    pushes = np.where(is_random[..., None], pushes, maze.directions[action])
    moving = np.ones(len(position), bool)
    for push in pushes * maze.step_length:
        target = position + push
        moving = moving & maze.is_free(target)
        position = np.where(moving[:, None], target, position)
        arrived = np.array([inside(point, maze.goal) for point in position])
        moving &= ~arrived
    return position, arrived


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"walls": (), "noise": 0.0},
        {"noise": 1.0, "num_actuators": 3},
        {"num_micro_steps": 1},
        {"num_micro_steps": 12, "step_length": 0.02},
        # A goal that borders on the square and reaches into a wall.
        {"walls": ((0.6, 0.8, 0.6, 0.8),), "goal": (0.7, 1.0, 0.7, 1.0)},
    ],
)
def test_transition_equals_micro_steps_one_by_one(options):
    """To the last bit, with the same draws, wherever an action starts."""
    maze, rng = Maze(**options), np.random.default_rng(0)
    position = rng.random((2000, 2))
    action = rng.integers(maze.num_actions, size=2000)
    ours, theirs = np.random.default_rng(1), np.random.default_rng(1)
    moved, reward, arrived = maze.transition(position, action, ours)
    expected = one_by_one(maze, position, action, theirs)
    np.testing.assert_array_equal(moved, expected[0])
    np.testing.assert_array_equal(arrived, expected[1])
    np.testing.assert_array_equal(reward, np.where(arrived, 99.95, -0.05))
    assert arrived.any()
    assert ours.random() == theirs.random()


positions = hnp.arrays(float, (8, 2), elements=st.floats(0, 1))


@given(position=positions, seed=st.integers(0, 999), step=st.sampled_from([0.01, 0.05]))
def test_positions_stay_in_square_and_out_of_walls(position, seed, step):
    maze = Maze(step_length=step, num_actuators=5, noise=0.5)
    in_wall = [any(inside(p, wall) for wall in maze.walls) for p in position]
    position = np.where(np.array(in_wall)[:, None], maze.start, position)
    rng = np.random.default_rng(seed)
    for _ in range(5):
        position, _, _ = maze.transition(position, rng.integers(5, size=8), rng)
    assert ((position >= 0) & (position <= 1)).all()
    assert not any(inside(p, wall) for p in position for wall in maze.walls)


def inside(point, box):
    return box[0] <= point[0] <= box[1] and box[2] <= point[1] <= box[3]


def test_noise_free_action_is_straight_line():
    maze = Maze(walls=(), noise=0.0, num_actuators=4, start=(0.5, 0.5))
    start = np.tile([0.5, 0.1], (4, 1))
    moved, _, _ = maze.transition(start, np.arange(4), np.random.default_rng(0))
    np.testing.assert_allclose(moved[0], [0.725, 0.1])
    np.testing.assert_allclose(moved[1], [0.5, 0.325])
    np.testing.assert_allclose(moved[2], [0.275, 0.1])
    # Two micro-steps down; the third would leave the square and ends the action.
    np.testing.assert_allclose(moved[3], [0.5, 0.01])


def test_steering_reaches_goal():
    """Steer round the walls: the maze can be solved from its start."""
    maze = Maze(availability=0.8)
    env = SASVectorEnv(maze, 200, max_episode_steps=80)
    obs, infos = env.reset(seed=0)
    arrived = np.zeros(200, bool)
    for _ in range(80):
        x, y = obs["observation"].T
        below = (x < 0.6) & (y < 0.35) | (x > 0.58) & (y < 0.85)
        right = below & (x < 0.65) & (y < 0.25)
        across = ~below & (y > 0.8) & (x > 0.35)
        target = np.select(
            [right[:, None], below[:, None], across[:, None]],
            [[0.8, 0.1], [0.7, 0.95], [0.25, 0.9]],
            [0.25, 0.5],
        )
        toward = (target - obs["observation"]) @ maze.directions.T
        action = np.where(infos["action_mask"] == 1, toward, -np.inf).argmax(axis=1)
        obs, _, terminated, _, infos = env.step(action)
        arrived |= terminated
    assert arrived.mean() > 0.9


def test_random_play_stays_in_observation_space():
    env = SASVectorEnv(Maze(), 50, max_episode_steps=80)
    rng = np.random.default_rng(0)
    _, infos = env.reset(seed=0)
    for _ in range(200):
        obs, *_, infos = env.step(sample_actions(infos["action_mask"], rng))
        assert obs in env.observation_space


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_actuators": 0}, "num_actuators must be an integer of at least 1, got 0"),
        ({"num_micro_steps": 0}, "num_micro_steps must be an integer of at least 1"),
        ({"step_length": 0.0}, r"step_length must be in \(0, 1\), got 0.0"),
        ({"noise": 1.1}, r"noise must be a finite number in \[0, 1\], got 1.1"),
        ({"walls": [(0.5, 0.4, 0.0, 1.0)]}, "walls must be boxes"),
        ({"goal": (0.5, 0.4, 0.0, 1.0)}, "goal must be boxes"),
        ({"goal": (0.2, 0.2, 0.5, 0.6)}, r"goal \(0.2, 0.2, 0.5, 0.6\) can never be"),
        ({"goal": (0.2, 0.3, 0.5, 0.5)}, "can never be entered: it needs an area"),
        ({"goal": (0.0, 0.5, 0.25, 0.3)}, "a part of it outside the walls"),
        ({"goal": (0.1, 0.2, 0.26, 0.29)}, "a part of it outside the walls"),
        # No wall covers it alone.
        ({"goal": (0.4, 0.54, 0.26, 0.29)}, "a part of it outside the walls"),
        ({"step_length": 0.06}, "thinner than a micro-step"),
        ({"start": (0.1, 0.27)}, "start must be a point .* in no wall"),
        ({"start": (0.1, 1.2)}, "start must be a point"),
        ({"start": (0.25, 0.5)}, "lies in the goal"),
        ({"availability": [0.5] * 3}, None),
    ],
)
def test_invalid_argument_error(options, message):
    message = message or "availability must have 16 columns"
    with pytest.raises(ValueError, match=message):
        SASVectorEnv(Maze, 1, **options)


@pytest.mark.parametrize(
    "goal",
    [
        (0.1, 0.6, 0.26, 0.29),  # It ends right of both walls.
        (0.1, 0.2, 0.2, 0.31),  # It begins below a wall and ends above it.
        (0.2, 0.3, 0.3, 0.31),  # It borders on a wall.
    ],
)
def test_goal_that_reaches_out_of_a_wall_is_accepted(goal):
    assert Maze(goal=goal, start=(0.9, 0.9)).goal.tolist() == list(goal)
