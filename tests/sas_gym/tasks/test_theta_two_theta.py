"""The counterexample behaves as the paper works out, replayed and played."""

import gymnasium as gym
import numpy as np
import pytest

from sas_gym import SASEnv, ThetaTwoTheta

ONLY_RIGHT = [0.0, 1.0]


def replay_one_transition(over_all_actions, step_size, num_updates):
    """Q-learning with q(s, a) = x(s) theta_a on 1 -right-> 2, right alone available."""
    env = SASEnv(ThetaTwoTheta(availability=ONLY_RIGHT))
    x = env.reset(seed=0)[0]["observation"][0]
    obs, reward, *_ = env.step(1)
    next_x, mask = obs["observation"][0], obs["action_mask"].astype(bool)
    theta = np.array([-2.0, -5.0])
    for _ in range(num_updates):
        next_q = next_x * theta if over_all_actions else (next_x * theta)[mask]
        theta[1] += step_size * x * (reward + next_q.max() - x * theta[1])
    return theta[1]


@pytest.mark.parametrize("step_size", [0.01, 0.1, 0.5])
def test_replay_over_available_actions_diverges(step_size):
    """Every update multiplies theta_2 by 1 + eta."""
    expected = -5.0 * (1 + step_size) ** 100
    assert replay_one_transition(False, step_size, 100) == pytest.approx(expected)


def test_replay_over_all_actions_converges_to_wrong_value():
    assert replay_one_transition(True, 0.1, 1000) == pytest.approx(-4.0)


def test_actions_lead_to_their_states():
    env = gym.make("SAS/ThetaTwoTheta-v0", availability=1.0)
    assert env.reset(seed=0)[0]["observation"] == 1.0
    for action, feature in [(1, 2.0), (1, 2.0), (0, 1.0), (0, 1.0)]:
        obs, reward, terminated, _, _ = env.step(action)
        assert (obs["observation"], reward, terminated) == (feature, 0.0, False)


@pytest.mark.parametrize("availability", [0.2, 0.8])
def test_play_over_available_actions_converges_to_zero(availability):
    """SAS-Q-learning from the same theta, on every transition of random play."""
    env = SASEnv(ThetaTwoTheta(availability))
    rng = np.random.default_rng(0)
    theta = np.array([-2.0, -5.0])
    obs, info = env.reset(seed=0)
    for _ in range(1000):
        x = obs["observation"][0]
        action = rng.choice(np.flatnonzero(info["action_mask"]))
        obs, reward, *_, info = env.step(action)
        next_q = (obs["observation"][0] * theta)[info["action_mask"] == 1].max()
        theta[action] += 0.1 * x * (reward + next_q - x * theta[action])
    np.testing.assert_allclose(theta, 0.0, atol=1e-3)
