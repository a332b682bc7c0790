"""What an agent cannot use is rejected, with an error that names it."""

import re
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from helpers.agents import Masked, all_agents, episodic_agents, every_agent, make_agent
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv

from sas_agents import SASNPG, SASPG, SASQ, make_vec_env
from sas_agents.policy_gradient import _on_policy
from sas_gym import ThetaTwoTheta
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


@all_agents
def test_unknown_policy_is_named(agent):
    names = re.escape(str(sorted(agent.policy_aliases)))
    with pytest.raises(
        ValueError, match=f"Winged.* unknown: {agent.__name__} has {names}"
    ):
        make_agent(agent, policy="WingedPolicy")


@all_agents
def test_learning_from_no_steps_warns(agent):
    with pytest.warns(UserWarning, match=r"learn\(0\) learns nothing") as given:
        make_agent(agent).learn(0)
    assert [warning.filename for warning in given] == [__file__]


@every_agent
@pytest.mark.parametrize(
    "make_env", [lambda: gym.make("CartPole-v1"), lambda: make_vec_env("CartPole-v1")]
)
def test_environment_without_masks(agent, make_env):
    with pytest.raises(ValueError, match=r"no action mask: .*info\['action_mask"):
        make_agent(agent, make_env()).learn(40)


@pytest.mark.parametrize(
    ("agent", "options", "message"),
    [
        (SASPG, {"n_steps": 0}, "n_steps must be an integer of at least 1, got 0"),
        (SASPG, {"n_steps": 1.5}, "n_steps must be an integer of at least 1, got 1.5"),
        (SASPG, {"n_epochs": 0}, "n_epochs must be an integer of at least 1, got 0"),
        (SASPG, {"batch_size": -1}, "batch_size must be an integer of at least 1"),
        (
            SASPG,
            {"learning_rate": -1.0},
            "learning_rate must be a finite number of at least 0, got -1",
        ),
        (
            SASPG,
            {"gamma": float("nan")},
            "gamma must be a finite number in \\[0, 1\\], got",
        ),
        (
            SASPG,
            {"gae_lambda": 1.1},
            "gae_lambda must be a finite number in \\[0, 1\\]",
        ),
        (
            SASPG,
            {"weight_decay": 2},
            "weight_decay must be a finite number in \\[0, 1\\]",
        ),
        (SASPG, {"ridge": -1}, "ridge must be a finite number of at least 0, got -1"),
        (SASPG, {"clip_range": 0.0}, "clip_range must be greater than 0, got 0"),
        (
            SASPG,
            {"target_kl": -1.0},
            "target_kl must be a finite number of at least 0, got -1",
        ),
        (SASNPG, {"w_steps": 0}, "w_steps must be an integer of at least 1, got 0"),
        (
            SASNPG,
            {"w_memory": 2},
            "w_memory must be a finite number in \\[0, 1\\], got 2",
        ),
        (
            SASNPG,
            {"damping": -1},
            "damping must be a finite number of at least 0, got -1",
        ),
        (
            SASNPG,
            {"critic_learning_rate": float("nan")},
            "must be a finite number of at least 0, got nan",
        ),
        (
            SASQ,
            {"learning_rate": float("nan")},
            "learning_rate must be a finite number of at least 0",
        ),
        (SASQ, {"double_q": "yes"}, 'double_q must be False, True or "clipped"'),
        (SASQ, {"batch_size": 0}, "batch_size must be an integer of at least 1, got 0"),
        (SASQ, {"gamma": 1.5}, "gamma must be a finite number in \\[0, 1\\], got 1.5"),
    ],
)
def test_wrong_value_is_named(agent, options, message):
    with pytest.raises(ValueError, match=message):
        make_agent(agent, **options)


def test_n_step_returns_meet_sb3s_assertion():
    with pytest.raises(AssertionError, match="N-step returns are not supported"):
        make_agent(SASQ, n_steps=2)


@episodic_agents
def test_rate_that_breaks_the_policy_is_named(agent):
    kwargs = {"optimizer_class": th.optim.SGD}
    with pytest.raises(ValueError, match="not finite"):
        make_agent(agent, critic_learning_rate=1e38, policy_kwargs=kwargs).learn(200)


@episodic_agents
def test_episode_that_never_ends_names_the_cure(agent, monkeypatch):
    monkeypatch.setattr(_on_policy, "MAX_EPISODE_STEPS", 50)
    env = make_vec_env(ThetaTwoTheta(), 2)
    with pytest.warns(UserWarning, match="no time limit was found"):
        model = make_agent(agent, env, whole_episodes=True)
    with pytest.raises(ValueError, match="has not ended after 50 steps: give the env"):
        model.learn(1_000)
    # Without whole episodes it is no problem.
    env = make_vec_env(ThetaTwoTheta(), 2)
    with pytest.warns(UserWarning, match="all advantages of a rollout are 0") as given:
        assert make_agent(agent, env).learn(200).num_timesteps == 200
    assert given[0].filename == __file__  # the line that called `learn`


@episodic_agents
def test_rollout_longer_than_the_budget_warns(agent):
    model = make_agent(agent, n_steps=100)
    with pytest.warns(UserWarning, match="a rollout has 200 steps, more than") as given:
        model.learn(50)
    assert [warning.filename for warning in given] == [__file__]


def test_learning_that_never_starts_warns():
    model = make_agent(SASQ, learning_starts=100)
    with pytest.warns(
        UserWarning, match="before step learning_starts=100, and"
    ) as given:
        model.learn(50)
    assert [warning.filename for warning in given] == [__file__]


class Tempting(Masked):
    """Episodes whose rewards turn round after some steps of the training."""

    num_rewarded = 0

    def __init__(self, turns_at: float) -> None:
        super().__init__(spaces.Box(0, 1, (2,)))
        self.turns_at = turns_at

    def step(self, action: Any) -> Any:
        obs, reward, *rest = super().step(action)
        self.num_rewarded += 1
        sign = 1 if self.num_rewarded < self.turns_at else -1
        return obs, sign * reward, *rest


@all_agents
@pytest.mark.parametrize("turns_at", [600, np.inf])
def test_policy_that_became_worse_warns(agent, turns_at):
    """Of the first 30 episodes and the last; not where the last are as good."""
    model = make_agent(agent, Tempting(turns_at), stats_window_size=30)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        model.learn(1_200)
    found = [one for one in given if "the policy became worse" in str(one.message)]
    assert [one.filename for one in found] == [__file__] * (turns_at == 600)


@all_agents
def test_few_episodes_are_not_compared(agent):
    """Fewer than 30 after the first ones, or as many at all."""
    make_agent(agent, Tempting(300), stats_window_size=30).learn(500)
    make_agent(agent, Tempting(300), stats_window_size=20).learn(600)


def test_huge_update_warns():
    model = make_agent(SASPG, learning_rate=100.0, target_kl=None, n_steps=20)
    with pytest.warns(UserWarning, match="an update changed the policy by a KL"):
        model.learn(40)


@pytest.mark.parametrize("layer", [th.nn.BatchNorm1d(2), th.nn.Dropout()])
@episodic_agents
def test_layers_that_mix_samples_are_rejected(agent, layer):
    class Features(BaseFeaturesExtractor):
        def __init__(self, observation_space):
            super().__init__(observation_space, 2)
            self.layer = layer

    kwargs = {"features_extractor_class": Features}
    with pytest.raises(ValueError, match=r"(BatchNorm1d|Dropout) makes the score"):
        make_agent(agent, policy="MlpPolicy", policy_kwargs=kwargs)
