"""Predictions: inside the sets, in Stable-Baselines3's shapes, never without a mask."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from helpers.agents import (
    EPISODE_STEPS,
    all_agents,
    every_agent,
    make_agent,
    make_maze,
    maze_observations,
)
from stable_baselines3.common.evaluation import evaluate_policy

from sas_gym.masks import MASK_KEY


@all_agents
def test_evaluate_policy_plays_whole_episodes(agent):
    """An unavailable action would raise an error in the environment."""
    model = make_agent(agent).learn(100)
    for deterministic in (True, False):
        returns, lengths = evaluate_policy(
            model,
            make_maze(seed=1),
            n_eval_episodes=4,
            deterministic=deterministic,
            return_episode_rewards=True,
        )
        assert np.shape(returns) == (4,)
        assert np.unique(lengths).tolist() == [EPISODE_STEPS]


@every_agent
def test_deterministic_prediction_repeats(agent):
    model = make_agent(agent).learn(100)
    obs = maze_observations()
    first, _ = model.predict(obs, deterministic=True)
    for _ in range(5):
        np.testing.assert_array_equal(first, model.predict(obs, deterministic=True)[0])


@every_agent
def test_prediction_shapes_are_sb3s(agent):
    model = make_agent(agent)
    batch = maze_observations(5)
    single = {key: values[0] for key, values in batch.items()}
    for deterministic in (True, False):
        actions, state = model.predict(batch, deterministic=deterministic)
        assert actions.shape == (5,)
        assert actions in spaces.MultiDiscrete([16] * 5)
        assert state is None
        action, _ = model.predict(single, deterministic=deterministic)
        assert action.shape == ()
        assert action in model.action_space
    one = {key: values[:1] for key, values in batch.items()}
    assert model.predict(one)[0].shape == (1,)


@all_agents
def test_masks_beside_observation(agent):
    model = make_agent(agent).learn(100)
    obs = maze_observations()
    bare, masks = obs["observation"], obs[MASK_KEY]
    expected, _ = model.predict(obs, deterministic=True)
    for given in (masks, masks.astype(bool), masks.tolist()):
        actions, _ = model.predict(bare, deterministic=True, action_masks=given)
        np.testing.assert_array_equal(actions, expected)
    action, _ = model.predict(bare[0], deterministic=True, action_masks=masks[0])
    assert action == expected[0]


@all_agents
def test_action_masks_replace_those_in_observation(agent):
    model = make_agent(agent)
    for only in range(16):
        mask = np.arange(16) == only
        single = {key: values[0] for key, values in maze_observations(1).items()}
        assert model.predict(single, action_masks=mask)[0] == only


@all_agents
def test_missing_mask_error_names_cure(agent):
    model = make_agent(agent)
    obs = maze_observations(3)
    for missing in (obs["observation"], {"observation": obs["observation"]}):
        with pytest.raises(ValueError, match=r"the action mask, .*action_masks="):
            model.predict(missing)


@all_agents
def test_mask_without_action_is_an_error(agent):
    model = make_agent(agent)
    obs = maze_observations(3)
    obs[MASK_KEY][1] = 0
    with pytest.raises(ValueError, match="offers no action"):
        model.predict(obs)
    with pytest.raises(ValueError, match="offers no action"):
        model.predict(obs["observation"], action_masks=np.zeros((3, 16)))


@every_agent
@pytest.mark.parametrize(
    ("masks", "message"),
    [
        (np.ones((3, 5)), r"action_masks must .*, 16\); got shape \(3, 5\)"),
        (np.full((3, 16), 0.4), "action_masks must be 1 where .* 0 elsewhere"),
    ],
)
def test_wrong_masks_are_errors(agent, masks, message):
    model = make_agent(agent)
    with pytest.raises(ValueError, match=message):
        model.predict(maze_observations(3)["observation"], action_masks=masks)


@every_agent
def test_masks_must_match_observations(agent):
    """One mask beside three observations, or three beside one, is a mistake."""
    model, obs = make_agent(agent), maze_observations(3)
    bare, masks = obs["observation"], obs[MASK_KEY]
    for state, given in ((bare, masks[:1]), (bare, masks[0]), (bare[0], masks)):
        with pytest.raises(ValueError, match="action_masks must have one entry per"):
            model.predict(state, action_masks=given)
        with pytest.raises(ValueError, match=r"observation\['action_mask'\] must have"):
            model.predict({"observation": state, MASK_KEY: given})


@every_agent
def test_result_of_gymnasiums_reset_is_named(agent):
    env: Any = gym.make("SAS/Maze-v0")
    with pytest.raises(ValueError, match=r"got a tuple.*`obs, info = env\.reset\(\)`"):
        make_agent(agent).predict(env.reset(seed=0))
