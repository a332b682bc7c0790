"""Models are fitted to what a solver finds, and at a rate by steps down the loss."""

import copy

import numpy as np
import pytest
import torch as th
from helpers.agents import assert_close, random_mlp
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from sas_agents.models import _mlp
from sas_agents.models._mlp import Dense, Indices, Mlp, fit_least_squares
from sas_agents.models._model import gradient_step

F, A, B = 4, 5, 40
seeds = st.integers(0, 10_000)


def problem(seed, num_outputs=A, bias=False):
    """A linear model, features, weights of its outputs, and targets."""
    rng = np.random.default_rng(seed)
    model = random_mlp(seed, [], bias, num_outputs)
    features = rng.standard_normal((B, F), dtype=np.float32)
    weights = rng.random((B, num_outputs), dtype=np.float32)
    return model, features, weights, 5 * rng.standard_normal(B, dtype=np.float32)


def rows_of(features, weights, bias):
    """What a prediction multiplies each parameter with, in all samples."""
    rows = features[:, :, None] * weights[:, None, :]
    parts = [rows.reshape(len(rows), -1), weights] if bias else [rows]
    return np.concatenate([part.reshape(B, -1) for part in parts], axis=1, dtype=float)


def errors_of(model, features, weights, targets, bias=False):
    """Targets minus the model's predictions."""
    predicted = rows_of(features, weights, bias) @ model.theta
    return (targets - predicted).astype(np.float32)


def solution(model, features, weights, targets, bias):
    """Minimise |targets - rows w|^2 + prior |w - w0|^2, with all rows written out."""
    rows = rows_of(features, weights, bias)
    prior = _mlp.PRIOR_SAMPLES * (rows**2).sum(axis=1).mean()
    start = model.theta.astype(np.float64)
    gram = rows.T @ rows + prior * np.eye(rows.shape[1])
    return start + np.linalg.solve(gram, rows.T @ (targets - rows @ start))


@given(seed=seeds, num_outputs=st.sampled_from([1, A]), bias=st.booleans())
def test_least_squares_equal_a_solver(seed, num_outputs, bias):
    model, features, weights, targets = problem(seed, num_outputs, bias)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_mlp, "FIT_STEPS", 60)
        expected = solution(model, features, weights, targets, bias)
        errors = errors_of(model, features, weights, targets, bias)
        fit_least_squares(model, Dense(features), weights, errors)
    np.testing.assert_allclose(model.theta, expected, rtol=1e-3, atol=1e-3)


@given(seed=seeds)
def test_least_squares_of_indices_equal_one_hot_features(seed):
    model, _, weights, targets = problem(seed)
    other, *_ = problem(seed)
    states = np.random.default_rng(seed).integers(F, size=B)
    one_hot = np.eye(F, dtype=np.float32)[states]
    errors = errors_of(model, one_hot, weights, targets)
    fit_least_squares(model, Indices(states, F), weights, errors)
    fit_least_squares(other, Dense(one_hot), weights, errors)
    np.testing.assert_allclose(model.theta, other.theta, rtol=1e-3, atol=1e-3)


def test_value_of_a_state_is_the_mean_of_its_returns_and_prior():
    """By hand: 3 returns of a state and one sample's worth of its old value 2."""
    model = Mlp(3, [], nn.Tanh, 1, bias=False)
    model.set_theta(np.array([2.0, 7.0, 0.0], np.float32))
    states, returns = np.array([0, 0, 0, 2]), np.array([4.0, 6.0, 8.0, -3.0])
    errors = (returns - model.theta[states]).astype(np.float32)
    fit_least_squares(model, Indices(states, 3), np.ones((4, 1), np.float32), errors)
    assert_close(model.theta, [(4 + 6 + 8 + 2) / 4, 7.0, -1.5])


@pytest.mark.parametrize("scale", [0.0, 1e-30])
def test_features_of_zero_leave_values_as_they_are(scale):
    """A dummy observation; squares of tiny features are 0 in single precision."""
    model, features, weights, targets = problem(0)
    before = model.theta.copy()
    fit_least_squares(model, Dense(scale * features), weights, targets)
    assert_close(model.theta, before)


def loss_and_gradients(model, features, weights, targets):
    """Differentiate half the mean squared error by autograd."""
    weights, targets = th.tensor(weights), th.tensor(targets)
    predicted = (weights * model(th.tensor(features))).sum(dim=1)
    loss = 0.5 * (predicted - targets).square().mean()
    return loss.item(), list(th.autograd.grad(loss, list(model.parameters())))


@given(
    seed=seeds,
    net_arch=st.sampled_from([[], [3]]),
    bias=st.booleans(),
    max_norm=st.sampled_from([np.inf, 100.0, 0.5]),
)
def test_gradient_step_equals_autograd(seed, net_arch, bias, max_norm):
    _, features, weights, targets = problem(seed)
    model = random_mlp(seed, net_arch, bias)
    before = [p.detach().clone() for p in model.parameters()]
    loss, gradients = loss_and_gradients(model, features, weights, targets)
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        parameter.grad = gradient
    th.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer = th.optim.SGD(model.parameters(), lr=0.1)
    optimizer.step()
    expected = model.theta.copy()
    th.nn.utils.vector_to_parameters(th.cat(before), model.parameters())
    inputs = Dense(features)
    found = gradient_step(model, optimizer, inputs, weights, targets, max_norm)
    assert found == pytest.approx(loss, rel=1e-4)
    np.testing.assert_allclose(model.theta, expected, rtol=1e-4, atol=1e-5)


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
    """Over many steps, between which the parameters are rescaled as well."""
    ours, features, weights, targets = problem(0)
    theirs = copy.deepcopy(ours)
    optimizer, reference = (make(list(c.parameters()), lr=0.1) for c in (ours, theirs))
    for step in range(40):
        _, gradients = loss_and_gradients(theirs, features, weights, targets)
        (theirs.vector.grad,) = gradients
        reference.step()
        gradient_step(ours, optimizer, Dense(features), weights, targets)
        if step % 10 == 9:
            ours.scale_outputs(0.5)
            with th.no_grad():
                theirs.vector *= 0.5
    np.testing.assert_allclose(ours.theta, theirs.theta, rtol=1e-5, atol=1e-6)
    last = [o.param_groups[-1]["params"][0].detach() for o in (optimizer, reference)]
    th.testing.assert_close(*last)
    steps = [o.state_dict()["state"][0]["step"] for o in (optimizer, reference)]
    assert steps == [40, 40]
