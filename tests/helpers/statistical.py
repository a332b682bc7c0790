"""Statistical bounds, each with its error rate."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

# Chance that a right implementation fails a test that uses one of these bounds. Seeds
# are fixed, so a test that passes once passes always.
ERROR_RATE = 1e-6


def assert_frequencies(counts: ArrayLike, probabilities: ArrayLike) -> None:
    """Chi-square test of counts against a law; what it excludes must not occur."""
    observed, law = np.ravel(counts), np.ravel(probabilities)
    assert np.isclose(law.sum(), 1.0)
    assert not observed[law == 0].any()
    possible = law > 0
    if possible.sum() > 1:
        expected = law[possible] * observed.sum()
        p_value = stats.chisquare(observed[possible], expected).pvalue
        assert p_value > ERROR_RATE, p_value


def assert_mean(samples: NDArray[np.float64], expected: float) -> None:
    """Two-sided z-test of a mean."""
    standard_error = samples.std(ddof=1) / np.sqrt(len(samples))
    bound = stats.norm.isf(ERROR_RATE / 2) * standard_error
    assert abs(samples.mean() - expected) <= bound, (samples.mean(), expected, bound)


def set_numbers(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Number each set by its bits, [N, A] to [N]."""
    return mask.astype(np.int64) @ (1 << np.arange(mask.shape[1]))


def all_masks(num_actions: int) -> NDArray[np.bool_]:
    """Every subset of the actions in the order of `set_numbers`, [2 ** A, A]."""
    numbers = np.arange(1 << num_actions)
    return (numbers[:, None] >> np.arange(num_actions) & 1).astype(bool)


def independent_law(p: ArrayLike) -> NDArray[np.float64]:
    """Probability of every subset under independence, given that it is not empty."""
    p = np.asarray(p)
    law = np.where(all_masks(len(p)), p, 1 - p).prod(axis=1)
    law[0] = 0.0
    return law / law.sum()
