"""Intervals of means, differences and comparisons, as functions of arrays.

All are 95 % intervals that cover with few seeds: Student's t for a mean, Welch's for a
difference, Newcombe's fifth method for the probability of improvement, Wilson's for a
share. A *task* is a stratum: every task counts the same, with few seeds or many.

"Cover" holds for scores that are normal. A run that fails once in ten is not: of the
committed scores, t-intervals of 3 to 10 seeds hold the mean of 30 in 91 % of the cells
in the mean, and in 50 to 63 % in the worst cell. So few seeds are marked as rough.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

Floats = NDArray[np.float64]

LEVEL = 0.975
NORMAL = float(stats.norm.ppf(LEVEL))


class Estimate(NamedTuple):
    """A number and its 95 % interval, which is NaN where one seed gives none."""

    value: float
    low: float
    high: float


class Difference(NamedTuple):
    """A difference of two means, its 95 % interval and its two-sided p-value."""

    value: float
    low: float
    high: float
    p_value: float


def mean_interval(values: ArrayLike, shared_error: float = 0.0) -> Estimate:
    """Return the mean over seeds with Student's t-interval.

    Args:
        values: One number per seed.
        shared_error: Standard error that all of them have in common, such as the
            luck of episodes on which all were evaluated: their spread does not show it.

    Example:
        >>> [round(x, 2) for x in mean_interval([1.0, 2.0, 3.0])]
        [2.0, -0.48, 4.48]
    """
    return mean_over_tasks([values], [shared_error])


def mean_over_tasks(
    tasks: Sequence[ArrayLike], shared_errors: Sequence[float] | None = None
) -> Estimate:
    """Return the mean of the tasks' means, with a stratified t-interval.

    The variance within tasks counts, the one between them does not. The degrees of
    freedom are Satterthwaite's.

    Args:
        tasks: For each task one number per seed.
        shared_errors: For each task the standard error that its seeds share.
    """
    samples = [np.asarray(task, dtype=np.float64) for task in tasks]
    value = float(np.mean([sample.mean() for sample in samples]))
    error, freedom = _error(samples, len(samples))
    shared = _combined(shared_errors, len(samples))
    half = _half_width(error, freedom, shared)
    return Estimate(value, value - half, value + half)


def difference(x: ArrayLike, y: ArrayLike, shared_error: float = 0.0) -> Difference:
    """Return the difference of two means over seeds, with Welch's interval.

    Args:
        x: One number per seed.
        y: The same of the other.
        shared_error: Standard error of the difference that the spreads do not show.

    Example:
        >>> [round(x, 3) for x in difference([2.0, 3.0, 4.0], [1.0, 2.0, 3.0])]
        [1.0, -1.267, 3.267, 0.288]
    """
    return difference_over_tasks([x], [y], [shared_error])


def difference_over_tasks(
    x: Sequence[ArrayLike],
    y: Sequence[ArrayLike],
    shared_errors: Sequence[float] | None = None,
) -> Difference:
    """Return the mean over tasks of the differences, with a stratified interval.

    Args:
        x: For each task one number per seed.
        y: The same of the other, on the same tasks.
        shared_errors: For each task the standard error that the spreads do not show.
    """
    check_same_tasks(x, y)
    samples = [np.asarray(task, dtype=np.float64) for task in (*x, *y)]
    means = np.array([sample.mean() for sample in samples]).reshape(2, -1)
    value = float((means[0] - means[1]).mean())
    error, freedom = _error(samples, len(x))
    shared = _combined(shared_errors, len(x))
    half = _half_width(error, freedom, shared)
    total = float(np.hypot(error, shared))
    if np.isnan(total):
        p_value = float("nan")
    elif total == 0:
        p_value = float(value == 0)
    else:
        p_value = 2 * float(stats.t.sf(abs(value) / total, freedom))
    return Difference(value, value - half, value + half, p_value)


def _error(samples: list[Floats], num_tasks: int) -> tuple[float, float]:
    """Return the standard error of a mean over tasks, and its degrees of freedom."""
    sizes = np.array([len(sample) for sample in samples])
    if sizes.min() < 2:
        return float("nan"), float("nan")
    variances = np.array([sample.var(ddof=1) for sample in samples]) / sizes
    total = variances.sum()
    if total == 0:
        return 0.0, float((sizes - 1).sum())
    freedom = total**2 / (variances**2 / (sizes - 1)).sum()
    return float(np.sqrt(total)) / num_tasks, float(freedom)


def _combined(errors: Sequence[float] | None, num_tasks: int) -> float:
    """Return the standard error of a mean over tasks from the errors of the tasks."""
    if errors is None:
        return 0.0
    return float(np.sqrt(np.square(errors).sum())) / num_tasks


def _half_width(error: float, freedom: float, shared: float) -> float:
    if np.isnan(error):
        return float("nan")
    return float(np.hypot(stats.t.ppf(LEVEL, freedom) * error, NORMAL * shared))


def probability_of_improvement(
    x: Sequence[ArrayLike], y: Sequence[ArrayLike]
) -> Estimate:
    """Return the chance that a run of X beats one of Y on a task drawn at random.

    It is the Mann-Whitney statistic of each task over the number of pairs; a draw
    counts one half. The interval is Newcombe's (2006), method 5, with the
    variances of the tasks added up and Student's quantile: it covers where all runs of
    X beat all of Y, too, and with three seeds.

    Args:
        x: For each task the scores of X over seeds.
        y: The same of Y, on the same tasks.
    """
    check_same_tasks(x, y)
    pairs = [(np.asarray(a), np.asarray(b)) for a, b in zip(x, y, strict=True)]
    sizes = [(len(a), len(b)) for a, b in pairs]
    gaps = [np.subtract.outer(a, b) for a, b in pairs]
    shares = [np.heaviside(gap, 0.5).mean() for gap in gaps]
    value = float(np.mean(shares))
    if min(min(pair) for pair in sizes) < 2:
        return Estimate(value, float("nan"), float("nan"))

    quantile = stats.t.ppf(LEVEL, sum(m + n - 2 for m, n in sizes))

    def gap(chance: float) -> float:
        variance = sum(_variance_of_share(chance, m, n) for m, n in sizes)
        return float((value - chance) ** 2 - quantile**2 * variance / len(sizes) ** 2)

    return Estimate(value, _root(gap, 0.0, value), _root(gap, 1.0, value))


def _variance_of_share(chance: float, m: int, n: int) -> float:
    """Return the variance of a Mann-Whitney share (Hanley and McNeil, 1982)."""
    pairs = (m + n) / 2 - 1
    factor = 1 + pairs * (1 - chance) / (2 - chance) + pairs * chance / (1 + chance)
    return chance * (1 - chance) * factor / (m * n)


def _root(function: Callable[[float], float], end: float, value: float) -> float:
    """Return where a function changes its sign between an end of [0, 1] and a value."""
    if value == end:
        return end
    # At the value itself the function may be 0, when it is the other end.
    near = value + 1e-9 * (end - value)
    if function(near) >= 0:
        return value
    return float(optimize.brentq(function, end, near))


def performance_profile(scores: Sequence[ArrayLike], thresholds: ArrayLike) -> Floats:
    """Return the share of runs above each threshold, every task counting the same.

    Example:
        >>> performance_profile([[0.2, 0.9], [1.0, 1.0]], [0.5, 0.95])
        array([0.75, 0.5 ])
    """
    limits = np.asarray(thresholds, dtype=np.float64)
    shares = [(np.asarray(entry)[:, None] > limits).mean(axis=0) for entry in scores]
    profile: Floats = np.mean(shares, axis=0)
    return profile


def profile_band(
    scores: Sequence[ArrayLike], thresholds: ArrayLike
) -> tuple[Floats, Floats]:
    """Return the pointwise 95 % band of a profile: Wilson's interval of a share."""
    share = performance_profile(scores, thresholds)
    number = len(scores) ** 2 / sum(1 / len(np.asarray(entry)) for entry in scores)
    square = NORMAL**2 / number
    centre = (share + square / 2) / (1 + square)
    spread = np.sqrt(square * share * (1 - share) + square**2 / 4) / (1 + square)
    return np.maximum(centre - spread, 0.0), np.minimum(centre + spread, 1.0)


def holm(p_values: ArrayLike) -> Floats:
    """Correct p-values for their number, by Holm's method; NaN stays.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        array([0.03, 0.06, 0.06])
    """
    values = np.asarray(p_values, dtype=np.float64)
    corrected = values.copy()
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.argsort(values[known], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(values[order] * factors), 1.0)
    return corrected


def check_same_tasks(x: Sequence[ArrayLike], y: Sequence[ArrayLike]) -> None:
    """Raise a `ValueError` if two algorithms have different numbers of tasks."""
    if len(x) != len(y):
        raise ValueError(f"X has {len(x)} tasks and Y has {len(y)}: compare the same")
