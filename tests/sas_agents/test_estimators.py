"""The agents' mathematics equals the paper's formulas, computed naively."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from helpers.agents import explicit_scores
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from sas_agents._estimators import (
    advantages,
    baseline_weights,
    clipped_gradient,
    conjugate_gradients,
    entropy,
    gradient_variance,
    mean_kl,
    q_bar,
    running_scale,
    td_target,
    unit_scale,
)
from sas_agents._features import Identity
from sas_agents._masked_ops import (
    exponential,
    log_softmax,
    mask_bias,
    masked_log_probs,
)
from sas_agents._policies import Network
from sas_agents._scores import Scores, score_norms

INF = float("inf")
seeds = st.integers(0, 10_000)


def random_batch(seed, size=12, num_features=4, num_actions=5):
    """Features [B, F], masks with an action each [B, A], and available actions [B]."""
    rng = np.random.default_rng(seed)
    mask = rng.random((size, num_actions)) < 0.5
    mask[np.arange(size), rng.integers(num_actions, size=size)] = True
    actions = [rng.choice(np.flatnonzero(row)) for row in mask]
    inputs = th.tensor(rng.normal(size=(size, num_features)), dtype=th.float32)
    return inputs, th.tensor(mask), th.tensor(np.array(actions))


def network(seed, net_arch, bias, num_features=4, num_actions=5):
    th.manual_seed(seed)
    space = spaces.Box(-INF, INF, (num_features,), np.float32)
    actor = Network(Identity(space), net_arch, nn.Tanh, num_actions, bias)
    for parameter in actor.parameters():
        nn.init.normal_(parameter, std=0.5)
    return actor


def test_q_bar_is_mean_value_under_policy():
    q, probs = th.tensor([[1.0, 5.0, 100.0]]), th.tensor([[0.25, 0.75, 0.0]])
    assert q_bar(q, probs).item() == 4.0


def test_entropy_over_the_set():
    log_probs = log_softmax(mask_bias(th.tensor([[1, 1, 0, 0], [0, 0, 0, 1]])))
    expected = th.tensor([np.log(2), 0.0]).float()
    th.testing.assert_close(entropy(exponential(log_probs), log_probs), expected)


def test_advantages_add_weighted_baselines():
    result = advantages(
        th.tensor([10.0]), th.tensor([[4.0, 6.0]]), th.tensor([-0.5, -0.25])
    )
    assert result.item() == 6.5


@given(seed=seeds, ridge=st.sampled_from([1e-6, 1e-3, 0.1]))
def test_baseline_weights_equal_lemma_4(seed, ridge):
    """A = -(E[B'B] + ridge)^-1 E[B'C], with B and C by sample and parameter."""
    inputs, mask, actions = random_batch(seed)
    actor = network(seed, [], bias=False)
    psi = explicit_scores(actor, inputs, mask, actions).double().numpy()
    rng = np.random.default_rng(seed)
    returns, baselines = rng.normal(size=12) + 3, rng.normal(size=(12, 2)) + 2
    b = psi[:, :, None] * baselines[:, None, :]
    c = psi * returns[:, None]
    gram = np.einsum("bpk,bpl->kl", b, b)
    cross = np.einsum("bpk,bp->k", b, c)
    gram += ridge * np.trace(gram) / 2 * np.eye(2)
    norms = score_norms(actor, inputs, mask, actions).double()
    ours = baseline_weights(norms, th.tensor(returns), th.tensor(baselines), ridge)
    expected = -np.linalg.solve(gram, cross)
    # The norms are in single precision: a weight near 0 is right to 1e-6.
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-6)


def test_baseline_weights_are_finite():
    norms, returns = th.ones(5), th.arange(5.0)
    for baselines in (th.zeros(5, 2), th.ones(5, 2), th.arange(10.0).view(5, 2) * 0):
        assert baseline_weights(norms, returns, baselines, 1e-3).isfinite().all()


@given(seed=seeds, bias=st.booleans())
def test_score_norms_of_linear_policy(seed, bias):
    inputs, mask, actions = random_batch(seed)
    actor = network(seed, [], bias)
    assert actor.is_linear
    expected = explicit_scores(actor, inputs, mask, actions).norm(dim=1)
    actual = score_norms(actor, inputs, mask, actions)
    th.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@given(seed=seeds)
def test_score_norms_of_network(seed):
    inputs, mask, actions = random_batch(seed)
    actor = network(seed, [3, 2], bias=True)
    assert not actor.is_linear
    expected = explicit_scores(actor, inputs, mask, actions).norm(dim=1)
    actual = score_norms(actor, inputs, mask, actions)
    th.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


def test_norms_of_many_scores_are_those_of_some_samples():
    """Every fourth of 1,030, where each would take a gradient of its own."""
    inputs, mask, actions = random_batch(0, size=1030)
    actor = network(0, [3], bias=True)
    scores = Scores(actor, inputs, mask_bias(mask), actions)
    norms, measured = scores.norms(mask)
    assert len(actions[measured]) == len(norms) == 258
    expected = score_norms(actor, inputs, mask, actions)[measured]
    th.testing.assert_close(norms, expected)


@given(seed=seeds, net_arch=st.sampled_from([[], [3]]))
def test_score_dot_is_inner_product(seed, net_arch):
    inputs, mask, actions = random_batch(seed)
    actor = network(seed, net_arch, bias=True)
    psi = explicit_scores(actor, inputs, mask, actions)
    direction = th.randn(psi.shape[1])
    actual = Scores(actor, inputs, mask_bias(mask), actions).dot(direction)
    th.testing.assert_close(actual, psi @ direction, rtol=1e-4, atol=1e-4)


@given(seed=seeds, net_arch=st.sampled_from([[], [3]]), bias=st.booleans())
def test_weighted_sum_of_scores(seed, net_arch, bias):
    inputs, mask, actions = random_batch(seed)
    actor = network(seed, net_arch, bias)
    psi = explicit_scores(actor, inputs, mask, actions)
    weights = th.randn(len(psi))
    actual = Scores(actor, inputs, mask_bias(mask), actions).weighted_sum(weights)
    th.testing.assert_close(actual, weights @ psi, rtol=1e-4, atol=1e-4)


@given(seed=seeds, net_arch=st.sampled_from([[], [3]]), bias=st.booleans())
def test_variance_of_scores_is_over_actions(seed, net_arch, bias):
    inputs, mask, _ = random_batch(seed)
    actor = network(seed, net_arch, bias)
    every = [th.full((len(mask),), action) for action in range(mask.shape[1])]
    direction = th.randn(sum(p.numel() for p in actor.parameters()))
    probs = masked_log_probs(actor(inputs), mask).exp().detach()
    of_actions = th.stack(
        [
            Scores(actor, inputs, mask_bias(mask | True), a).dot(direction)
            for a in every
        ],
        dim=1,
    )
    # A shift of all logits cancels: any softmax gives the differences between actions.
    mean = (probs * of_actions).sum(dim=1, keepdim=True)
    expected = (probs * (of_actions - mean) ** 2).sum(dim=1)
    actual = Scores(actor, inputs, mask_bias(mask), every[0]).variance(direction)
    th.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)


@given(seed=seeds)
def test_one_hot_features_as_indices(seed):
    """Indices give what the one-hot vectors give, in every product."""
    _, mask, actions = random_batch(seed)
    states = th.tensor(np.random.default_rng(seed).integers(4, size=len(mask)))
    actor, dense = network(seed, [], bias=False), th.eye(4)[states]
    th.testing.assert_close(actor(states), actor(dense))
    vector, weights = th.randn(20), th.randn(len(mask))
    sparse_scores = Scores(actor, states, mask_bias(mask), actions)
    scores = Scores(actor, dense, mask_bias(mask), actions)
    th.testing.assert_close(sparse_scores.dot(vector), scores.dot(vector))
    th.testing.assert_close(
        sparse_scores.weighted_sum(weights), scores.weighted_sum(weights)
    )
    th.testing.assert_close(sparse_scores.linear_norms(), scores.linear_norms())
    th.testing.assert_close(
        score_norms(actor, states, mask, actions),
        score_norms(actor, dense, mask, actions),
    )


@pytest.mark.parametrize("fused", [False, True])
def test_optimizer_step_on_indices_equals_one_hot(fused):
    """Also for a fused optimiser, which reads the gradient's memory as it lies."""
    states, gradient = th.tensor([0, 3, 3, 1]), th.randn(4, 5)
    weights = []
    for encoded in (states, th.eye(4)[states]):
        actor = network(0, [], bias=False)
        optimizer = th.optim.Adam(actor.parameters(), lr=0.1, fused=fused)
        actor.backward(encoded, actor.differentiable(encoded), gradient)
        optimizer.step()
        weights.append(actor.output_layer.weight.detach())
    th.testing.assert_close(*weights)


@given(seed=seeds, clip_range=st.sampled_from([None, 0.2]))
def test_clipped_gradient_is_that_of_clipped_objective(seed, clip_range):
    _, mask, actions = random_batch(seed)
    th.manual_seed(seed)
    old = masked_log_probs(th.randn(mask.shape), mask)
    advantage, logits = th.randn(len(mask)), th.randn(mask.shape, requires_grad=True)
    log_probs = masked_log_probs(logits, mask)
    chosen = (log_probs - old.clamp_min(-1e30)).gather(1, actions[:, None])[:, 0]
    ratio = chosen.exp()
    clipped = ratio if clip_range is None else ratio.clamp(0.8, 1.2)
    th.minimum(ratio * advantage, clipped * advantage).sum().backward()
    actual = clipped_gradient(log_probs.detach(), old, actions, advantage, clip_range)
    th.testing.assert_close(actual, logits.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("net_arch", [[], [3]])
@pytest.mark.parametrize("bias", [False, True])
def test_backward_of_network_is_autograds(net_arch, bias):
    inputs, *_ = random_batch(0)
    actor, gradient = network(0, net_arch, bias), th.randn(len(inputs), 5)
    (actor(inputs) * gradient).sum().backward()
    expected = [p.grad.clone() for p in actor.parameters()]
    actor.backward(inputs, actor.differentiable(inputs), gradient)
    for p, grad in zip(actor.parameters(), expected, strict=True):
        th.testing.assert_close(p.grad, grad)


def test_mean_kl():
    """By hand: 1/2 log(1/2 / 1/4) + 1/2 log(1/2 / 3/4), and 0 for the same policy."""
    old = th.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    new = th.tensor([[0.25, 0.75, 0.0], [1.0, 0.0, 0.0]])
    expected = (0.5 * np.log(2) + 0.5 * np.log(2 / 3)) / 2
    actual = mean_kl(old, old.log().clamp_min(-1e30), new.log().clamp_min(-1e30))
    assert actual.item() == pytest.approx(expected)


def test_scales():
    assert unit_scale(th.tensor([3.0, -3.0])).tolist() == [1.0, -1.0]
    assert unit_scale(th.zeros(2)).tolist() == [0.0, 0.0]
    assert running_scale(0.0, 5.0, 0.1) == 5.0
    assert running_scale(1.0, 3.0, 0.5) == pytest.approx(np.sqrt(5.0))


@given(seed=seeds)
def test_conjugate_gradients_solve(seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(6, 6))
    matrix = th.tensor(root @ root.T + np.eye(6))
    target = th.tensor(rng.normal(size=6))
    solution = conjugate_gradients(lambda x: matrix @ x, target, num_steps=30)
    th.testing.assert_close(matrix @ solution, target, rtol=1e-3, atol=1e-4)
    assert not conjugate_gradients(lambda x: matrix @ x, 0 * target, 30).any()


def test_conjugate_gradients_of_a_diagonal_take_one_step():
    diagonal = th.tensor([1e-3, 1.0, 50.0])
    solution = conjugate_gradients(
        lambda x: diagonal * x, th.ones(3), num_steps=1, diagonal=diagonal
    )
    th.testing.assert_close(solution, 1 / diagonal)


def test_conjugate_gradients_are_as_exact_for_tiny_targets():
    matrix, target = th.tensor([[2.0, 1.0], [1.0, 3.0]]), th.tensor([1.0, -2.0])
    solution = conjugate_gradients(lambda x: matrix @ x, target, num_steps=5)
    tiny = conjugate_gradients(lambda x: matrix @ x, target * 2**-30, num_steps=5)
    th.testing.assert_close(solution, th.tensor([1.0, -1.0]))
    assert th.equal(tiny, solution * 2**-30)


def test_gradient_variance_equals_that_of_samples():
    inputs, mask, actions = random_batch(0, size=200)
    actor = network(0, [3], bias=True)
    psi = explicit_scores(actor, inputs, mask, actions)
    advantage = th.randn(200)
    samples = psi * advantage[:, None]
    expected = samples.var(dim=0, correction=0).sum()
    norms, mean = psi.norm(dim=1), samples.mean(dim=0).norm()
    th.testing.assert_close(gradient_variance(norms, advantage, mean), expected)


def test_td_target_ends_with_the_episode():
    reward, not_done = np.array([1.0, 2.0]), np.array([1.0, 0.0])
    target = td_target(reward, not_done, 0.5, np.array([3.0, 7.0]))
    np.testing.assert_array_equal(target, [2.5, 2.0])
    target = td_target(reward, not_done, np.array([0.1, 0.2]), np.array([3.0, 7.0]))
    np.testing.assert_allclose(target, [1.3, 2.0])


def test_clipped_gradient_is_whole_where_nothing_has_moved():
    """At a ratio of 1, even where it may not move at all."""
    log_probs = th.tensor([[0.5, 0.5], [0.25, 0.75]], dtype=th.float64).log()
    actions, advantage = th.tensor([0, 1]), th.tensor([2.0, -4.0], dtype=th.float64)
    for clip_range in (0.0, None):
        found = clipped_gradient(log_probs, log_probs, actions, advantage, clip_range)
        expected = th.tensor([[1.0, -1.0], [1.0, -1.0]], dtype=th.float64)
        th.testing.assert_close(found, expected)
