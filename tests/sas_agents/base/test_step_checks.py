"""What an environment returns is checked at every step, and never becomes NaN."""

from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from helpers.agents import (
    EPISODE_STEPS,
    Masked,
    MaskInside,
    all_agents,
    assert_differ,
    episodic_agents,
    everything_learned,
    make_agent,
)

from sas_agents import SASQ, MaskedPPO, MaskedQRDQN, MaskedTRPO
from sas_gym.masks import MASK_KEY

pytestmark = pytest.mark.slow


def mask(*values: float) -> dict[str, Any]:
    return {MASK_KEY: np.array(values)}


@all_agents
@pytest.mark.parametrize("when", ["reset", "step 2"])
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (mask(0, 0, 0), "offers no action"),
        (mask(1, 2, 0), "must be 1 where an action is available"),
        (mask(1, -1, 0), "must be 1 where an action is available"),
    ],
)
def test_mask_in_observation_is_checked(agent, when, fault, message):
    model = make_agent(agent, MaskInside(**{when: fault}))
    where = r"observation\['action_mask'\] at " + when.replace("reset", r"reset\(\)")
    with pytest.raises(ValueError, match=f"{where} {message}"):
        model.learn(40)


@all_agents
def test_empty_final_mask_is_harmless(agent):
    """Board games end with nothing to do: the weights stay finite."""
    model = make_agent(agent, MaskInside(end=mask(0, 0, 0))).learn(60)
    assert model.num_timesteps >= 60
    assert all(th.isfinite(p).all() for p in model.policy.parameters())


@all_agents
@pytest.mark.parametrize("when", ["reset", "step 2", "end"])
@pytest.mark.parametrize(
    "values", [(0.5, 1, 0), (np.nan, 1, 1), (256, 1, 0), [(1,) * 3]]
)
def test_mask_in_observation_is_checked_before_it_is_cast(agent, when, values):
    """Stable-Baselines3 would make 0 of the first three, and broadcast the last."""
    model = make_agent(agent, MaskInside(**{when: {MASK_KEY: np.array(values)}}))
    where = {"reset": r"reset\(\)", "end": f"step {EPISODE_STEPS}"}.get(when, when)
    with pytest.raises(
        ValueError, match=rf"observation\['action_mask'\] at {where} must"
    ):
        model.learn(40)


@all_agents
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("callback", [None, lambda *_: True], ids=["alone", "callback"])
def test_reward_that_is_not_finite_stops_learning(agent, wrong, callback):
    model = make_agent(agent, MaskInside(reward=wrong))
    with pytest.raises(
        ValueError, match=r"reward is not finite at step 3: \[(nan|inf)"
    ):
        model.learn(40, callback=callback)


@all_agents
@pytest.mark.parametrize("when", ["reset", "step 2", "end"])
def test_observation_that_is_not_finite_stops_learning(agent, when):
    fault = {"observation": np.array([0, np.nan], np.float32)}
    model = make_agent(agent, MaskInside(**{when: fault}))
    with pytest.raises(ValueError, match=r"observation\['observation'\] is not finite"):
        model.learn(40)


NOT_FINITE = "(are|is) not finite|beyond single precision"


# What NumPy warns of on the way: it is the numbers that follow which are refused.
overflowing = pytest.mark.filterwarnings(
    "ignore:overflow encountered in:RuntimeWarning",
    "ignore:invalid value encountered in:RuntimeWarning",
)


@all_agents
@overflowing
def test_weights_never_become_nan_silently(agent):
    """The largest observation that is finite makes numbers that are not."""
    fault = {"observation": np.array([0, 3e38], np.float32)}
    model = make_agent(agent, MaskInside(**{"step 2": fault}))
    with pytest.raises(ValueError, match=NOT_FINITE):
        model.learn(300)


@episodic_agents
@pytest.mark.parametrize(
    "options",
    [{"whole_episodes": True}, {"n_steps": 4}, {"n_steps": 2}],
    ids=["episodes", "within a rollout", "at the end of a rollout"],
)
@overflowing
def test_overflow_of_the_critics_names_the_observations(agent, options):
    """The rewards, which are harmless, are not blamed."""
    fault = {"observation": np.array([-3e38, 3e38], np.float32)}
    env = TimeLimit(MaskInside(**{"step 2": fault}), 100)
    model = make_agent(agent, env, **options)
    with pytest.raises(ValueError, match=r"critics' values .* check the observations"):
        model.learn(300)


@episodic_agents
@overflowing
def test_overflow_of_the_returns_names_the_rewards(agent):
    model = make_agent(agent, MaskInside(reward=3e38), gamma=1.0)
    with pytest.raises(ValueError, match=r"the returns are .* check the rewards"):
        model.learn(300)


@pytest.mark.parametrize("agent", [MaskedPPO, MaskedTRPO, MaskedQRDQN])
def test_overflow_of_the_returns_is_named(agent):
    model = make_agent(agent, MaskInside(reward=3e38))
    with pytest.raises(ValueError, match=NOT_FINITE):
        model.learn(300)


def test_divergence_of_sas_q_is_named():
    """Its scale follows the targets as long as these are single-precision numbers."""
    model = make_agent(SASQ, learning_rate=1e10)
    with pytest.raises(ValueError, match="the targets have grown to"):
        model.learn(1000)


class Zeros(Masked):
    """Observations of zeros, for some time or for ever; then the number of a step."""

    def __init__(self, num_zeros: float) -> None:
        super().__init__(spaces.Box(-np.inf, np.inf, (2,)))
        self.num_zeros = num_zeros

    def observe(self) -> Any:
        self.num_zeros -= 1
        seen = [0.0, 0.0] if self.num_zeros >= 0 else [1.0, self.num_steps % 3]
        return np.array(seen, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        _, info = super().reset(seed=seed, options=options)
        return self.observe(), info

    def step(self, action: Any) -> Any:
        _, *rest = super().step(action)
        return self.observe(), *rest


@all_agents
@pytest.mark.parametrize("policy", ["LinearPolicy", "MlpPolicy"])
@pytest.mark.filterwarnings("ignore:the gradient of the policy is 0 at every step")
def test_observations_of_zeros_are_learned_from(agent, policy):
    """A bandit's dummy observation, and a warm-up of zeros."""
    make_agent(agent, Zeros(np.inf), policy=policy).learn(100)
    model = make_agent(agent, Zeros(100), policy=policy).learn(200)
    before = everything_learned(model)
    assert_differ(before, everything_learned(model.learn(200)))


@episodic_agents
def test_policy_without_a_gradient_warns(agent):
    with pytest.warns(UserWarning, match=r"is 0 at every .* observations \(all 0"):
        make_agent(agent, Zeros(np.inf)).learn(20)
