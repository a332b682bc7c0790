"""Each form that is there for speed equals its plain twin."""

import copy

import numpy as np
import pytest
import torch as th
from hypothesis import given
from hypothesis import strategies as st

from sas_agents._fast import (
    column_sums,
    row_dots,
    take_step,
    take_steps,
    weighted_exponentials,
)

NUM_STEPS = 50


@pytest.mark.parametrize("length", [1, 63, 64, 200])
def test_row_dots_of_short_and_long_rows(length):
    rng = np.random.default_rng(0)
    one, other = rng.standard_normal((2, 7, length), dtype=np.float32)
    found = row_dots(one, other)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, (one * other).sum(axis=1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("num_rows", [1, 100])
def test_column_sums(num_rows):
    values = np.random.default_rng(0).standard_normal((num_rows, 7), dtype=np.float32)
    np.testing.assert_allclose(column_sums(values), values.sum(axis=0), atol=1e-5)


@pytest.mark.parametrize("shape", [(), (3,), (2, 4)])
def test_steps_are_taken_as_by_brackets(shape):
    rng = np.random.default_rng(0)
    array = rng.random((20, 5, *shape))
    steps, envs = rng.integers(20, size=30), rng.integers(5, size=30)
    np.testing.assert_array_equal(take_steps(array, steps, envs), array[steps, envs])


def plain_exponentials(weights, logits):
    """In double precision, divided by the largest logit whose weight is not 0."""
    shift = np.where(weights > 0, logits, -np.inf).max(axis=1).astype(float)
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.where(weights > 0, weights * np.exp(logits - shift[:, None]), 0.0)
    return values, shift + np.log(values.sum(axis=1))


@given(
    seed=st.integers(0, 10**6),
    size=st.sampled_from([0.1, 59.0, 61.0, 1e4, 1e30]),
    is_policy=st.booleans(),
)
def test_weighted_exponentials(seed, size, is_policy):
    rng = np.random.default_rng(seed)
    logits = (size * rng.uniform(-1, 1, (20, 6))).astype(np.float32)
    mask = (rng.random((20, 6)) < 0.5) | (np.arange(6) == 0)
    weights = (rng.random((20, 6)) + 0.1 if is_policy else 1.0) * mask
    weights = weights.astype(np.float32 if is_policy else np.int8)
    values, log_totals = plain_exponentials(weights, logits)
    found, totals, logs = weighted_exponentials(weights, logits)
    expected = values / values.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found / totals[:, None], expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(logs, log_totals, rtol=1e-5, atol=1e-4)


def matrix(seed=0):
    generator = th.Generator().manual_seed(seed)
    return th.nn.Parameter(th.randn(3, 4, generator=generator))


def gradients(seed=0):
    """Gradients of very different sizes, as the rows of a policy have."""
    generator = th.Generator().manual_seed(seed)
    sizes = th.logspace(-6, 3, 12).view(3, 4)
    return sizes * th.randn(NUM_STEPS, 3, 4, generator=generator)


def run(optimizer, parameters, step, some_gradients):
    for gradient in some_gradients:
        for parameter in parameters:
            parameter.grad = gradient.clone()
        step(optimizer)


def torch_step(optimizer):
    optimizer.step()


@given(
    seed=st.integers(0, 1000),
    rate=st.sampled_from([1e-4, 0.05, 1.0]),
    betas=st.sampled_from([(0.9, 0.999), (0.0, 0.5), (0.99, 0.9)]),
    eps=st.sampled_from([1e-8, 1e-3]),
)
def test_adam_on_a_matrix_is_torchs(seed, rate, betas, eps):
    ours, theirs = matrix(seed), matrix(seed)
    for parameter, step in ((ours, take_step), (theirs, torch_step)):
        optimizer = th.optim.Adam([parameter], lr=rate, betas=betas, eps=eps)
        run(optimizer, [parameter], step, gradients(seed))
    th.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5 * rate)


def test_adam_on_a_matrix_is_not_left_to_torch(monkeypatch):
    """Else the comparison above would compare torch with itself."""
    calls, parameter = [], matrix()
    optimizer = th.optim.Adam([parameter])
    step = optimizer.step
    monkeypatch.setattr(optimizer, "step", lambda: calls.append(step()))
    run(optimizer, [parameter], take_step, gradients())
    assert len(calls) == 1  # torch takes the first, and makes the moments


def test_a_saved_optimiser_continues_with_either_step():
    """Half the way by our step, saved, the rest by torch's; or all by torch's."""
    ours, theirs = matrix(), matrix()
    before, after = gradients()[:25], gradients()[25:]
    first = th.optim.Adam([ours], lr=0.1)
    run(first, [ours], take_step, before)
    second = th.optim.Adam([ours], lr=0.5)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    run(second, [ours], torch_step, after)
    reference = th.optim.Adam([theirs], lr=0.1)
    run(reference, [theirs], torch_step, [*before, *after])
    th.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    mine, expected = second.state_dict(), reference.state_dict()
    assert mine["state"][0].keys() == expected["state"][0].keys()
    assert mine["state"][0]["step"] == NUM_STEPS
    for moment in ("exp_avg", "exp_avg_sq"):
        th.testing.assert_close(mine["state"][0][moment], expected["state"][0][moment])


@pytest.mark.parametrize(
    ("optimizer_class", "options"),
    [
        (th.optim.SGD, {}),
        (th.optim.AdamW, {}),
        (th.optim.RMSprop, {}),
        (th.optim.Adam, {"weight_decay": 0.1}),
        (th.optim.Adam, {"amsgrad": True}),
        (th.optim.Adam, {"maximize": True}),
    ],
)
def test_other_optimisers_take_their_own_step(optimizer_class, options):
    ours, theirs = matrix(), matrix()
    for parameter, step in ((ours, take_step), (theirs, torch_step)):
        optimizer = optimizer_class([parameter], lr=0.1, **options)
        run(optimizer, [parameter], step, gradients())
    assert th.equal(ours, theirs)


def test_adam_on_several_parameters_is_torchs_own():
    pairs = [matrix(), matrix(1)], [matrix(), matrix(1)]
    for parameters, step in zip(pairs, (take_step, torch_step), strict=True):
        run(th.optim.Adam(parameters, lr=0.1), parameters, step, gradients())
    for ours, theirs in zip(*pairs, strict=True):
        assert th.equal(ours, theirs)


def test_the_first_step_has_the_length_of_the_rate():
    """Kingma and Ba: whatever the gradient's size, as both moments are corrected."""
    parameter = matrix()
    start = parameter.detach().clone()
    optimizer = th.optim.Adam([parameter], lr=0.1, eps=1e-12)
    for _ in range(3):  # all of them, where the gradient stays as it is
        parameter.grad = th.full((3, 4), 5.0)
        take_step(optimizer)
    np.testing.assert_allclose((start - parameter.detach()).numpy(), 0.3, rtol=1e-5)
