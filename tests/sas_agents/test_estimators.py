"""The agents' mathematics equals the paper's formulas, computed naively."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import parameters_to_vector

from sas_agents._episodes import EpisodeBuffer, discounted_returns
from sas_agents._estimators import (
    advantages,
    baseline_weights,
    entropy,
    gradient_variance,
    q_bar,
    td_target,
)
from sas_agents._features import FourierBasis, Identity, OneHot, paper_features
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


def explicit_scores(actor, inputs, mask, actions):
    """Differentiate one sample after the other: psi, [B, P]."""
    rows = []
    for one, row, action in zip(inputs, mask, actions, strict=True):
        actor.zero_grad()
        masked_log_probs(actor(one[None]), row[None])[0, action].backward()
        rows.append(parameters_to_vector([p.grad for p in actor.parameters()]))
    return th.stack(rows)


def test_the_masked_softmax_is_the_papers():
    scores = th.tensor([[1.0, 2.0, 3.0], [0.5, -1.0, 9.0]])
    mask = th.tensor([[1, 0, 1], [1, 1, 0]])
    weights = scores.exp() * mask
    expected = weights / weights.sum(dim=1, keepdim=True)
    th.testing.assert_close(masked_log_probs(scores, mask).exp(), expected)


def test_the_softmax_shifts_by_the_best_available_score():
    """With the shift by the best of all, both available ones would underflow to 0."""
    log_probs = masked_log_probs(
        th.tensor([[1e30, -1e30, -1e30]]), th.tensor([[0, 1, 1]])
    )
    th.testing.assert_close(log_probs.exp(), th.tensor([[0.0, 0.5, 0.5]]))


def test_entropy_is_taken_over_the_set():
    log_probs = masked_log_probs(
        th.zeros(2, 4), th.tensor([[1, 1, 0, 0], [0, 0, 0, 1]])
    )
    th.testing.assert_close(entropy(log_probs), th.tensor([np.log(2), 0.0]).float())


def test_q_bar_is_the_policys_mean_value():
    q, probs = th.tensor([[1.0, 5.0, 100.0]]), th.tensor([[0.25, 0.75, 0.0]])
    assert q_bar(q, probs).item() == 4.0


def test_advantages_add_the_weighted_baselines():
    result = advantages(
        th.tensor([10.0]), th.tensor([[4.0, 6.0]]), th.tensor([-0.5, -0.25])
    )
    assert result.item() == 6.5


@given(seed=seeds, ridge=st.sampled_from([1e-6, 1e-3, 0.1]))
def test_baseline_weights_equal_the_formula_of_lemma_4(seed, ridge):
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


def test_baselines_that_are_zero_or_equal_have_finite_weights():
    norms, returns = th.ones(5), th.arange(5.0)
    for baselines in (th.zeros(5, 2), th.ones(5, 2), th.arange(10.0).view(5, 2) * 0):
        assert baseline_weights(norms, returns, baselines, 1e-3).isfinite().all()


@given(seed=seeds, bias=st.booleans())
def test_score_norms_of_a_linear_policy_are_exact(seed, bias):
    inputs, mask, actions = random_batch(seed)
    actor = network(seed, [], bias)
    assert actor.is_linear
    expected = explicit_scores(actor, inputs, mask, actions).norm(dim=1)
    actual = score_norms(actor, inputs, mask, actions)
    th.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@given(seed=seeds)
def test_score_norms_of_any_network_are_exact(seed):
    inputs, mask, actions = random_batch(seed)
    actor = network(seed, [3, 2], bias=True)
    assert not actor.is_linear
    expected = explicit_scores(actor, inputs, mask, actions).norm(dim=1)
    actual = score_norms(actor, inputs, mask, actions)
    th.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@given(seed=seeds, net_arch=st.sampled_from([[], [3]]))
def test_the_score_along_a_direction_is_an_inner_product(seed, net_arch):
    inputs, mask, actions = random_batch(seed)
    actor = network(seed, net_arch, bias=True)
    psi = explicit_scores(actor, inputs, mask, actions)
    direction = {name: th.randn_like(p) for name, p in actor.named_parameters()}
    expected = psi @ parameters_to_vector(direction.values())
    actual = score_dot(actor, inputs, mask, actions, direction)
    th.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


def test_gradient_variance_is_that_of_the_samples():
    inputs, mask, actions = random_batch(0, size=200)
    actor = network(0, [3], bias=True)
    psi = explicit_scores(actor, inputs, mask, actions)
    advantage = th.randn(200)
    samples = psi * advantage[:, None]
    expected = samples.var(dim=0, correction=0).sum()
    norms, mean = psi.norm(dim=1), samples.mean(dim=0).norm()
    th.testing.assert_close(gradient_variance(norms, advantage, mean), expected)


NEXT_Q = th.tensor([[-INF, 1.0, -3.0], [7.0, -INF, 5.0]])


def test_the_target_is_the_best_available_value():
    target = td_target(
        th.tensor([[1.0], [2.0]]), th.tensor([[1.0], [0.0]]), 0.5, NEXT_Q
    )
    th.testing.assert_close(target, th.tensor([[1.5], [2.0]]))


def test_the_double_target_evaluates_what_the_online_network_would_choose():
    online = th.tensor([[-INF, -9.0, 0.0], [0.0, -INF, 1.0]])
    target = td_target(th.zeros(2, 1), th.ones(2, 1), 1.0, NEXT_Q, online)
    th.testing.assert_close(target, th.tensor([[-3.0], [5.0]]))


@given(seed=seeds, gamma=st.floats(0, 1))
def test_returns_sum_what_is_to_come_in_the_episode(seed, gamma):
    rng = np.random.default_rng(seed)
    rewards, dones = rng.normal(size=(9, 3)), rng.random((9, 3)) < 0.3
    returns = discounted_returns(rewards, dones, gamma)
    for t, lane in np.ndindex(9, 3):
        expected, discount = 0.0, 1.0
        for k in range(t, 9):
            expected += discount * rewards[k, lane]
            discount *= gamma
            if dones[k, lane]:
                break
        assert returns[t, lane] == pytest.approx(expected)


def test_the_buffer_keeps_the_episodes_begun_in_its_first_steps():
    """Lane 0 ends at steps 1, 3 and 4, lane 1 at step 5; n_steps is 3."""
    space = spaces.Dict(observation=spaces.Discrete(9))
    buffer = EpisodeBuffer(3, space, spaces.Discrete(2), "cpu", gamma=1.0, n_envs=2)
    ends = {1: [True, False], 3: [True, False], 4: [True, False], 5: [False, True]}
    for t in range(6):
        assert not buffer.is_complete
        observation = {"observation": np.array([t, t])}
        done = np.array(ends.get(t, [False, False]))
        buffer.add(observation, np.array([0, 1]), np.array([1.0, 1.0]), done)
    assert buffer.is_complete
    batch = buffer.episodes()
    # Lane 0 begins its second episode at step 2, in time, and its third too late.
    steps = zip(batch.observations["observation"], batch.actions, strict=True)
    counted = {(int(t), int(lane)) for t, lane in steps}
    assert counted == {(t, 0) for t in range(4)} | {(t, 1) for t in range(6)}
    assert batch.num_episodes == 3
    assert sorted(batch.returns.tolist()) == [1, 1, 1, 2, 2, 2, 3, 4, 5, 6]


def test_the_fourier_basis_is_the_product_of_frequencies():
    basis = FourierBasis(spaces.Box(-1.0, 3.0, (2,), np.float32), order=3)
    features = basis(th.tensor([[0.0, 3.0]]))[0]
    expected = [
        np.cos(np.pi * (i * 0.25 + j * 1.0)) for i in range(4) for j in range(4)
    ]
    np.testing.assert_allclose(features, expected, atol=1e-6)


def test_an_uncoupled_fourier_basis_varies_along_one_axis_at_a_time():
    basis = FourierBasis(spaces.Box(0.0, 1.0, (2,), np.float32), order=2, coupled=False)
    features = basis(th.tensor([[0.5, 0.25]]))[0]
    angles = [0, 0.5, 1.0, 0.25, 0.5]
    np.testing.assert_allclose(features, np.cos(np.pi * np.array(angles)), atol=1e-6)


@pytest.mark.parametrize(
    ("space", "features"),
    [
        (spaces.Box(0.0, 1.0, (2,)), FourierBasis),
        (spaces.Box(0.0, 1.0, (11,)), Identity),
        (spaces.Box(-INF, INF, (2,)), Identity),
        (spaces.Discrete(28), OneHot),
        (spaces.MultiBinary(3), Identity),
    ],
)
def test_each_kind_of_state_gets_the_papers_features(space, features):
    assert paper_features(space) is features


@pytest.mark.parametrize(
    ("space", "options", "message"),
    [
        (spaces.Box(-INF, 1.0, (2,)), {}, "finite bounds, got Box"),
        (spaces.Box(0.0, 1.0, (2, 2)), {}, "a Box of one axis"),
        (spaces.Box(0.0, 1.0, (2,)), {"order": -1}, "order must be at least 0"),
    ],
)
def test_a_fourier_basis_that_makes_no_sense_is_named(space, options, message):
    with pytest.raises(ValueError, match=message):
        FourierBasis(space, **options)
