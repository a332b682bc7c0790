"""SASQ learns from the available actions, and diverges where the paper says so."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from helpers.statistical import assert_frequencies
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common.buffers import DictReplayBuffer
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

from sas_agents import SASQ, VectorEnvAdapter, make_vec_env
from sas_agents.models._mlp import Mlp
from sas_gym import SASEnv, SASVectorEnv, Task, ThetaTwoTheta
from sas_gym.action_sets import Independent
from sas_gym.masks import MASK_KEY

ONLINE: dict[str, Any] = {
    "batch_size": 1,
    "buffer_size": 1,
    "gradient_steps": 1,
    "learning_starts": 0,
    "tau": 1.0,
    "target_update_interval": 1,
    "train_freq": 1,
    "normalize": False,
    "double_q": False,
    "max_grad_norm": np.inf,
    "gamma": 1.0,
}


class Scaled(ThetaTwoTheta):
    """Rewards times a factor, and not all 0."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def transition(self, state, action, rng):
        state, reward, ended = super().transition(state, action, rng)
        return state, self.factor * (reward + state + 1.0), ended


class Bandit(Task):
    """One step: 100 with probability 0.3, or 10."""

    num_states, num_actions = 2, 2
    observation_space = spaces.Discrete(2)
    action_sets = Independent(0.8)

    def reset(self, num_envs, rng):
        return np.zeros(num_envs, np.int64)

    def transition(self, state, action, rng):
        lucky = 100.0 * (rng.random(len(state)) < 0.3)
        return state + 1, np.where(action == 0, lucky, 10.0), np.ones(len(state), bool)


def one_transition(next_mask, step_size, **options):
    """Return a SASQ with theta = (-2, -5) that replays 1 -right-> 2 forever."""
    model = SASQ(
        "LinearPolicy",
        SASEnv(ThetaTwoTheta()),
        learning_rate=step_size,
        policy_kwargs={"optimizer_class": th.optim.SGD},
        seed=0,
        **ONLINE | options,
    )
    model.set_logger(Logger(None, []))
    for network in (model.q_net, model.q_net_target):
        network.set_theta(np.array([-2.0, -5.0], np.float32))

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
    return float(model.q_net.theta[1])


