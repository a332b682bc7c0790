"""Rows of features per action, from a function of the environment."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import sas_gym
from sas_agents import SASPG
from sas_gym import ActionFeatures, StochasticActionSets


def direction(env):
    return np.array([[-1.0, env.state[0]], [1.0, env.state[0]]])


def test_rows_follow_the_state():
    env = ActionFeatures(gym.make("CartPole-v1"), direction, 2)
    obs, _ = env.reset(seed=0)
    for _ in range(5):
        assert env.observation_space.contains(obs)
        np.testing.assert_array_equal(obs["action_features"][:, 0], [-1, 1])
        np.testing.assert_allclose(obs["action_features"][:, 1], obs["observation"][0])
        obs, *_ = env.step(env.action_space.sample())


# Gymnasium's remark on CartPole's own bounds.
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_rows_stand_beside_the_keys_of_a_dict_and_the_mask():
    env = ActionFeatures(
        StochasticActionSets(gym.make("CartPole-v1"), 0.7), direction, 2
    )
    space = env.observation_space
    assert isinstance(space, spaces.Dict)
    assert set(space) == {"observation", "action_mask", "action_features"}
    sas_gym.check_env(env)
    SASPG("MultiInputPolicy", env, n_steps=64, seed=0).learn(128)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((3, 2)), r"shape \(2, 2\); got \(3, 2\)"),
        (np.array([[0, 0], [np.nan, 0]]), "for action 1"),
    ],
)
def test_wrong_rows_are_named(rows, message):
    env = ActionFeatures(gym.make("CartPole-v1"), lambda _: rows, 2)
    with pytest.raises(ValueError, match=message):
        env.reset(seed=0)


def test_a_key_that_exists_is_not_replaced():
    env = ActionFeatures(gym.make("CartPole-v1"), direction, 2)
    with pytest.raises(ValueError, match="already"):
        ActionFeatures(env, direction, 2)
