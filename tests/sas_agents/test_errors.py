"""What an agent cannot use is rejected, with an error that names it."""

from typing import Any

import gymnasium as gym
import pytest
from gymnasium import spaces
from helpers.agents import Masked, every_agent, make_agent
from stable_baselines3.common.vec_env import DummyVecEnv

from sas_agents import SASNPG, SASPG, SASQ, make_vec_env
from sas_gym.masks import MASK_KEY


@every_agent
@pytest.mark.parametrize(
    "action_space", [spaces.Box(-1, 1, (2,)), spaces.MultiDiscrete([2, 2])]
)
@pytest.mark.parametrize("masked", [True, False])
def test_other_action_spaces_meet_sb3s_assertion(agent, action_space, masked):
    space: spaces.Space[Any] = spaces.Discrete(2)
    if masked:
        space = spaces.Dict({"observation": space, MASK_KEY: spaces.MultiBinary(2)})
    for env in (
        Masked(space, action_space),
        DummyVecEnv([lambda: Masked(space, action_space)]),
    ):
        with pytest.raises(AssertionError, match="The algorithm only supports"):
            make_agent(agent, env)


@every_agent
def test_unknown_policy_is_named(agent):
    with pytest.raises(ValueError, match="Policy WingedPolicy unknown"):
        make_agent(agent, policy="WingedPolicy")


@every_agent
@pytest.mark.parametrize(
    "make_env", [lambda: gym.make("CartPole-v1"), lambda: make_vec_env("CartPole-v1")]
)
def test_environment_without_masks(agent, make_env):
    with pytest.raises(ValueError, match=r"no action mask: .*info\['action_mask"):
        make_agent(agent, make_env()).learn(20)


@pytest.mark.parametrize(
    ("agent", "options", "message"),
    [
        (SASPG, {"n_steps": 0}, "n_steps must be at least 1, got 0"),
        (SASNPG, {"w_steps": 0}, "w_steps must be at least 1, got 0"),
        (
            SASQ,
            {"loss": "cubic"},
            r"loss must be one of \['huber', 'squared'\], got 'cubic'",
        ),
    ],
)
def test_wrong_value_is_named(agent, options, message):
    with pytest.raises(ValueError, match=message):
        make_agent(agent, **options)


def test_n_step_returns_meet_sb3s_assertion():
    with pytest.raises(AssertionError, match="N-step returns are not supported"):
        make_agent(SASQ, n_steps=2)
