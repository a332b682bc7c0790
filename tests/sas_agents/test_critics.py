"""Critics are fitted to what a solver finds, and at a rate by Algorithm 1's steps."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from sas_agents import _critics
from sas_agents._critics import fit_least_squares, gradient_step, rescale
from sas_agents._features import Identity
from sas_agents._policies import Network

F, A, B = 3, 4, 40
seeds = st.integers(0, 10_000)


def problem(seed, num_outputs=A):
    """A critic, features, weights of its outputs, and targets."""
    th.manual_seed(seed)
    space = spaces.Box(-np.inf, np.inf, (F,), np.float32)
    critic = Network(Identity(space), [], nn.Tanh, num_outputs, bias=False)
    nn.init.normal_(critic.output_layer.weight)
    return critic, th.randn(B, F), th.rand(B, num_outputs), th.randn(B) * 5


def solution(critic, inputs, weights, targets):
    """Minimise |targets - rows w|^2 + prior |w - w0|^2, with all rows written out."""
    rows = (weights[:, :, None] * inputs[:, None, :]).reshape(B, -1).double()
    prior = _critics.PRIOR_SAMPLES * rows.square().sum(dim=1).mean()
    start = critic.output_layer.weight.detach().reshape(-1).double()
    gram = rows.T @ rows + prior * th.eye(rows.shape[1]).double()
    change = th.linalg.solve(gram, rows.T @ (targets.double() - rows @ start))
    return (start + change).view_as(critic.output_layer.weight).float()


@given(seed=seeds, num_outputs=st.sampled_from([1, A]))
def test_least_squares_equal_a_solver(seed, num_outputs):
    critic, *data = problem(seed, num_outputs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_critics, "FIT_STEPS", 60)
        expected = solution(critic, *data)
        fit_least_squares(critic, *data)
    th.testing.assert_close(critic.output_layer.weight, expected, rtol=1e-3, atol=1e-3)


@given(seed=seeds)
def test_least_squares_of_indices_equal_one_hot_features(seed):
    critic, _, weights, targets = problem(seed)
    other, *_ = problem(seed)
    states = th.tensor(np.random.default_rng(seed).integers(F, size=B))
    fit_least_squares(critic, states, weights, targets)
    fit_least_squares(other, th.eye(F)[states], weights, targets)
    th.testing.assert_close(
        critic.output_layer.weight, other.output_layer.weight, rtol=1e-3, atol=1e-3
    )


def test_value_of_a_state_is_the_mean_of_its_returns_and_prior():
    """By hand: 3 returns of a state and one sample's worth of its old value 2."""
    critic, *_ = problem(0, num_outputs=1)
    with th.no_grad():
        critic.output_layer.weight[:] = th.tensor([[2.0, 7.0, 0.0]])
    states, returns = th.tensor([0, 0, 0, 2]), th.tensor([4.0, 6.0, 8.0, -3.0])
    fit_least_squares(critic, states, th.ones(4, 1), returns)
    expected = th.tensor([[(4 + 6 + 8 + 2) / 4, 7.0, -1.5]])
    th.testing.assert_close(critic.output_layer.weight.detach(), expected)


@given(seed=seeds)
def test_gradient_step_equals_autograd(seed):
    critic, inputs, weights, targets = problem(seed)
    optimizer = th.optim.SGD(critic.parameters(), lr=0.1)
    weight = critic.output_layer.weight.detach().clone().requires_grad_()
    predicted = (weights * (inputs @ weight.T)).sum(dim=1)
    (gradient,) = th.autograd.grad(0.5 * (predicted - targets).square().mean(), weight)
    gradient_step(critic, optimizer, inputs, weights, targets)
    th.testing.assert_close(critic.output_layer.weight, weight - 0.1 * gradient)


def test_rescaled_critic_has_scaled_outputs():
    space = spaces.Box(-np.inf, np.inf, (F,), np.float32)
    critic, inputs = Network(Identity(space), [5], nn.Tanh, 2, True), th.randn(B, F)
    nn.init.normal_(critic.output_layer.weight)
    nn.init.normal_(critic.output_layer.bias)
    before = critic(inputs).detach()
    rescale(critic, 4.0)
    assert th.equal(critic(inputs), 4 * before)
