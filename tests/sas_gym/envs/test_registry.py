"""Ids, their pages and their arguments."""

import importlib
import inspect
import re
import subprocess
import sys
import warnings
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import data_equivalence
from helpers.playing import available_by, play, play_vector

import sas_gym
from sas_gym import SPECS, ThetaTwoTheta

IDS = [spec.id for spec in SPECS]
SECTIONS = [
    "Description",
    "Action Space",
    "Action Sets",
    "Observation Space",
    "Rewards",
    "Starting State",
    "Episode End",
    "Information",
    "Arguments",
    "Optimal Value",
    "References",
    "Version History",
]
every_id = pytest.mark.parametrize("env_id", IDS)


@every_id
def test_page_has_every_section(env_id):
    assert list(sections(env_id)) == SECTIONS


def task_class(env_id):
    (name,) = (spec.task for spec in SPECS if spec.id == env_id)
    module, class_name = name.split(":")
    return getattr(importlib.import_module(module), class_name)


def sections(env_id):
    """Return the sections of an environment's page, by heading."""
    page = inspect.getdoc(task_class(env_id)) or ""
    _, *parts = page.split("\n## ")
    return dict(part.split("\n", maxsplit=1) for part in parts)


@every_id
def test_page_lists_every_argument(env_id):
    listed = re.findall(r"`(\w+)`", sections(env_id)["Arguments"])
    assert set(inspect.signature(task_class(env_id)).parameters) <= set(listed)


@every_id
def test_page_lists_every_info_key(env_id):
    listed = re.findall(r"`(_?[a-z_]+)`", sections(env_id)["Information"])
    single = {key for step in play(gym.make(env_id), 50) for key in step[-1]}
    vector_env = gym.make_vec(env_id, num_envs=3)
    vector = {key for step in play_vector(vector_env, 300) for key in step[-1]}
    assert single == {"action_mask"}
    assert vector == set(listed)


@every_id
@pytest.mark.parametrize("make", [gym.make, gym.make_vec])
def test_signatures_have_every_argument(env_id, make):
    """`help` of the environment and of the task show all that `make` takes."""
    env = make(env_id).unwrapped
    parameters = inspect.signature(type(env)).parameters
    assert {
        "action_sets",
        "mask_in_observation",
        "on_unavailable",
        "unavailable_penalty",
        "render_mode",
    } < set(parameters)
    for name in parameters:
        assert f"{name}: " in (type(env).__doc__ or "")


@every_id
def test_spec_survives_json(env_id):
    options = available_by(env_id, 0.6)
    spec = gym.make(env_id, **options).spec
    assert spec is not None
    again = gym.make(gym.envs.registration.EnvSpec.from_json(spec.to_json()))
    assert data_equivalence(
        play(gym.make(env_id, **options), 20), play(again, 20), exact=True
    )


def test_register_own_task():
    sas_gym.register(
        "Test/Theta-v0",
        "sas_gym.tasks._theta_two_theta:ThetaTwoTheta",
        max_episode_steps=3,
        availability=1.0,
    )
    env = gym.make_vec("Test/Theta-v0", num_envs=2)
    returned = play_vector(env, 3)
    assert returned[-1][3].all()
    assert all(step[-1]["action_mask"].all() for step in returned)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_unavailable": "ignore"}, "must be 'raise' or 'repair', got 'ignore'"),
        ({"unavailable_penalty": 1.0}, "needs on_unavailable='repair'"),
        ({"action_sets": [0.5, 0.5]}, "availability must have 5 columns"),
        ({"availability": 1.5}, r"availability must be probabilities in \[0, 1\]"),
        ({"render_mode": "ansi"}, "render_mode must be one of"),
    ],
)
def test_invalid_argument_error(options, message):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Gymnasium itself warns of the render mode.
        with pytest.raises(ValueError, match=message):
            gym.make("SAS/SanFrancisco-v0", **options)


def test_invalid_vector_argument_error():
    for num_envs, max_episode_steps in ((0, 80), (1, 0)):
        with pytest.raises(ValueError, match="must be an integer of at least 1, got 0"):
            gym.make_vec("SAS/Maze-v0", num_envs, max_episode_steps=max_episode_steps)


def test_task_of_wrong_type_error():
    message = r"must make a sas_gym.Task, but made \{'availability'"
    no_task: Any = dict
    with pytest.raises(TypeError, match=message):
        sas_gym.SASEnv(no_task, availability=0.5)


def test_built_task_takes_no_arguments():
    with pytest.raises(TypeError, match=r"unexpected arguments \['availability'\]"):
        sas_gym.SASEnv(ThetaTwoTheta(), availability=0.5)


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_import_is_light():
    heavy = ["torch", "matplotlib", "pygame", "scipy", "networkx", "stable_baselines3"]
    code = f"import sas_gym, sys; print([m for m in {heavy} if m in sys.modules])"
    assert run_python(code).stdout.strip() == "[]"


def test_id_with_package_needs_no_import():
    code = "import gymnasium; print(gymnasium.make('sas_gym:SAS/Maze-v0').spec.id)"
    assert run_python(code).stdout.strip() == "SAS/Maze-v0"
