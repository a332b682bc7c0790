"""SASQ learns from the available actions, and diverges where the paper says so."""

import numpy as np
import pytest
import torch as th
from helpers.statistical import assert_frequencies
from stable_baselines3.common.logger import Logger

from sas_agents import SASQ
from sas_agents._features import Identity
from sas_gym import SASEnv, ThetaTwoTheta

ONLINE = {
    "batch_size": 1,
    "buffer_size": 1,
    "gradient_steps": 1,
    "learning_starts": 0,
    "target_update_interval": 1,
    "train_freq": 1,
    "loss": "squared",
    "max_grad_norm": np.inf,
    "gamma": 1.0,
}


def one_transition(next_mask, step_size, **options):
    """Return a SASQ with theta = (-2, -5) that replays 1 -right-> 2 for ever."""
    model = SASQ(
        "LinearPolicy",
        SASEnv(ThetaTwoTheta()),
        learning_rate=step_size,
        policy_kwargs={
            "features_extractor_class": Identity,
            "optimizer_class": th.optim.SGD,
        },
        seed=0,
        **ONLINE | options,
    )
    model.set_logger(Logger(None, []))
    theta = th.tensor([[-2.0], [-5.0]])
    for network in (model.q_net, model.q_net_target):
        network.q_net[0].weight.data.copy_(theta)

    def observation(feature, mask):
        return {
            "observation": np.array([[feature]], np.float32),
            "action_mask": np.array([mask], np.int8),
        }

    model.replay_buffer.add(
        observation(1.0, [1, 1]),
        observation(2.0, next_mask),
        np.array([1]),
        np.array([0.0]),
        np.array([False]),
        [{}],
    )
    return model


def theta_2(model):
    return model.q_net.q_net[0].weight[1, 0].item()


@pytest.mark.parametrize("step_size", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("double_q", [False, True])
def test_with_left_unavailable_every_update_multiplies_theta_2(step_size, double_q):
    model = one_transition([0, 1], step_size, double_q=double_q)
    for update in range(1, 30):
        model.train(1, 1)
        model._on_step()  # the target network follows at every step
        assert theta_2(model) == pytest.approx(-5.0 * (1 + step_size) ** update, 1e-4)


def test_with_the_maximum_over_all_actions_theta_2_goes_to_minus_four():
    model = one_transition([1, 1], 0.1)
    for _ in range(300):
        model.train(1, 1)
        model._on_step()
    assert theta_2(model) == pytest.approx(-4.0, abs=1e-3)
    assert model.q_net.q_net[0].weight[0, 0].item() == -2.0


@pytest.mark.parametrize(("loss", "slope"), [("squared", -5.0), ("huber", -1.0)])
def test_the_loss_can_be_chosen(loss, slope):
    """Squared: the whole error moves theta_2. Huber: at most 1."""
    model = one_transition([0, 1], 0.1, loss=loss)
    model.train(1, 1)
    assert theta_2(model) == pytest.approx(-5.0 + 0.1 * slope)


@pytest.mark.parametrize(
    ("learning_starts", "left"), [(0, 0.3 / 2), (100, 1 / 2)], ids=["later", "warm-up"]
)
def test_training_explores_by_its_rate_and_the_warm_up_at_random(learning_starts, left):
    """Right is greedy; left is chosen by half of the explorations."""
    model = one_transition([1, 1], 0.1)
    model.q_net.q_net[0].weight.data.copy_(th.tensor([[-5.0], [-2.0]]))
    model.exploration_rate, model.num_timesteps = 0.3, 50
    model._last_obs = {
        "observation": np.ones((20_000, 1), np.float32),
        "action_mask": np.ones((20_000, 2), np.int8),
    }
    actions, stored = model._sample_action(learning_starts, n_envs=20_000)
    assert_frequencies(np.bincount(actions), [left, 1 - left])
    np.testing.assert_array_equal(actions, stored)


def test_an_unknown_loss_is_named():
    with pytest.raises(ValueError, match=r"one of \['huber', 'squared'\], got 'log'"):
        SASQ("LinearPolicy", SASEnv(ThetaTwoTheta()), loss="log")
