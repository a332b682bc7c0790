"""The agents' mathematics equals the paper's formulas, computed naively."""

import numpy as np
import torch as th
from gymnasium import spaces
from helpers.agents import explicit_scores
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import parameters_to_vector

from sas_agents._estimators import (
    advantages,
    baseline_weights,
    entropy,
    gradient_variance,
    q_bar,
    td_target,
)
from sas_agents._features import Identity
from sas_agents._masked_ops import masked_log_probs
from sas_agents._policies import Network
from sas_agents._scores import score_dot, score_norms

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
    log_probs = masked_log_probs(
        th.zeros(2, 4), th.tensor([[1, 1, 0, 0], [0, 0, 0, 1]])
    )
    th.testing.assert_close(entropy(log_probs), th.tensor([np.log(2), 0.0]).float())


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
    np.testing.assert_allclose(ours, -np.linalg.solve(gram, cross), rtol=1e-4)


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


@given(seed=seeds, net_arch=st.sampled_from([[], [3]]))
def test_score_dot_is_inner_product(seed, net_arch):
    inputs, mask, actions = random_batch(seed)
    actor = network(seed, net_arch, bias=True)
    psi = explicit_scores(actor, inputs, mask, actions)
    direction = {name: th.randn_like(p) for name, p in actor.named_parameters()}
    expected = psi @ parameters_to_vector(direction.values())
    actual = score_dot(actor, inputs, mask, actions, direction)
    th.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


def test_gradient_variance_equals_that_of_samples():
    inputs, mask, actions = random_batch(0, size=200)
    actor = network(0, [3], bias=True)
    psi = explicit_scores(actor, inputs, mask, actions)
    advantage = th.randn(200)
    samples = psi * advantage[:, None]
    expected = samples.var(dim=0, correction=0).sum()
    norms, mean = psi.norm(dim=1), samples.mean(dim=0).norm()
    th.testing.assert_close(gradient_variance(norms, advantage, mean), expected)


NEXT_Q = th.tensor([[-INF, 1.0, -3.0], [7.0, -INF, 5.0]])


def test_td_target_is_best_available_value():
    target = td_target(
        th.tensor([[1.0], [2.0]]), th.tensor([[1.0], [0.0]]), 0.5, NEXT_Q
    )
    th.testing.assert_close(target, th.tensor([[1.5], [2.0]]))


def test_double_td_target():
    """The online network chooses what the target network evaluates."""
    online = th.tensor([[-INF, -9.0, 0.0], [0.0, -INF, 1.0]])
    target = td_target(th.zeros(2, 1), th.ones(2, 1), 1.0, NEXT_Q, online)
    th.testing.assert_close(target, th.tensor([[-3.0], [5.0]]))
