"""Specs survive JSON, whatever the distribution of the action sets."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import data_equivalence
from helpers.playing import play, play_vector

import sas_gym
from sas_gym import StochasticActionSets
from sas_gym import action_sets as namespace
from sas_gym.action_sets import (
    ActionSets,
    Explicit,
    Grouped,
    Independent,
    Markov,
    Outcomes,
    PerEpisode,
    Things,
)

# For environments of three actions.
DISTRIBUTIONS: list[Any] = [
    0.7,
    [0.2, 0.9, 0.5],
    np.array([0.2, 0.9, 0.5]),
    np.float32(0.7),
    Independent(0.7),
    Independent([0.2, 0.9, 0.5]),
    Explicit([[1, 1, 0], [0, 0, 1]], [0.3, 0.7]),
    Grouped([0, 1, 0], 0.6),
    Grouped([0, 1, 0], [0.6, 0.3]),
    Markov([0.3, 1.0, 0.5], [0.2, 0.0, 0.2]),
    Markov(0.3, [0.0, 0.2, 0.2]),
    Things([0, -1, 0], 0.3),
    Things([0, 1, 2], [0.3, 0.5, 1.0]),
    PerEpisode(Things([0, -1, 1], 0.5)),
    PerEpisode(0.4),
    PerEpisode(Grouped([0, 0, 1], [0.5, 0.1])),
]
every_distribution = pytest.mark.parametrize("sets", DISTRIBUTIONS)


def through_json(env: Any) -> EnvSpec:
    assert env.spec is not None
    return EnvSpec.from_json(env.spec.to_json())


def assert_same_play(env: Any, twin: Any) -> None:
    assert data_equivalence(play(env, 40), play(twin, 40), exact=True)
    ours, theirs = (made.get_wrapper_attr("action_sets") for made in (env, twin))
    assert type(ours) is type(theirs)


def test_every_class_is_here():
    """But for `Outcomes`: a function has no form in JSON."""
    classes = {getattr(namespace, name) for name in namespace.__all__}
    classes -= {ActionSets, Outcomes}
    assert {type(sets) for sets in DISTRIBUTIONS} >= classes


@every_distribution
def test_wrapped_environment_survives_json(sets):
    env = StochasticActionSets(gym.make("MountainCar-v0"), sets)
    assert_same_play(env, gym.make(through_json(env)))


@every_distribution
def test_made_environment_survives_json(sets):
    env = gym.make("SAS/Maze-v0", num_actuators=3, action_sets=sets)
    assert_same_play(env, gym.make(through_json(env)))


def test_tables_by_state_survive_json():
    task = sas_gym.SanFrancisco()
    rng = np.random.default_rng(0)
    table = rng.uniform(0.1, 1.0, (task.num_states or 0, task.num_actions))
    env = gym.make("SAS/SanFrancisco-v0", action_sets=Independent(table))
    assert_same_play(env, gym.make(through_json(env)))


def test_vector_environment_survives_json():
    sets = Grouped([0] * 8 + [1] * 8, 0.5)
    env: Any = gym.make_vec("SAS/Maze-v0", 2, action_sets=sets)
    twin: Any = gym.make_vec(through_json(env), 2)
    assert data_equivalence(play_vector(env, 40), play_vector(twin, 40), exact=True)
    assert isinstance(twin.action_sets, Grouped)


def test_registered_spec_keeps_its_objects():
    """The environment's own spec is the one that becomes plain."""
    sets = Grouped([0] * 16, 0.5)
    sas_gym.register("Test/Grouped-v0", "sas_gym:Maze", 9, action_sets=sets)
    env: Any = gym.make("Test/Grouped-v0")
    assert env.spec.kwargs["action_sets"]["distribution"] == "Grouped"
    env.unwrapped.spec = gym.spec("Test/Grouped-v0")
    assert env.unwrapped.spec.kwargs["action_sets"]["distribution"] == "Grouped"
    assert gym.spec("Test/Grouped-v0").kwargs["action_sets"] is sets


class Own(Independent):
    """A distribution of a user's."""


def test_distribution_of_a_user_is_named():
    env: Any = StochasticActionSets(gym.make("MountainCar-v0"), Own(0.7))
    with pytest.raises(TypeError, match="Object of type Own is not JSON serializable"):
        env.spec.to_json()


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"distribution": "Own", "availability": 0.7},
        {"distribution": ["Grouped"]},
        {"distribution": "Grouped", "availability": 0.7},
        {"distribution": "Markov", "turn_on": 0.7, "turn_off": 0.7, "wings": 2},
    ],
)
def test_dict_that_is_no_distribution_is_named(wrong):
    message = r"must have the key 'distribution', one of \['Explicit', 'Grouped'"
    with pytest.raises(ValueError, match=message):
        gym.make("SAS/Maze-v0", action_sets=wrong)
    with pytest.raises(ValueError, match=message):
        StochasticActionSets(gym.make("MountainCar-v0"), wrong)
