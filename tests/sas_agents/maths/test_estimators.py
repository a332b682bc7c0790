"""The agents' mathematics equals the paper's formulas, computed naively."""

import numpy as np
import pytest
import torch as th
from helpers.agents import assert_close, explicit_scores, random_mlp
from hypothesis import given
from hypothesis import strategies as st

from sas_agents._fast import changed_policy, clipped_gradient, masked_softmax
from sas_agents.maths._estimators import (
    advantages,
    baseline_weights,
    conjugate_gradients,
    gradient_variance,
    mean_entropy,
    q_bar,
    running_scale,
    td_target,
    unit_scale,
)
from sas_agents.maths._masked_ops import masked_log_probs
from sas_agents.models._mlp import Dense
from sas_agents.policy_gradient._batch import Scores

seeds = st.integers(0, 10_000)
architectures = st.sampled_from([[], [3]])


def random_batch(seed, size=12, num_features=4, num_actions=5):
    """Features [B, F], masks with an action each [B, A], and available actions [B]."""
    rng = np.random.default_rng(seed)
    mask = rng.random((size, num_actions)) < 0.5
    mask[np.arange(size), rng.integers(num_actions, size=size)] = True
    actions = [rng.choice(np.flatnonzero(row)) for row in mask]
    inputs = rng.standard_normal((size, num_features), dtype=np.float32)
    return inputs, mask, np.array(actions)


def random_scores(actor, features, mask, actions):
    return Scores(actor, Dense(features), mask, actions)


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def test_q_bar_is_mean_value_under_policy():
    q, probs = np.array([[1.0, 5.0, 100.0]]), np.array([[0.25, 0.75, 0.0]])
    assert q_bar(q, probs).tolist() == [4.0]


def test_entropy_over_the_set():
    for mask, expected in (([1, 1, 0, 0], np.log(2)), ([0, 0, 0, 1], 0.0)):
        logits = np.array([[0.5, 0.5, 7.0, -3.0]])
        found = mean_entropy(logits, *masked_softmax(logits, np.array([mask])))
        assert found == pytest.approx(expected)
    logits, masks = np.zeros((2, 4)), np.array([[1, 1, 0, 0], [0, 0, 0, 1]])
    found = mean_entropy(logits, *masked_softmax(logits, masks))
    assert found == pytest.approx(np.log(2) / 2)


def test_advantages_add_weighted_baselines():
    result = advantages(
        np.array([10.0]), np.array([[4.0, 6.0]]), np.array([-0.5, -0.25])
    )
    assert result.tolist() == [6.5]


@given(seed=seeds, ridge=st.sampled_from([1e-6, 1e-3, 0.1]))
def test_baseline_weights_equal_lemma_4(seed, ridge):
    """A = -(E[B'B] + ridge)^-1 E[B'C], with B and C by sample and parameter."""
    inputs, mask, actions = random_batch(seed)
    actor = random_mlp(seed)
    psi = explicit_scores(actor, inputs, mask, actions).double().numpy()
    rng = np.random.default_rng(seed)
    returns, baselines = rng.normal(size=12) + 3, rng.normal(size=(12, 2)) + 2
    b = psi[:, :, None] * baselines[:, None, :]
    c = psi * returns[:, None]
    gram = np.einsum("bpk,bpl->kl", b, b)
    cross = np.einsum("bpk,bp->k", b, c)
    gram += ridge * np.trace(gram) / 2 * np.eye(2)
    norms, _ = random_scores(actor, inputs, mask, actions).norms()
    ours = baseline_weights(norms.astype(float), returns, baselines, ridge)
    expected = -np.linalg.solve(gram, cross)
    # The norms are in single precision: a weight near 0 is right to 1e-6.
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-6)


def test_baseline_weights_are_finite():
    norms, returns = np.ones(5), np.arange(5.0)
    for baselines in (np.zeros((5, 2)), np.ones((5, 2)), -np.zeros((5, 2))):
        assert np.isfinite(baseline_weights(norms, returns, baselines, 1e-3)).all()


