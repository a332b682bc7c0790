"""What results amount to: robust means with intervals, comparisons, profiles.

The measures are those of Agarwal et al. (2021), "Deep Reinforcement Learning at the
Edge of the Statistical Precipice". A *task* here is an environment with its variant, a
stratum of the bootstrap; scores are 0 for random play and 1 for the optimum.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

Floats = NDArray[np.float64]
TASK = ["environment", "variant"]
NUM_RESAMPLES = 2000
THRESHOLDS = 0.5, 0.9, 0.95, 0.99


class Estimate(NamedTuple):
    """A number and its 95 % bootstrap interval."""

    value: float
    low: float
    high: float


def final_rows(results: pd.DataFrame) -> pd.DataFrame:
    """Return the final evaluation of each run."""
    return results.loc[results.groupby("key", sort=False)["step"].idxmax()]


def scores_by_task(results: pd.DataFrame, label: str) -> list[Floats]:
    """Return the final scores of an algorithm: for each task an array over seeds."""
    return _by_task(results[results.score.notna()], label, "score")


def _by_task(results: pd.DataFrame, label: str, column: str) -> list[Floats]:
    """Return a column of the final evaluations: for each task an array over seeds."""
    groups = final_rows(results[results.label == label]).groupby(TASK, sort=True)
    return [group[column].to_numpy(dtype=np.float64) for _, group in groups]


def interquartile_mean(scores: ArrayLike, axis: int = -1) -> Any:
    """Return the mean of the middle half.

    Example:
        >>> float(interquartile_mean([0.0, 1.0, 2.0, 100.0]))
        1.5
    """
    return stats.trim_mean(np.asarray(scores), 0.25, axis=axis)


def aggregate(
    scores: Sequence[ArrayLike],
    statistic: Callable[..., Any] = interquartile_mean,
    num_resamples: int = NUM_RESAMPLES,
) -> Estimate:
    """Return a statistic over all tasks and seeds, with a stratified interval.

    Seeds are drawn again within each task, so that every resample has each task as
    often as the study has.

    Args:
        scores: For each task an array over seeds.
        statistic: Takes an array and the axis of the runs.
        num_resamples: Number of bootstrap resamples.
    """

    def joined(*samples: Floats, axis: int = -1) -> Any:
        return statistic(np.concatenate(samples, axis=axis), axis=axis)

    return _bootstrapped([np.asarray(entry) for entry in scores], joined, num_resamples)


def probability_of_improvement(
    x: Sequence[ArrayLike], y: Sequence[ArrayLike], num_resamples: int = NUM_RESAMPLES
) -> Estimate:
    """Return the chance that a run of X beats one of Y on a task drawn at random.

    It is the Mann-Whitney statistic of each task over the number of pairs; a draw
    counts one half.

    Args:
        x: For each task the scores of X over seeds.
        y: The same of Y, on the same tasks.
        num_resamples: Number of bootstrap resamples.
    """
    if len(x) != len(y):
        raise ValueError(f"X has {len(x)} tasks and Y has {len(y)}: compare the same")
    num_tasks = len(x)

    def wins(*samples: Floats, axis: int = -1) -> Any:
        moved = [np.moveaxis(sample, axis, -1) for sample in samples]
        shares = []
        for ours, theirs in zip(moved[:num_tasks], moved[num_tasks:], strict=True):
            gap = ours[..., :, None] - theirs[..., None, :]
            shares.append(np.heaviside(gap, 0.5).mean(axis=(-2, -1)))
        return np.mean(shares, axis=0)

    samples = [np.asarray(entry, dtype=np.float64) for entry in (*x, *y)]
    return _bootstrapped(samples, wins, num_resamples)


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
    scores: Sequence[ArrayLike], thresholds: ArrayLike, num_resamples: int = 500
) -> tuple[Floats, Floats]:
    """Return the pointwise 95 % stratified bootstrap band of a profile."""
    rng = np.random.default_rng(0)
    arrays = [np.asarray(entry) for entry in scores]
    profiles = [
        performance_profile(
            [rng.choice(entry, size=len(entry)) for entry in arrays], thresholds
        )
        for _ in range(num_resamples)
    ]
    low, high = np.quantile(profiles, [0.025, 0.975], axis=0)
    return low, high


def _bootstrapped(
    samples: list[Floats], statistic: Callable[..., Any], num_resamples: int
) -> Estimate:
    """Resample each of several samples by itself (SciPy's multi-sample bootstrap)."""
    value = float(statistic(*samples))
    if not samples or min(map(len, samples)) < 2:
        return Estimate(value, np.nan, np.nan)
    if all(np.ptp(sample) == 0 for sample in samples):
        return Estimate(value, value, value)
    interval = stats.bootstrap(
        samples,
        statistic,
        n_resamples=num_resamples,
        vectorized=True,
        # A few hundred resamples at a time: pairs of seeds need memory.
        batch=500,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return Estimate(value, float(interval.low), float(interval.high))


def final_table(results: pd.DataFrame) -> pd.DataFrame:
    """Return the final return of each task and algorithm, over seeds."""
    rows = []
    groups = final_rows(results).groupby([*TASK, "label"], sort=False)
    for (environment, variant, label), group in groups:
        known = group.score.notna().all()
        score = aggregate([group.score.to_numpy()]) if known else None
        rows.append(
            {
                "environment": environment,
                "availability": variant,
                "algorithm": label,
                "seeds": len(group),
                "mean return": group.mean_return.mean(),
                "standard deviation": group.mean_return.std(ddof=1),
                "optimum": group.optimal.iloc[0],
                "IQM score": score.value if score else np.nan,
                "low": score.low if score else np.nan,
                "high": score.high if score else np.nan,
                "seconds": group.seconds.mean(),
            }
        )
    return pd.DataFrame(rows).sort_values(
        ["environment", "availability"], kind="stable", ignore_index=True
    )


def aggregate_table(results: pd.DataFrame) -> pd.DataFrame:
    """Return the interquartile mean score of each algorithm over all tasks."""
    rows = []
    for label in results.label.unique():
        scores = scores_by_task(results, label)
        if scores:
            runs = sum(map(len, scores))
            rows.append((label, len(scores), runs, *aggregate(scores)))
    columns = ["algorithm", "tasks", "runs", "IQM score", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def improvement_table(results: pd.DataFrame) -> pd.DataFrame:
    """Return the probability of improvement of each algorithm X over each Y.

    Two algorithms are compared on the tasks that both were run on, by their returns:
    a task needs no known optimum for it.
    """
    rows = []
    labels = list(results.label.unique())
    for i, x in enumerate(labels):
        for y in labels[i + 1 :]:
            both = _common_tasks(results, x, y)
            if len(both):
                ours, theirs = (
                    _by_task(both, label, "mean_return") for label in (x, y)
                )
                estimate = probability_of_improvement(ours, theirs)
                rows.append((x, y, *estimate))
    return pd.DataFrame(rows, columns=["X", "Y", "P(X > Y)", "low", "high"])


def _common_tasks(results: pd.DataFrame, x: str, y: str) -> pd.DataFrame:
    of_both = results[results.label.isin([x, y])]
    return of_both.groupby(TASK).filter(lambda task: task.label.nunique() == 2)


def efficiency_table(
    results: pd.DataFrame, thresholds: Sequence[float] = THRESHOLDS
) -> pd.DataFrame:
    """Return how many steps it takes to a score, the median over seeds.

    A seed counts from its first evaluation with that score; one that never has it
    counts as infinitely slow. A task without a known optimum has no scores, and no row.
    """
    names = [f"steps to {threshold:.0%}" for threshold in thresholds]
    rows = []
    for (environment, variant, label), group in results.groupby(
        [*TASK, "label"], sort=False
    ):
        if group.score.isna().any():
            continue
        runs = [run for _, run in group.groupby("key")]
        medians = [
            float(np.median([steps_to(run, threshold) for run in runs]))
            for threshold in thresholds
        ]
        rows.append((environment, variant, label, *medians))
    columns = ["environment", "availability", "algorithm", *names]
    return pd.DataFrame(rows, columns=columns).sort_values(
        ["environment", "availability"], kind="stable", ignore_index=True
    )


def steps_to(run: pd.DataFrame, threshold: float) -> float:
    """Return the first step at which a run has a score, or infinity."""
    reached = run.loc[run.score >= threshold, "step"]
    return float(reached.min()) if len(reached) else np.inf
