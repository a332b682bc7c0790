"""Statistical bounds, each with its error rate."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

# Probability that a right implementation fails a test that uses one of these bounds.
# Seeds are fixed, so a test that passes once passes always.
ERROR_RATE = 1e-6


def assert_frequencies(counts: ArrayLike, probabilities: ArrayLike) -> None:
    """Chi-square test of counts; what has probability 0 must not occur."""
    observed, expected = np.ravel(counts), np.ravel(probabilities)
    assert np.isclose(expected.sum(), 1.0)
    assert not observed[expected == 0].any()
    possible = expected > 0
    if possible.sum() > 1:
        mean = expected[possible] * observed.sum()
        p_value = stats.chisquare(observed[possible], mean).pvalue
        assert p_value > ERROR_RATE, p_value


def assert_mean(samples: NDArray[np.float64], expected: float) -> None:
    """Two-sided z-test of a mean."""
    standard_error = samples.std(ddof=1) / np.sqrt(len(samples))
    bound = stats.norm.isf(ERROR_RATE / 2) * standard_error
    assert abs(samples.mean() - expected) <= bound, (samples.mean(), expected, bound)


def assert_mean_at_most(samples: NDArray[np.float64], limit: float) -> None:
    """One-sided z-test of a mean that must not lie above a limit."""
    standard_error = samples.std(ddof=1) / np.sqrt(len(samples))
    bound = limit + stats.norm.isf(ERROR_RATE) * standard_error
    assert samples.mean() <= bound, (samples.mean(), limit, standard_error)


def set_numbers(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Number each set by its bits, as `subsets` orders them."""
    return mask.astype(np.int64) @ (1 << np.arange(mask.shape[1]))