@given(seed=seeds, net_arch=architectures, bias=st.booleans())
def test_score_norms(seed, net_arch, bias):
    inputs, mask, actions = random_batch(seed)
    actor = random_mlp(seed, net_arch, bias)
    expected = explicit_scores(actor, inputs, mask, actions).norm(dim=1)
    norms, measured = random_scores(actor, inputs, mask, actions).norms()
    np.testing.assert_allclose(norms, expected[measured], rtol=1e-4, atol=1e-5)


@given(seed=seeds, net_arch=architectures, bias=st.booleans())
def test_score_dot_is_inner_product(seed, net_arch, bias):
    inputs, mask, actions = random_batch(seed)
    actor = random_mlp(seed, net_arch, bias)
    psi = explicit_scores(actor, inputs, mask, actions).numpy()
    direction = normal(seed, psi.shape[1])
    scores = random_scores(actor, inputs, mask, actions)
    for found in (scores.dot(direction), scores.moments(direction)[0]):
        np.testing.assert_allclose(found, psi @ direction, rtol=1e-4, atol=1e-4)


@given(seed=seeds, net_arch=architectures, bias=st.booleans())
def test_weighted_sum_of_scores(seed, net_arch, bias):
    inputs, mask, actions = random_batch(seed)
    actor = random_mlp(seed, net_arch, bias)
    psi = explicit_scores(actor, inputs, mask, actions).numpy()
    weights = normal(seed, len(psi))
    actual = random_scores(actor, inputs, mask, actions).weighted_sum(weights)
    np.testing.assert_allclose(actual, weights @ psi, rtol=1e-4, atol=1e-4)


@given(seed=seeds, net_arch=architectures, bias=st.booleans())
def test_variance_of_scores_is_over_actions(seed, net_arch, bias):
    inputs, mask, actions = random_batch(seed)
    actor = random_mlp(seed, net_arch, bias)
    direction = normal(seed, sum(p.numel() for p in actor.parameters()))
    logits = actor(th.tensor(inputs)).detach()
    probs = masked_log_probs(logits, th.tensor(mask)).exp().numpy()
    of_actions = np.stack(
        [
            random_scores(actor, inputs, mask | True, np.full(len(mask), a)).dot(
                direction
            )
            for a in range(mask.shape[1])
        ],
        axis=1,
    )
    # A shift of all logits cancels: any softmax gives the differences between actions.
    mean = (probs * of_actions).sum(axis=1, keepdims=True)
    expected = (probs * (of_actions - mean) ** 2).sum(axis=1)
    for size in (1, len(mask)):  # of a sample, and the mean of all
        some = (inputs[:size], mask[:size], actions[:size])
        _, actual = random_scores(actor, *some).moments(direction)
        np.testing.assert_allclose(actual, expected[:size].mean(), rtol=1e-3, atol=1e-4)


def clipped_objective_gradient(logits, old, mask, actions, advantage, clip_range):
    """Differentiate the mean of -min(ratio A, clip(ratio) A) by autograd."""
    mask, actions, advantage = map(th.tensor, (mask, actions, advantage))
    new = th.tensor(logits, requires_grad=True)
    cells = (th.arange(len(actions)), actions)
    old_log_probs = masked_log_probs(th.tensor(old), mask)
    ratio = (masked_log_probs(new, mask)[cells] - old_log_probs[cells]).exp()
    clipped = ratio
    if clip_range is not None:
        clipped = ratio.clamp(1 - clip_range, 1 + clip_range)
    loss = -th.minimum(ratio * advantage, clipped * advantage).mean()
    return th.autograd.grad(loss, new)[0].numpy()


@given(
    seed=seeds,
    clip_range=st.sampled_from([None, 0.2, 0.5]),
    level=st.sampled_from([0.0, -50.0, 300.0]),
)
def test_clipped_gradient_is_that_of_clipped_objective(seed, clip_range, level):
    """Whatever is added to all logits, by which the weights are divided or not."""
    _, mask, actions = random_batch(seed)
    old, logits = normal(seed, *mask.shape), normal(seed + 1, *mask.shape)
    advantage = normal(seed, len(mask))
    probs, _ = masked_softmax(old, mask)
    policy = changed_policy(probs, logits - old + np.float32(level))
    before = policy.weights.copy()
    found = clipped_gradient(policy, probs, actions, advantage, clip_range)
    np.testing.assert_array_equal(policy.weights, before)
    expected = clipped_objective_gradient(
        logits, old, mask, actions, advantage, clip_range
    )
    # At a level of 300 the logits themselves are rounded by 2e-5.
    rtol, atol = 1e-4 + 1e-6 * abs(level), 1e-5
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


