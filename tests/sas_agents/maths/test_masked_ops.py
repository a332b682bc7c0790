"""Agents stay inside the action set, whatever the logits."""

import math
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch as th
from gymnasium import spaces
from helpers.statistical import ERROR_RATE, assert_frequencies
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.utils import obs_as_tensor

from sas_agents import SASNPG, SASPG, SASQ, make_vec_env
from sas_agents._fast import masked_softmax
from sas_agents.maths._estimators import mean_entropy
from sas_agents.maths._masked_ops import (
    best_actions,
    chosen_log_probs,
    gumbel_noise,
    mask_out,
    masked_log_probs,
    sample,
    sample_softmax,
)
from sas_agents.policy_gradient._batch import Scores
from sas_gym.masks import MASK_KEY, masked_space

NUM_ROWS = 4
HUGE = float(np.float32(1e30))
STATES: dict[str, spaces.Space[Any]] = {
    "LinearPolicy": spaces.Discrete(1),
    "MlpPolicy": spaces.Box(-1, 1, (3,)),
    "CnnPolicy": spaces.Box(0, 255, (1, 36, 36), np.uint8),
    "MultiInputPolicy": spaces.Dict(
        {"position": spaces.Box(-1, 1, (2,)), "floor": spaces.Discrete(3)}
    ),
}
SHORT: dict[Any, dict[str, Any]] = {
    SASPG: {"n_steps": 4},
    SASNPG: {"n_steps": 4},
    SASQ: {"learning_starts": 100, "buffer_size": 1000, "gradient_steps": 1},
}

every_policy = pytest.mark.parametrize("name", STATES)
every_agent = pytest.mark.parametrize("agent", SHORT)

logits_of_any_size = st.lists(
    st.floats(-HUGE, HUGE, width=32), min_size=1, max_size=5
) | st.sampled_from([[-HUGE, HUGE], [HUGE], [-HUGE], [0.0, -HUGE], [0.0, 1.0, HUGE]])


@st.composite
def cases(draw, most_actions=10_000):
    """Draw logits and NUM_ROWS masks, some with one available action."""
    num_actions = draw(st.integers(1, most_actions) | st.just(most_actions))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    logits = rng.choice(np.float32(draw(logits_of_any_size)), num_actions)
    share = draw(st.sampled_from([0.0, 0.01, 0.5, 1.0]))
    masks = rng.random((NUM_ROWS, num_actions)) < share
    masks[np.arange(NUM_ROWS), rng.integers(num_actions, size=NUM_ROWS)] = True
    return logits, masks.astype(np.int8)


def observations(name, masks, seed=0):
    """Return as many observations as there are masks, and the masks in them."""
    STATES[name].seed(seed)
    states = [STATES[name].sample() for _ in masks]
    if isinstance(states[0], dict):
        stacked = {key: np.stack([s[key] for s in states]) for key in states[0]}
    else:
        stacked = {"observation": np.stack(states)}
    return {**stacked, MASK_KEY: masks}


def policy_with(agent, name, logits):
    """Build a policy that gives every state these logits (or action values)."""
    policy = agent.policy_aliases[name](
        masked_space(STATES[name], len(logits)),
        spaces.Discrete(len(logits)),
        lambda _: 1e-3,
        # Of default size it would take most of this file's time.
        **({"features_extractor_kwargs": {"features_dim": 8}} if "Cnn" in name else {}),
    )
    model = policy.q_net if agent is SASQ else policy.actor
    # The last layer starts at 0, and its bias, or the only state's row, comes last.
    theta = model.theta.copy()
    theta[-len(logits) :] = logits
    model.set_theta(theta)
    return policy


def is_available(masks, actions):
    return np.take_along_axis(masks, np.asarray(actions)[:, None], axis=1).all()


def best_available(logits, masks):
    return np.where(masks, logits.astype(float), -np.inf).max(axis=1)


@every_policy
@given(case=cases())
@settings(max_examples=25)
def test_policy_never_chooses_unavailable_action(name, case):
    logits, masks = case
    policy, obs = policy_with(SASPG, name, logits), observations(name, masks)
    assert is_available(masks, policy.predict(obs)[0])
    greedy, _ = policy.predict(obs, deterministic=True)
    assert is_available(masks, greedy)
    # Logits that differ by less have the same probability in float32.
    assert (best_available(logits, masks) - logits[greedy] <= 1e-5).all()


@every_policy
@given(case=cases())
@settings(max_examples=25)
def test_q_policy_never_chooses_unavailable_action(name, case):
    logits, masks = case
    policy, obs = policy_with(SASQ, name, logits), observations(name, masks)
    greedy, _ = policy.predict(obs, deterministic=True)
    assert is_available(masks, greedy)
    np.testing.assert_array_equal(logits[greedy], best_available(logits, masks))


