"""Softmaxes are right to single precision, however large the logits or their change."""

import numpy as np
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st

from sas_agents._fast import changed_policy, masked_softmax, weighted_exponentials
from sas_agents.maths._estimators import mean_entropy

NUM_ROWS = 4


@st.composite
def softmax_cases(draw, most_actions=40):
    """Draw logits of one size, and others for what is available or unavailable.

    So the unavailable ones may be by far the largest, or the available ones hugely
    negative.
    """
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    shape = (NUM_ROWS, draw(st.integers(1, most_actions)))
    masks = rng.random(shape) < draw(st.sampled_from([0.0, 0.2, 1.0]))
    masks[np.arange(NUM_ROWS), rng.integers(shape[1], size=NUM_ROWS)] = True
    size = draw(st.sampled_from([1.0, 59.9, 60.1, 300.0, 1e4]))
    levels = st.sampled_from([0.0, 0.0, -1e4, 1e4])
    logits = rng.uniform(-size, size, shape) + np.where(
        masks, *draw(st.tuples(levels, levels))
    )
    return logits.clip(-1e4, 1e4).astype(np.float32), masks.astype(np.int8)


def assert_same_probs(found, expected, smallest=0.0):
    # A difference of logits of up to 87, beyond which the exponential is 0, is right to
    # 6e-8 of its size.
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-37 + smallest)


@given(case=softmax_cases())
def test_masked_softmax_equals_double_precision(case):
    logits, masks = case
    before, available = logits.copy(), np.where(masks, logits.astype(float), -np.inf)
    probs, log_totals = masked_softmax(logits, masks)
    assert probs.dtype == log_totals.dtype == np.float32
    expected = scipy.special.softmax(available, axis=1)
    assert_same_probs(probs, expected)
    assert (probs[masks == 0] == 0).all()
    expected = scipy.special.logsumexp(available, axis=1)
    np.testing.assert_allclose(log_totals, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(logits, before)


@given(case=softmax_cases(), seed=st.integers(0, 10**6))
def test_weighted_exponentials_equal_double_precision(case, seed):
    """With an earlier policy for weights, whose rarest action may become the best."""
    logits, masks = case
    rng = np.random.default_rng(seed)
    weights = masks * 10 ** rng.uniform(-20, 0, masks.shape)
    weights = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    found, totals, log_totals = weighted_exponentials(weights, logits)
    exact, b = logits.astype(float), weights.astype(float)
    with np.errstate(divide="ignore"):
        expected = scipy.special.softmax(exact + np.log(b), axis=1)
    # What underflows, at 1e-38, may be divided by a weight of only 1e-22.
    np.testing.assert_allclose(found / totals[:, None], expected, rtol=1e-5, atol=1e-16)
    np.testing.assert_allclose(totals, found.sum(axis=1, dtype=float), rtol=1e-6)
    expected = scipy.special.logsumexp(exact, axis=1, b=b)
    np.testing.assert_allclose(log_totals, expected, rtol=1e-6, atol=1e-5)


def test_exponentials_are_divided_by_a_factor_only_where_logits_are_large():
    """The factor is that of the largest available one; large ones lie beyond 60."""
    mask = np.array([[1, 1, 0]])
    for logits in ([1.0, 2.0, 59.0], [-59.0, -58.0, 3.0]):
        found, *_ = weighted_exponentials(mask, np.array([logits]))
        np.testing.assert_allclose(found, [[*np.exp(logits[:2]), 0.0]])
    for logits in ([1.0, 2.0, 61.0], [-61.0, -60.0, 3.0], [61.0, 62.0, -1e4]):
        found, totals, log_totals = weighted_exponentials(mask, np.array([logits]))
        np.testing.assert_allclose(found, [[np.exp(-1), 1.0, 0.0]])
        np.testing.assert_allclose(totals, 1 + np.exp(-1))
        np.testing.assert_allclose(log_totals, logits[1] + np.log(1 + np.exp(-1)))


@given(case=softmax_cases())
def test_large_logits_of_a_row_leave_others_as_they_are(case):
    logits, masks = case
    logits = (logits / 200).astype(np.float32)
    large = np.full((1, logits.shape[1]), -1e4, np.float32)
    probs, log_totals = masked_softmax(logits, masks)
    found = masked_softmax(
        np.concatenate([logits, large]), np.concatenate([masks, masks[:1]])
    )
    assert_same_probs(found[0][:-1], probs)
    np.testing.assert_allclose(found[1][:-1], log_totals, rtol=1e-6, atol=1e-6)


def exact_log_probs(logits, masks):
    available = np.where(masks, logits.astype(float), -np.inf)
    return scipy.special.log_softmax(available, axis=1)


@given(
    case=softmax_cases(),
    size=st.sampled_from([1e-3, 1.0, 59.0, 61.0, 200.0, 1000.0]),
    level=st.sampled_from([0.0, 50.0, -1000.0, 1000.0]),
    seed=st.integers(0, 10**6),
)
def test_changed_policy_is_the_softmax_of_the_new_logits(case, size, level, seed):
    """And its divergence is that of both policies; what is added to all is nothing."""
    logits, masks = case
    # So that no available action has a probability of 0, which no change would raise.
    logits = np.float32(1e-3) * logits
    draws = np.random.default_rng(seed).uniform(-size, size, masks.shape)
    change = (draws + level).astype(np.float32)
    probs, _ = masked_softmax(logits, masks)
    policy = changed_policy(probs, change)
    old = exact_log_probs(logits, masks)
    new = exact_log_probs(logits.astype(float) + change, masks)
    found = policy.weights / policy.totals[:, None]
    # Weights below 1e-38 are multiples of 2^-149, rounded twice, over the totals.
    assert_same_probs(found, np.exp(new), 2 * 2.0**-149 / float(policy.totals.min()))
    assert (found[masks == 0] == 0).all()
    old, new = old[masks == 1], new[masks == 1]
    divergence = (np.exp(old) * (old - new)).sum() / NUM_ROWS
    # A difference of two numbers of the size of the change, and of logs near log 1.
    rounding = 5e-7 * float(np.abs(change).max()) + 2e-7
    assert policy.kl == pytest.approx(divergence, rel=1e-5, abs=rounding)


def test_divergence_of_a_change_by_hand():
    """It is 1/2 log(1/2 / 1/4) + 1/2 log(1/2 / 3/4), and 0 for the same policy."""
    old = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    change = np.array([[np.log(0.25 / 0.5), np.log(0.75 / 0.5), 7.0], [3.0, 0.0, 0.0]])
    policy = changed_policy(old, change)
    assert policy.kl == pytest.approx((0.5 * np.log(2) + 0.5 * np.log(2 / 3)) / 2)
    found = policy.weights / policy.totals[:, None]
    np.testing.assert_allclose(found, [[0.25, 0.75, 0.0], [1.0, 0.0, 0.0]])
    assert changed_policy(old, np.zeros((2, 3))).kl == 0.0


@given(case=softmax_cases())
def test_mean_entropy_equals_double_precision(case):
    logits, masks = case
    found = mean_entropy(logits, *masked_softmax(logits, masks))
    log_probs = exact_log_probs(logits, masks)[masks == 1]
    expected = -(np.exp(log_probs) * log_probs).sum() / NUM_ROWS
    # A difference of two numbers that are as large as the available logits are.
    rounding = 5e-7 * float(1 + np.abs(logits[masks == 1]).max())
    assert found == pytest.approx(expected, rel=1e-5, abs=rounding)
