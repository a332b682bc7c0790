"""Arguments that would be accepted in silence, or fail far away, are named at once."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sas_gym
from sas_gym import BayArea, Maze, Recommender, Routing, SASEnv, SASVectorEnv
from sas_gym.action_sets import Explicit, Grouped

# Of types that mypy would not let through.
TWO: Any = 2.0
HALF: Any = 1.5
NAN: Any = np.nan
TWO_BOXES: Any = (0.1, 0.2, 0.1, 0.2) * 2
ROADS: Any = {"tail": [0, 1], "head": [1, 0], "num_nodes": 2, "goal": 1}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Maze(goal=TWO_BOXES), "goal must be one box"),
        (
            lambda: Maze(goal=(1.1, 1.2, 0.1, 0.2)),
            "goal must be one box .* unit square",
        ),
        (lambda: Maze(goal=TWO_BOXES[:3]), "goal must be boxes"),
        (lambda: Maze(goal_reward=np.nan), "goal_reward must be a finite number"),
        (lambda: Maze(step_reward=np.inf), "step_reward must be a finite number"),
        (lambda: Maze(start=(np.nan, 0.1)), "start must be finite"),
        (
            lambda: BayArea(wait_cost=-5),
            "wait_cost must be a finite number of at least 0",
        ),
        (lambda: BayArea(wait_cost=np.nan), "wait_cost must be a finite number"),
        (lambda: Recommender(max_profit=np.nan), "max_profit must be a finite number"),
        (
            lambda: Routing([0], [1], 0, 1, num_nodes=TWO, goal=1),
            "num_nodes must be an integer of at least 2",
        ),
        (lambda: Explicit([[1, 0], [0, 1]], [0.5, 0.50001]), "must sum to 1"),
        (
            lambda: Explicit.from_states([{(-1,): 1.0}], num_actions=2),
            r"actions must be 0 to 1, got \[-1\] in the set \(-1,\)",
        ),
        (lambda: Explicit.from_states([{(2,): 1.0}], num_actions=2), "0 to 1, got"),
        (
            lambda: Grouped([[0, 1], [2]], 0.7),
            r"such as \[0, 0, 1\] for actions 0 and 1 together; got",
        ),
        (lambda: SASVectorEnv(Maze(), 2, max_episode_steps=HALF), "must be an integer"),
        (lambda: SASVectorEnv(Maze(), 2, max_episode_steps=NAN), "an integer"),
        (lambda: SASVectorEnv(Maze(), TWO), "num_envs must be an integer"),
    ],
)
def test_wrong_argument_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("penalty", [np.nan, np.inf, -1.0, "much"])
@pytest.mark.parametrize(
    "make",
    [
        lambda **options: SASEnv(Maze(), **options),
        lambda **options: SASVectorEnv(Maze(), 2, **options),
        lambda **options: sas_gym.StochasticActionSets(
            gym.make("CartPole-v1"), **options
        ),
    ],
)
def test_penalty_is_a_finite_cost(make, penalty):
    with pytest.raises(ValueError, match="unavailable_penalty must be a finite number"):
        make(on_unavailable="repair", unavailable_penalty=penalty)


def test_availability_beside_action_sets_is_refused():
    with pytest.raises(
        ValueError, match=r"\['availability'\] and action_sets are both"
    ):
        gym.make("SAS/Maze-v0", availability=0.5, action_sets=0.7)


def test_string_names_a_task_or_is_not_called(tmp_path):
    """`os:system` would run a command."""
    path = tmp_path / "made_by_the_command"
    with pytest.raises(TypeError, match="'os:system' must name a subclass of sas_gym"):
        SASEnv("os:system", command=f"touch {path}")
    assert not path.exists()


def test_long_path_can_be_made():
    """A time quadratic in the path's length would be minutes here."""
    size = 32_000
    nodes = np.arange(size - 1)
    task = Routing(nodes, nodes + 1, -1.0, 0.5, num_nodes=size, goal=size - 1)
    assert SASVectorEnv(task, 2).reset(seed=0)[0]["action_mask"].all()


def test_infeasible_state_is_found_when_made():
    """State 1 has action 1 alone, which is never in a set."""
    roads: Any = {"tail": [0, 0, 1], "head": [1, 2, 2], "num_nodes": 3, "goal": 2}
    task = Routing(**roads, reward=-1.0, availability=0.5)
    never = Explicit([[0, 1]], [1.0])
    for make in (SASEnv, SASVectorEnv):
        with pytest.raises(ValueError, match=r"ever available in states \[1, 2\]"):
            make(task, action_sets=never)


@pytest.mark.parametrize(
    ("seed", "message"),
    [
        ([1, 2], "one per environment, 3; got 2"),
        ([1, None, 2], r"a list of integers, got \[1, None, 2\]"),
        (1.5, "must be an integer, or a list of integers, got 1.5"),
        ("seeds", "must be an integer, or a list of integers, got 'seeds'"),
    ],
)
def test_wrong_seed_is_named(seed, message):
    env: Any = gym.make_vec("SAS/Maze-v0", 3)
    with pytest.raises(ValueError, match=message):
        env.reset(seed=seed)


def test_reset_mask_resets_some():
    env: Any = gym.make_vec("SAS/Maze-v0", 3, max_episode_steps=6)
    env.reset(seed=0)
    for _ in range(3):
        before, *_ = env.step(env.action_masks().argmax(axis=1))
    only = np.array([False, True, False])
    obs, infos = env.reset(options={"reset_mask": only})
    assert obs in env.observation_space
    np.testing.assert_array_equal(
        obs["observation"][~only], before["observation"][~only]
    )
    np.testing.assert_array_equal(
        obs["action_mask"][~only], before["action_mask"][~only]
    )
    np.testing.assert_allclose(obs["observation"][only], [[0.25, 0.1]])
    np.testing.assert_array_equal(obs["action_mask"], infos["action_mask"])
    cut = [env.step(env.action_masks().argmax(axis=1))[3] for _ in range(6)]
    np.testing.assert_array_equal(np.argmax(cut, axis=0), [2, 5, 2])


@pytest.mark.parametrize(
    ("mask", "seed", "message"),
    [
        ([True, False, False], 3, "without 'reset_mask'"),
        ([True, False, False], [1, 2, 3], "without 'reset_mask'"),
        ([False] * 3, None, "not all false"),
        ([1, 0, 0], None, "3 booleans"),
        ([True], None, "3 booleans"),
    ],
)
def test_wrong_reset_mask_is_named(mask, seed, message):
    env: Any = gym.make_vec("SAS/Maze-v0", 3)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=message):
        env.reset(seed=seed, options={"reset_mask": np.array(mask)})


def test_unknown_autoreset_mode_is_refused():
    with pytest.raises(ValueError, match="'Never' is not a valid AutoresetMode"):
        gym.make_vec("SAS/Maze-v0", 2, autoreset_mode="Never")


@pytest.mark.parametrize(
    ("statement", "missing", "extra"),
    [
        ("from sas_agents import SASPG", "stable_baselines3", "agents"),
        ("from sas_agents import make_vec_env", "torch", "agents"),
        ("import sas_gym.planning", "scipy", "planning"),
    ],
)
def test_missing_extra_is_named(statement, missing, extra):
    code = f"import sys; sys.modules[{missing!r}] = None; {statement}"
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(sas_gym.__file__).parent.parent,
    )
    assert f'pip install "sas-gym[{extra}]"' in result.stderr.splitlines()[-1]