@pytest.mark.parametrize("step_size", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("double_q", [False, True, "clipped"])
def test_theta_2_diverges_with_left_unavailable(step_size, double_q):
    model = one_transition([0, 1], step_size, double_q=double_q)
    for update in range(1, 30):
        model.train(1, 1)
        model._on_step()  # the target network follows at every step
        assert theta_2(model) == pytest.approx(-5.0 * (1 + step_size) ** update, 1e-4)


def test_theta_2_converges_with_all_available():
    model = one_transition([1, 1], 0.1)
    for _ in range(300):
        model.train(1, 1)
        model._on_step()
    assert theta_2(model) == pytest.approx(-4.0, abs=1e-3)
    assert model.q_net.theta[0] == -2.0


@pytest.mark.parametrize(
    ("double_q", "mask", "next_q"),
    [
        (False, [1, 1], 9.0),
        (True, [1, 1], 2.0),
        ("clipped", [1, 1], 1.0),
        (False, [1, 0], 2.0),
        (True, [0, 1], 9.0),
        ("clipped", [0, 1], 0.5),
    ],
)
def test_target_of_each_kind(double_q, mask, next_q):
    """Of the values (1, 0.5) and the targets' (2, 9) in the state that follows."""
    model = one_transition(mask, 0.1, double_q=double_q)
    model.q_net.set_theta(np.array([0.5, 0.25], np.float32))
    model.q_net_target.set_theta(np.array([1.0, 4.5], np.float32))
    assert model._target(model.replay_buffer.sample(3)).tolist() == [next_q] * 3


def test_target_is_a_query():
    """In the unit of the rewards, twice that of q; nothing is rescaled."""
    model = one_transition([1, 1], 0.1, normalize=True, double_q=False)
    model.target_scale = 2.0
    for _ in range(2):
        assert model._target(model.replay_buffer.sample(3)).tolist() == [-8.0] * 3
    assert model.target_scale == 2.0
    for network in (model.q_net, model.q_net_target):
        assert network.theta.tolist() == [-2.0, -5.0]


def test_logged_loss_is_mean_of_gradient_steps():
    """The errors are 5, and after the first step 4.5."""
    model = one_transition([0, 1], 0.1)
    model.train(2, 1)
    logged = model.logger.name_to_value
    assert logged["train/loss"] == pytest.approx(np.mean([12.5, 10.125]), rel=1e-5)
    assert logged["train/n_updates"] == 2


def test_target_scale_leaves_q_unchanged():
    """The scale follows the targets, and the last layer takes that up."""
    model = one_transition([0, 1], 0.0, normalize=True)
    model.target_scale = 2.0  # q is twice the network: the target of q is -20
    model.train(1, 1)
    assert model.target_scale == pytest.approx(np.sqrt(0.99 * 4 + 0.01 * 400))
    assert theta_2(model) * model.target_scale == pytest.approx(-5.0 * 2.0)
    logged = model.logger.name_to_value
    assert logged["train/target_scale"] == model.target_scale


@pytest.mark.filterwarnings("ignore:The number of environments used")  # by SB3
@pytest.mark.parametrize("num_envs", [1, 8, 64, 1024])
@pytest.mark.parametrize(("policy", "wanted"), [("LinearPolicy", 64), ("MlpPolicy", 8)])
def test_gradient_steps_per_step_whatever_the_environments(policy, wanted, num_envs):
    model: Any = SASQ(policy, make_vec_env("SAS/Maze-v0", num_envs))
    steps = model.train_freq.frequency * num_envs
    assert steps / model.gradient_steps == wanted


@pytest.mark.parametrize("num_envs", [1, 64])
def test_targets_follow_the_network_slowly(num_envs):
    """Noise of the network at one moment must not become the targets of all."""
    model: Any = SASQ("LinearPolicy", make_vec_env("SAS/Maze-v0", num_envs))
    model.set_logger(Logger(None, []))
    model.q_net.theta[:] = 1.0
    moved = []
    for _ in range(5):
        for _ in range(256 // num_envs):
            model._on_step()
        moved.append(model.q_net_target.theta.mean())
    # On the way at every update, and most of it after 1,280 steps.
    assert 0.1 < moved[0] < 0.4
    assert 0.6 < moved[-1] < 0.95
    assert moved == sorted(moved)


class Doubling(BaseFeaturesExtractor):
    """Features of a user's own, learned or with a layer that differs in training."""

    def __init__(self, observation_space, layer):
        super().__init__(observation_space, features_dim=2)
        self.layer = layer()

    def forward(self, observations):
        return 2 * self.layer(observations)


@pytest.mark.parametrize(
    ("layer", "is_closed"),
    [
        (th.nn.Identity, True),
        (partial(th.nn.Linear, 2, 2), False),
        (th.nn.Dropout, False),
        (partial(th.nn.BatchNorm1d, 2, affine=False), False),
    ],
)
def test_own_features_have_closed_form_if_fixed(layer, is_closed):
    options = {
        "features_extractor_class": Doubling,
        "features_extractor_kwargs": {"layer": layer},
    }
    env = make_vec_env("SAS/Maze-v0", 4)
    model: Any = SASQ("LinearPolicy", env, policy_kwargs=options, seed=0)
    model.learn(1200)
    assert isinstance(model.q_net, Mlp) == is_closed
    assert np.abs(model.q_net.theta).max() > 0
    model.policy.set_training_mode(True)
    assert model.q_net.training
    assert not model.q_net_target.training
    model.policy.set_training_mode(False)
    assert not model.q_net.training


def test_samples_are_those_of_stable_baselines3():
    """The same draws and values, after the buffer has gone round."""
    sampled = []
    for buffer in (None, DictReplayBuffer):
        env = make_vec_env("SAS/Maze-v0", 3, env_kwargs={"max_episode_steps": 20})
        model: Any = SASQ(
            "LinearPolicy", env, replay_buffer_class=buffer, buffer_size=300, seed=0
        )
        model.learn(1200)
        np.random.seed(1)  # noqa: NPY002  # SB3's buffer draws from it
        sampled.append(model.replay_buffer.sample(500))
    ours, theirs = sampled
    assert 0 < theirs.dones.mean() < 1 or not theirs.dones.any()
    for field in ("actions", "rewards", "dones"):
        th.testing.assert_close(getattr(ours, field), getattr(theirs, field))
    for field in ("observations", "next_observations"):
        found, expected = getattr(ours, field), getattr(theirs, field)
        assert found.keys() == expected.keys()
        for key in expected:
            th.testing.assert_close(found[key], expected[key], rtol=0, atol=0)


@pytest.mark.parametrize("scale", [2.0**-20, 2.0**20])
def test_power_of_two_in_rewards_changes_no_bit(scale):
    learned = []
    for factor in (1.0, scale):
        env = SASVectorEnv(Scaled(factor), 4)
        model: Any = SASQ(
            "LinearPolicy", VectorEnvAdapter(env), learning_starts=50, seed=0
        )
        model.learn(400)
        learned.append(model.q_net.theta)
    np.testing.assert_array_equal(*learned)


def test_squared_loss_finds_the_mean():
    """100 with probability 0.3 is better than a sure 10: by Huber's loss it is not."""
    env = VectorEnvAdapter(SASVectorEnv(Bandit(), 8))
    model: Any = SASQ("LinearPolicy", env, learning_rate=0.02, seed=0)
    model.learn(8_000)
    q = model.q_net.layers()[0].weight[0] * model.target_scale
    assert q.tolist() == pytest.approx([30.0, 10.0], rel=0.2)


@pytest.mark.parametrize(
    ("learning_starts", "left"), [(0, 0.3 / 2), (100, 1 / 2)], ids=["later", "warm-up"]
)
def test_exploration_rate_in_training_and_warm_up(learning_starts, left):
    """Right is greedy; left is chosen by half of the explorations."""
    model = one_transition([1, 1], 0.1)
    model.q_net.set_theta(np.array([-5.0, -2.0], np.float32))
    model.exploration_rate, model.num_timesteps = 0.3, 50
    model._last_obs = {
        "observation": np.ones((20_000, 1), np.float32),
        "action_mask": np.ones((20_000, 2), np.int8),
    }
    actions, stored = model._sample_action(learning_starts, n_envs=20_000)
    assert_frequencies(np.bincount(actions), [left, 1 - left])
    np.testing.assert_array_equal(actions, stored)


def exploring_agent(exploration_rate):
    model = SASQ("LinearPolicy", make_vec_env("SAS/Maze-v0", 1), seed=0)
    model.exploration_rate = exploration_rate
    return model


def maze_observations(masks):
    return {"observation": np.zeros((len(masks), 2), np.float32), MASK_KEY: masks}


def is_available(masks, actions):
    return np.take_along_axis(masks, np.asarray(actions)[:, None], axis=1).all()


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3, 1.0]))
def test_exploration_stays_inside_sets(seed, exploration_rate):
    model = exploring_agent(exploration_rate)
    rng = np.random.default_rng(seed)
    masks = (rng.random((50, 16)) < 0.1).astype(np.int8)
    masks[np.arange(50), rng.integers(16, size=50)] = 1
    assert is_available(masks, model.predict(maze_observations(masks))[0])
    model._last_obs = maze_observations(masks)
    for learning_starts in (0, 100):
        actions, stored = model._sample_action(learning_starts, n_envs=50)
        assert is_available(masks, actions)
        np.testing.assert_array_equal(actions, stored)


def test_exploration_and_warm_up_are_uniform_over_set():
    model = exploring_agent(exploration_rate=1.0)
    mask = np.zeros(16, np.int8)
    mask[[3, 7, 8]] = 1
    obs = maze_observations(np.tile(mask, (30_000, 1)))
    model._last_obs = obs
    for actions in (
        model.predict(obs)[0],
        model._sample_action(learning_starts=1, n_envs=30_000)[0],
    ):
        assert_frequencies(np.bincount(actions, minlength=16), mask / 3)


def test_each_environment_explores_independently():
    model = exploring_agent(exploration_rate=0.3)
    model.q_net.layers()[0].weight[:, 5] = 1.0
    masks = np.ones((30_000, 16), np.int8)
    actions, _ = model.predict(maze_observations(masks))
    probs = np.full(16, 0.3 / 16)
    probs[5] += 0.7
    assert_frequencies(np.bincount(actions, minlength=16), probs)