def test_scales():
    assert unit_scale(np.array([3.0, -3.0])).tolist() == [1.0, -1.0]
    assert unit_scale(np.zeros(2)).tolist() == [0.0, 0.0]
    assert running_scale(0.0, 5.0, 0.1) == 5.0
    assert running_scale(1.0, 3.0, 0.5) == pytest.approx(np.sqrt(5.0))


@given(seed=seeds)
def test_conjugate_gradients_solve(seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(6, 6))
    matrix, target = root @ root.T + np.eye(6), rng.normal(size=6)
    solution = conjugate_gradients(lambda x: matrix @ x, target, num_steps=30)
    np.testing.assert_allclose(matrix @ solution, target, rtol=1e-3, atol=1e-4)
    assert not conjugate_gradients(lambda x: matrix @ x, 0 * target, 30).any()


def test_conjugate_gradients_of_a_diagonal_take_one_step():
    diagonal = np.array([1e-3, 1.0, 50.0])
    solution = conjugate_gradients(
        lambda x: diagonal * x, np.ones(3), num_steps=1, diagonal=diagonal
    )
    np.testing.assert_allclose(solution, 1 / diagonal)


def test_conjugate_gradients_leave_out_what_is_0():
    """A parameter without samples: 0/0 would be NaN."""
    diagonal = np.array([2.0, 0.0])
    for target, expected in (([4.0, 0.0], [2.0, 0.0]), ([0.0, 0.0], [0.0, 0.0])):
        solution = conjugate_gradients(
            lambda x: diagonal * x, np.array(target), 3, diagonal=diagonal
        )
        np.testing.assert_array_equal(solution, expected)
    nothing = conjugate_gradients(np.zeros_like, np.zeros(2), 3, diagonal=np.zeros(2))
    assert not nothing.any()


def test_conjugate_gradients_are_as_exact_for_tiny_targets():
    matrix = np.array([[2.0, 1.0], [1.0, 3.0]], np.float32)
    target = np.array([1.0, -2.0], np.float32)
    solution = conjugate_gradients(lambda x: matrix @ x, target, num_steps=5)
    tiny = np.float32(2**-30)
    scaled = conjugate_gradients(lambda x: matrix @ x, target * tiny, num_steps=5)
    assert_close(solution, [1.0, -1.0])
    np.testing.assert_array_equal(scaled, solution * tiny)


def test_gradient_variance_equals_that_of_samples():
    inputs, mask, actions = random_batch(0, size=200)
    psi = explicit_scores(random_mlp(0, [3]), inputs, mask, actions).numpy()
    advantage = normal(0, 200)
    samples = psi * advantage[:, None]
    expected = samples.var(axis=0).sum()
    norms, mean = np.linalg.norm(psi, axis=1), float(np.linalg.norm(samples.mean(0)))
    found = gradient_variance(norms, advantage, mean)
    assert_close(found, expected)


def test_td_target_ends_with_the_episode():
    reward, not_done = np.array([1.0, 2.0]), np.array([1.0, 0.0])
    target = td_target(reward, not_done, 0.5, np.array([3.0, 7.0]))
    np.testing.assert_array_equal(target, [2.5, 2.0])
    target = td_target(reward, not_done, np.array([0.1, 0.2]), np.array([3.0, 7.0]))
    np.testing.assert_allclose(target, [1.3, 2.0])


def test_clipped_gradient_is_whole_where_nothing_has_moved():
    """At a ratio of 1, even where it may not move at all: (pi - 1_a) A / 2."""
    probs = np.array([[0.5, 0.5], [0.25, 0.75]])
    actions, advantage = np.array([0, 1]), np.array([2.0, -4.0])
    for clip_range in (0.0, None):
        policy = changed_policy(probs, np.zeros((2, 2)))
        found = clipped_gradient(policy, probs, actions, advantage, clip_range)
        np.testing.assert_allclose(found, [[-0.5, 0.5], [-0.5, 0.5]])
