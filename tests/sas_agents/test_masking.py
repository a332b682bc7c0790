"""Agents stay inside the action set, whatever the scores."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from helpers.statistical import assert_frequencies
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.utils import obs_as_tensor

from sas_agents import SASNPG, SASPG, SASQ, make_vec_env
from sas_agents._estimators import entropy
from sas_agents._masked_ops import (
    chosen_log_probs,
    mask_out,
    masked_log_probs,
    sample,
)
from sas_agents._scores import score_dot, score_norms
from sas_gym.masks import MASK_KEY, masked_space

NUM_ROWS = 4
HUGE = float(np.float32(1e30))
STATES = {
    "LinearPolicy": spaces.Discrete(1),
    "MlpPolicy": spaces.Box(-1, 1, (3,)),
    "CnnPolicy": spaces.Box(0, 255, (1, 36, 36), np.uint8),
    "MultiInputPolicy": spaces.Dict(
        {"position": spaces.Box(-1, 1, (2,)), "floor": spaces.Discrete(3)}
    ),
}
SHORT = {
    SASPG: {"n_steps": 4},
    SASNPG: {"n_steps": 4},
    SASQ: {"learning_starts": 100, "buffer_size": 1000, "gradient_steps": 1},
}

every_policy = pytest.mark.parametrize("name", STATES)
every_agent = pytest.mark.parametrize("agent", SHORT)

scores_of_any_size = st.lists(
    st.floats(-HUGE, HUGE, width=32), min_size=1, max_size=5
) | st.sampled_from([[-HUGE, HUGE], [HUGE], [-HUGE], [0.0, -HUGE], [0.0, 1.0, HUGE]])


@st.composite
def situations(draw, most_actions=10_000):
    """Draw scores [A] and masks [NUM_ROWS, A], some with one available action."""
    num_actions = draw(st.integers(1, most_actions) | st.just(most_actions))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    scores = rng.choice(np.float32(draw(scores_of_any_size)), num_actions)
    share = draw(st.sampled_from([0.0, 0.01, 0.5, 1.0]))
    masks = rng.random((NUM_ROWS, num_actions)) < share
    masks[np.arange(NUM_ROWS), rng.integers(num_actions, size=NUM_ROWS)] = True
    return scores, masks.astype(np.int8)


def observations(name, masks, seed=0):
    """Return as many observations as there are masks, and the masks in them."""
    STATES[name].seed(seed)
    states = [STATES[name].sample() for _ in masks]
    if isinstance(states[0], dict):
        stacked = {key: np.stack([s[key] for s in states]) for key in states[0]}
    else:
        stacked = {"observation": np.stack(states)}
    return {**stacked, MASK_KEY: masks}


def policy_with(agent, name, scores):
    """Build a policy that gives every state these scores (or action values)."""
    policy = agent.policy_aliases[name](
        masked_space(STATES[name], len(scores)),
        spaces.Discrete(len(scores)),
        lambda _: 1e-3,
        # Of default size it would take most of this file's time.
        **({"features_extractor_kwargs": {"features_dim": 8}} if "Cnn" in name else {}),
    )
    layers = policy.q_net.q_net if agent is SASQ else policy.actor.layers
    with th.no_grad():
        layers[-1].weight[:] = 0.0
        if layers[-1].bias is None:
            layers[-1].weight[:, 0] = th.as_tensor(scores)
        else:
            layers[-1].bias[:] = th.as_tensor(scores)
    return policy


def is_available(masks, actions):
    return np.take_along_axis(masks, np.asarray(actions)[:, None], axis=1).all()


def best_available(scores, masks):
    return np.where(masks, scores.astype(float), -np.inf).max(axis=1)


@every_policy
@given(situation=situations())
@settings(max_examples=25)
def test_a_policy_never_chooses_an_unavailable_action(name, situation):
    scores, masks = situation
    policy, obs = policy_with(SASPG, name, scores), observations(name, masks)
    assert is_available(masks, policy.predict(obs)[0])
    greedy, _ = policy.predict(obs, deterministic=True)
    assert is_available(masks, greedy)
    # Scores that differ by less have the same probability in float32.
    assert (best_available(scores, masks) - scores[greedy] <= 1e-5).all()


@every_policy
@given(situation=situations())
@settings(max_examples=25)
def test_a_q_policy_never_chooses_an_unavailable_action(name, situation):
    scores, masks = situation
    policy, obs = policy_with(SASQ, name, scores), observations(name, masks)
    greedy, _ = policy.predict(obs, deterministic=True)
    assert is_available(masks, greedy)
    np.testing.assert_array_equal(scores[greedy], best_available(scores, masks))


@given(situation=situations())
def test_probabilities_sum_to_one_inside_the_set_and_are_zero_outside(situation):
    scores, masks = map(th.as_tensor, situation)
    probs = masked_log_probs(scores.expand(masks.shape), masks).exp()
    assert probs.isfinite().all()
    assert (probs[masks == 0] == 0).all()
    np.testing.assert_allclose(probs.double().sum(dim=1), 1.0, rtol=1e-5)


@given(situation=situations())
def test_equal_scores_are_equally_likely_however_large(situation):
    scores, masks = map(th.as_tensor, situation)
    best = mask_out(scores.expand(masks.shape), masks)
    best = best == best.amax(dim=1, keepdim=True)
    probs = masked_log_probs(scores.expand(masks.shape), masks).exp()
    for row, is_best in zip(probs, best, strict=True):
        assert (row[is_best] == row[is_best][0]).all()
        assert row[is_best][0] == row.max()


@given(situation=situations())
def test_the_entropy_lies_between_zero_and_that_of_a_uniform_choice(situation):
    scores, masks = map(th.as_tensor, situation)
    found = entropy(masked_log_probs(scores.expand(masks.shape), masks))
    assert (found >= -1e-6).all()
    assert (found <= masks.sum(dim=1).log() + 1e-3).all()


@every_policy
@given(situation=situations(most_actions=300))
@settings(max_examples=15)
def test_scores_of_any_size_make_no_nan_in_gradients(name, situation):
    scores, masks = situation
    policy = policy_with(SASPG, name, scores)
    obs = obs_as_tensor(observations(name, masks), policy.device)
    actor, inputs = policy.actor, policy.preprocess(obs)
    log_probs = masked_log_probs(actor(inputs), obs[MASK_KEY])
    actions = policy._predict(obs)
    assert not log_probs.isnan().any()
    assert log_probs[obs[MASK_KEY] == 1].isfinite().all()
    chosen_log_probs(log_probs, actions).sum().backward()
    assert all(p.grad.isfinite().all() for p in actor.parameters())
    norms = score_norms(actor, inputs, obs[MASK_KEY], actions)
    assert norms.isfinite().all()
    ones = {key: th.ones_like(p) for key, p in actor.named_parameters()}
    assert score_dot(actor, inputs, obs[MASK_KEY], actions, ones).isfinite().all()


@every_policy
@given(situation=situations(most_actions=50), seed=st.integers(0, 99))
@settings(max_examples=15)
def test_the_mask_is_not_among_the_features(name, situation, seed):
    """Another set changes neither scores nor v nor q."""
    _, masks = situation
    others = np.ones_like(masks)
    policy, q_policy = (
        agent.policy_aliases[name](
            masked_space(STATES[name], masks.shape[1]),
            spaces.Discrete(masks.shape[1]),
            lambda _: 1e-3,
        )
        for agent in (SASPG, SASQ)
    )
    for parameter in (*policy.parameters(), *q_policy.parameters()):
        th.nn.init.normal_(parameter)
    obs, other = (
        obs_as_tensor(observations(name, some, seed), policy.device)
        for some in (masks, others)
    )
    for network in (policy.actor, policy.value_net, policy.q_net):
        output = network(policy.preprocess(obs))
        assert th.equal(output, network(policy.preprocess(other)))
        assert output.abs().max() > 0
    q, other_q = q_policy.q_net(obs), q_policy.q_net(other)
    assert th.equal(q, mask_out(other_q, obs[MASK_KEY]))


def test_actions_are_drawn_by_their_probabilities():
    scores = th.tensor([1e30, 2.0, 0.5, -1.0, -1e30, 2.0])
    mask = th.tensor([0, 1, 1, 1, 1, 0])
    probs = masked_log_probs(scores[None], mask[None]).exp()
    drawn = sample(probs.expand(100_000, -1), th.Generator().manual_seed(0))
    law = np.exp([2.0, 0.5, -1.0])
    expected = [0.0, *(law / law.sum()), 0.0, 0.0]
    assert_frequencies(np.bincount(drawn, minlength=6), expected)


def test_a_policys_draws_follow_its_probabilities():
    scores = np.float32([0.3, 5.0, -0.7, 0.0])
    policy = policy_with(SASPG, "LinearPolicy", scores)
    policy.generator.manual_seed(0)
    masks = np.tile(np.int8([1, 0, 1, 1]), (50_000, 1))
    actions, _ = policy.predict(observations("LinearPolicy", masks))
    law = np.exp(scores.astype(float)) * masks[0]
    assert_frequencies(np.bincount(actions, minlength=4), law / law.sum())


def exploring_agent(exploration_rate):
    model = SASQ("LinearPolicy", make_vec_env("SAS/Maze-v0", 1), seed=0)
    model.exploration_rate = exploration_rate
    return model


def maze_observations(masks):
    return {"observation": np.zeros((len(masks), 2), np.float32), MASK_KEY: masks}


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3, 1.0]))
def test_exploration_stays_inside_the_sets(seed, exploration_rate):
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


def test_exploration_and_warm_up_are_uniform_over_the_set():
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


def test_each_lane_explores_by_a_coin_of_its_own():
    model = exploring_agent(exploration_rate=0.3)
    with th.no_grad():
        model.q_net.q_net[-1].weight[5] = 1.0
    masks = np.ones((30_000, 16), np.int8)
    actions, _ = model.predict(maze_observations(masks))
    law = np.full(16, 0.3 / 16)
    law[5] += 0.7
    assert_frequencies(np.bincount(actions, minlength=16), law)


@every_agent
def test_training_and_what_was_loaded_stay_inside_the_sets(agent, tmp_path):
    """The environment raises an error for an unavailable action."""
    env = make_vec_env("SAS/Maze-v0", 4, seed=0, env_kwargs={"availability": 0.1})
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
def test_huge_scores_survive_saving_and_training(agent, tmp_path):
    env = make_vec_env("SAS/Maze-v0", 2, seed=0, env_kwargs={"availability": 0.5})
    model = agent("LinearPolicy", env, seed=0, **SHORT[agent])
    network = model.q_net.q_net if agent is SASQ else model.policy.actor.layers
    with th.no_grad():
        network[-1].weight[::2] = HUGE
        network[-1].weight[1::2] = -HUGE
    model.save(tmp_path / "model")
    loaded = agent.load(tmp_path / "model", env=env).learn(200)
    assert not any(p.isnan().any() for p in loaded.policy.parameters())