def log_probs_by_torch(logits, masks):
    found = masked_log_probs(th.as_tensor(logits), th.as_tensor(masks))
    return found.exp().numpy()


def probs_by_numpy(logits, masks):
    return masked_softmax(logits, masks)[0]


both_softmaxes = pytest.mark.parametrize(
    "softmax", [log_probs_by_torch, probs_by_numpy]
)


@both_softmaxes
def test_masked_softmax_is_the_papers(softmax):
    logits = np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 9.0]], np.float32)
    mask = np.array([[1, 0, 1], [1, 1, 0]])
    weights = np.exp(logits.astype(float)) * mask
    expected = weights / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(softmax(logits, mask), expected, rtol=1.3e-6)


@both_softmaxes
def test_softmax_shifts_by_best_available_logit(softmax):
    """Shifted by the best of all, both available ones would underflow to 0."""
    logits = np.array([[1e30, -1e30, -1e30]], np.float32)
    assert softmax(logits, np.array([[0, 1, 1]])).tolist() == [[0.0, 0.5, 0.5]]


@both_softmaxes
@given(case=cases())
def test_probabilities_sum_to_one_inside_set(softmax, case):
    logits, masks = case
    probs = softmax(np.tile(logits, (NUM_ROWS, 1)), masks)
    assert np.isfinite(probs).all()
    assert (probs[masks == 0] == 0).all()
    np.testing.assert_allclose(probs.sum(axis=1, dtype=float), 1.0, rtol=1e-5)


@pytest.mark.parametrize("dtype", [th.int8, th.bool, th.float32, th.int64])
def test_mask_out_leaves_available_values_as_they_are(dtype):
    """To the last bit, whatever the type of the mask."""
    values = th.tensor([[0.1, -3e38, 3e38, 1e-40], [-0.0, 7.0, 1 / 3, -1e30]])
    mask = th.tensor([[1, 1, 0, 1], [1, 0, 1, 0]])
    expected = values.masked_fill(mask == 0, -th.inf)
    assert th.equal(mask_out(values, mask.to(dtype)), expected)


@both_softmaxes
@given(case=cases())
def test_equal_logits_are_equally_likely(softmax, case):
    logits, masks = case
    probs = softmax(np.tile(logits, (NUM_ROWS, 1)), masks)
    best = best_available(logits, masks)
    for row, mask, highest in zip(probs, masks, best, strict=True):
        of_best = row[(mask == 1) & (logits == highest)]
        assert (of_best == row.max()).all()


@given(case=cases())
def test_entropy_bounds(case):
    logits, masks = case
    for mask in masks[:, None]:
        probs, log_totals = masked_softmax(logits[None], mask)
        found = mean_entropy(logits[None], probs, log_totals)
        # A difference of two numbers that are as large as the available logits are.
        rounding = 1e-5 * np.abs(logits[mask[0] == 1]).max()
        assert -1e-6 - rounding <= found <= np.log(mask.sum()) + 1e-3 + rounding


@every_policy
@given(case=cases(most_actions=300))
@settings(max_examples=15)
def test_no_nan_in_gradients(name, case):
    """However large the logits are."""
    logits, masks = case
    policy = policy_with(SASPG, name, logits)
    obs: Any = obs_as_tensor(observations(name, masks), policy.device)
    actor, inputs = policy.actor, policy.encoder(obs)
    log_probs = masked_log_probs(actor(inputs), obs[MASK_KEY])
    actions = policy._predict(obs)
    assert not log_probs.isnan().any()
    assert log_probs[obs[MASK_KEY] == 1].isfinite().all()
    chosen_log_probs(log_probs, actions).sum().backward()
    assert all(p.grad.isfinite().all() for p in actor.parameters())
    encoded = policy.encoder.encode(observations(name, masks))
    scores = Scores(actor, encoded, masks, actions.numpy())
    ones = np.ones(sum(p.numel() for p in actor.parameters()), np.float32)
    assert np.isfinite(scores.norms()[0]).all()
    assert np.isfinite(scores.dot(ones)).all()
    dots, variance = scores.moments(ones)
    assert np.isfinite([*dots, variance]).all()
    assert np.isfinite(scores.weighted_sum(np.ones(NUM_ROWS, np.float32))).all()


@every_policy
@given(case=cases(most_actions=50), seed=st.integers(0, 99))
@settings(max_examples=15)
def test_mask_is_not_among_features(name, case, seed):
    """Another set changes neither logits nor v nor q."""
    _, masks = case
    others = np.ones_like(masks)
    policies: list[Any] = [
        agent.policy_aliases[name](
            masked_space(STATES[name], masks.shape[1]),
            spaces.Discrete(masks.shape[1]),
            lambda _: 1e-3,
        )
        for agent in (SASPG, SASQ)
    ]
    policy, q_policy = policies
    for parameter in (*policy.parameters(), *q_policy.parameters()):
        th.nn.init.normal_(parameter)
    batches: list[Any] = [
        obs_as_tensor(observations(name, some, seed), policy.device)
        for some in (masks, others)
    ]
    obs, other = batches
    for network in (policy.actor, policy.value_net, policy.q_net):
        output = network(policy.encoder(obs))
        assert th.equal(output, network(policy.encoder(other)))
        assert output.abs().max() > 0
    q = q_policy.q_net(q_policy.encoder(obs))
    assert th.equal(q, q_policy.q_net(q_policy.encoder(other)))


