"""Masks take one byte per action wherever steps are kept."""

from typing import Any

import pytest
from gymnasium import spaces
from helpers.agents import (
    Masked,
    episodic_agents,
    make_agent,
    make_maze,
    replay_agents,
    rollout_agents,
)
from stable_baselines3.common.vec_env import DummyVecEnv

from sas_gym.masks import MASK_KEY


def masks_in_info() -> Any:
    """Make environments whose masks, in the info, are 64-bit integers."""
    return DummyVecEnv([lambda: Masked(spaces.Box(0, 1, (2,)))] * 2)


every_env = pytest.mark.parametrize("make_env", [make_maze, masks_in_info])


@every_env
@replay_agents
def test_replay_buffer_keeps_bytes(agent, make_env):
    buffer = make_agent(agent, make_env()).replay_buffer
    assert buffer.observations[MASK_KEY].itemsize == 1
    assert buffer.next_observations[MASK_KEY].itemsize == 1


@every_env
@episodic_agents
def test_episode_buffer_keeps_bytes(agent, make_env):
    model = make_agent(agent, make_env()).learn(16)
    steps = model.rollout_buffer._observations
    assert steps
    assert all(step[MASK_KEY].itemsize == 1 for step in steps)


@every_env
@rollout_agents
def test_rollout_buffer_keeps_bytes(agent, make_env):
    buffer = make_agent(agent, make_env()).rollout_buffer
    assert buffer.observations[MASK_KEY].itemsize == 1
