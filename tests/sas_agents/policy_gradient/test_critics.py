"""Critics are fitted to what a solver finds, and at a rate by Algorithm 1's steps."""

import copy

import numpy as np
import pytest
import torch as th
from helpers.agents import assert_close, linear_network, torch_network
from hypothesis import given
from hypothesis import strategies as st

from sas_agents.policy_gradient import _critics
from sas_agents.policy_gradient._critics import (
    fit_least_squares,
    gradient_step,
    rescale,
)

F, A, B = 4, 5, 40
seeds = st.integers(0, 10_000)


def problem(seed, num_outputs=A):
    """A linear critic, features, weights of its outputs, and targets."""
    rng = np.random.default_rng(seed)
    critic = linear_network(seed, F, num_outputs)
    inputs = rng.standard_normal((B, F), dtype=np.float32)
    weights = rng.random((B, num_outputs), dtype=np.float32)
    return critic, inputs, weights, 5 * rng.standard_normal(B, dtype=np.float32)


def rows_of(inputs, weights):
    """What a prediction multiplies each entry of the matrix with, in all samples."""
    rows = weights[:, :, None] * inputs[:, None, :]
    return rows.reshape(len(rows), -1).astype(np.float64)


def errors_of(critic, inputs, weights, targets):
    """Targets minus what the critic predicts."""
    predicted = rows_of(inputs, weights) @ critic.weight.reshape(-1)
    return (targets - predicted).astype(np.float32)


def solution(critic, inputs, weights, targets):
    """Minimise |targets - rows w|^2 + prior |w - w0|^2, with all rows written out."""
    rows = rows_of(inputs, weights)
    prior = _critics.PRIOR_SAMPLES * (rows**2).sum(axis=1).mean()
    start = critic.weight.reshape(-1).astype(np.float64)
    gram = rows.T @ rows + prior * np.eye(rows.shape[1])
    change = np.linalg.solve(gram, rows.T @ (targets - rows @ start))
    return (start + change).reshape(critic.weight.shape)


@given(seed=seeds, num_outputs=st.sampled_from([1, A]))
def test_least_squares_equal_a_solver(seed, num_outputs):
    critic, inputs, weights, targets = problem(seed, num_outputs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_critics, "FIT_STEPS", 60)
        expected = solution(critic, inputs, weights, targets)
        errors = errors_of(critic, inputs, weights, targets)
        fit_least_squares(critic, inputs, weights, errors)
    np.testing.assert_allclose(critic.weight, expected, rtol=1e-3, atol=1e-3)


@given(seed=seeds)
def test_least_squares_of_indices_equal_one_hot_features(seed):
    critic, _, weights, targets = problem(seed)
    other, *_ = problem(seed)
    states = np.random.default_rng(seed).integers(F, size=B)
    one_hot = np.eye(F, dtype=np.float32)[states]
    errors = errors_of(critic, one_hot, weights, targets)
    fit_least_squares(critic, states, weights, errors)
    fit_least_squares(other, one_hot, weights, errors)
    np.testing.assert_allclose(critic.weight, other.weight, rtol=1e-3, atol=1e-3)


def test_value_of_a_state_is_the_mean_of_its_returns_and_prior():
    """By hand: 3 returns of a state and one sample's worth of its old value 2."""
    critic = linear_network(0, 3, num_outputs=1)
    critic.weight[:] = [[2.0, 7.0, 0.0]]
    states, returns = np.array([0, 0, 0, 2]), np.array([4.0, 6.0, 8.0, -3.0])
    errors = (returns - critic.weight[0, states]).astype(np.float32)
    fit_least_squares(critic, states, np.ones((4, 1), np.float32), errors)
    expected = [[(4 + 6 + 8 + 2) / 4, 7.0, -1.5]]
    assert_close(critic.weight, expected)


def loss_gradients(critic, inputs, weights, targets):
    """Differentiate half the mean squared error by autograd."""
    weights, targets = th.tensor(weights), th.tensor(targets)
    predicted = (weights * critic(th.tensor(inputs))).sum(dim=1)
    loss = 0.5 * (predicted - targets).square().mean()
    return th.autograd.grad(loss, list(critic.parameters()))


@given(seed=seeds)
def test_gradient_step_equals_autograd(seed):
    critic, *data = problem(seed)
    optimizer = th.optim.SGD(critic.parameters(), lr=0.1)
    (gradient,) = loss_gradients(critic, *data)
    expected = critic.output_layer.weight.detach() - 0.1 * gradient
    gradient_step(critic, optimizer, *data)
    th.testing.assert_close(critic.output_layer.weight.detach(), expected)


@given(seed=seeds, net_arch=st.sampled_from([[], [3]]), bias=st.booleans())
def test_gradient_step_of_a_network_equals_autograd(seed, net_arch, bias):
    _, *data = problem(seed)
    critic = torch_network(seed, net_arch, bias)
    gradients = loss_gradients(critic, *data)
    expected = [
        p.detach() - 0.1 * gradient
        for p, gradient in zip(critic.parameters(), gradients, strict=True)
    ]
    optimizer = th.optim.SGD(critic.parameters(), lr=0.1)
    inputs, weights, targets = data
    gradient_step(critic, optimizer, th.tensor(inputs), weights, targets)
    found = [p.detach() for p in critic.parameters()]
    th.testing.assert_close(found, expected)


class OtherAdam(th.optim.Adam):
    """An optimiser of a user's, whose steps are its own."""

    def step(self, closure=None):
        self.param_groups[0]["lr"] *= 0.9
        return super().step(closure)


def with_another_group(parameters, lr):
    other = th.nn.Parameter(th.zeros(2))
    other.grad = th.ones(2)
    return th.optim.Adam([{"params": parameters}, {"params": [other]}], lr=lr)


@pytest.mark.parametrize("make", [th.optim.Adam, OtherAdam, with_another_group])
def test_gradient_steps_by_adam_equal_torchs(make):
    """Over many steps, between which the matrix is fitted or rescaled as well."""
    ours, *data = problem(0)
    theirs = copy.deepcopy(ours)
    optimizer, reference = (make(list(c.parameters()), lr=0.1) for c in (ours, theirs))
    for step in range(40):
        (theirs.output_layer.weight.grad,) = loss_gradients(theirs, *data)
        reference.step()
        gradient_step(ours, optimizer, *data)
        if step % 10 == 9:
            rescale(ours, 0.5)
            with th.no_grad():
                theirs.output_layer.weight *= 0.5
    np.testing.assert_allclose(ours.weight, theirs.weight, rtol=1e-5, atol=1e-6)
    last = [o.param_groups[-1]["params"][0].detach() for o in (optimizer, reference)]
    th.testing.assert_close(*last)
    steps = [o.state_dict()["state"][0]["step"] for o in (optimizer, reference)]
    assert steps == [40, 40]


def test_rescaled_critic_has_scaled_outputs():
    critic, inputs = torch_network(0, [5], bias=True), th.randn(B, F)
    before = critic.outputs(inputs)
    rescale(critic, 4.0)
    np.testing.assert_array_equal(critic.outputs(inputs), 4 * before)
    matrix, features = linear_network(0), inputs.numpy()
    before = matrix.outputs(features)
    rescale(matrix, 4.0)
    np.testing.assert_array_equal(matrix.outputs(features), 4 * before)