def test_sample_follows_probabilities():
    logits = th.tensor([1e30, 2.0, 0.5, -1.0, -1e30, 2.0])
    mask = th.tensor([0, 1, 1, 1, 1, 0])
    probs = masked_log_probs(logits[None], mask[None]).exp()
    drawn = sample(probs.expand(100_000, -1), np.random.default_rng(0))
    weights = np.exp([2.0, 0.5, -1.0])
    expected = [0.0, *(weights / weights.sum()), 0.0, 0.0]
    assert_frequencies(np.bincount(drawn, minlength=6), expected)


def test_policy_draws_follow_probabilities():
    logits = np.array([0.3, 5.0, -0.7, 0.0], np.float32)
    policy = policy_with(SASPG, "LinearPolicy", logits)
    policy.rng = np.random.default_rng(0)
    masks = np.tile(np.array([1, 0, 1, 1], np.int8), (50_000, 1))
    actions, _ = policy.predict(observations("LinearPolicy", masks))
    weights = np.exp(logits.astype(float)) * masks[0]
    assert_frequencies(np.bincount(actions, minlength=4), weights / weights.sum())


@every_agent
def test_training_and_loading_stay_inside_sets(agent, tmp_path):
    """The environment raises an error for an unavailable action."""
    env: Any = make_vec_env("SAS/Maze-v0", 4, seed=0, env_kwargs={"availability": 0.1})
    model = agent("LinearPolicy", env, seed=0, **SHORT[agent]).learn(1000)
    model.save(tmp_path / "model")
    loaded = agent.load(tmp_path / "model", env=env)
    for deterministic in (True, False):
        obs = env.reset()
        for _ in range(100):
            actions, _ = loaded.predict(obs, deterministic=deterministic)
            assert is_available(obs[MASK_KEY], actions)
            obs, *_ = env.step(actions)
    loaded.learn(1000)
    assert loaded.num_timesteps >= 1000


@every_agent
def test_huge_logits_survive_saving_and_training(agent, tmp_path):
    env = make_vec_env("SAS/Maze-v0", 2, seed=0, env_kwargs={"availability": 0.5})
    model = agent("LinearPolicy", env, seed=0, **SHORT[agent])
    network = model.q_net if agent is SASQ else model.policy.actor
    # The square of an error of q must still be a number.
    huge = np.sqrt(HUGE) if agent is SASQ else HUGE
    (layer,) = network.layers()
    layer.weight[:, ::2] = huge
    layer.weight[:, 1::2] = -huge
    model.save(tmp_path / "model")
    loaded = agent.load(tmp_path / "model", env=env).learn(200)
    assert not any(p.isnan().any() for p in loaded.policy.parameters())


def test_sample_softmax_frequencies_among_three_actions():
    """Of two, a wrong sign of the noise would draw the same."""
    logits, mask = np.array([0.0, 9.0, 1.0, -1.0]), np.array([1, 0, 1, 1])
    num_rows = 20_000
    drawn = sample_softmax(
        np.tile(logits, (num_rows, 1)),
        np.tile(mask, (num_rows, 1)),
        next(gumbel_noise((num_rows, 4), np.random.default_rng(0))),
    )
    weights = np.where(mask, np.exp(logits), 0.0)
    assert_frequencies(np.bincount(drawn, minlength=4), weights / weights.sum())


@pytest.mark.parametrize("shape", [(1, 3), (20, 40), (300, 10)])
def test_noise_is_gumbel_and_new_at_every_step(shape):
    """Also of the small arrays that are drawn many steps at once."""
    steps = gumbel_noise(shape, np.random.default_rng(0))
    drawn = np.stack([next(steps) for _ in range(60_000 // math.prod(shape))])
    assert drawn.shape[1:] == shape
    assert len(np.unique(drawn)) == drawn.size
    assert scipy.stats.kstest(drawn.ravel(), "gumbel_r").pvalue > ERROR_RATE


@given(cases(most_actions=100), st.integers(0, 10**6))
def test_best_action_is_largest_available(case, seed):
    _, masks = case
    values = np.random.default_rng(seed).normal(size=masks.shape).astype(np.float32)
    expected = np.where(masks == 1, values, -np.inf).argmax(axis=1)
    for mask in (masks, masks.astype(bool), masks.astype(np.uint8)):
        np.testing.assert_array_equal(best_actions(values, mask), expected)
