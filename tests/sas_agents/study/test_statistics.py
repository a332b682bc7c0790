"""Statistics against numbers worked out by hand and closed forms."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sas_agents.study.statistics import (
    aggregate,
    efficiency_table,
    final_table,
    improvement_table,
    interquartile_mean,
    performance_profile,
    probability_of_improvement,
    profile_band,
    scores_by_task,
)


def table(scores: dict[tuple[str, str], list[list[float]]]) -> pd.DataFrame:
    """Return a table of results: by task and label, for each seed a curve."""
    rows = [
        {
            "key": f"{variant}{label}{seed}",
            "environment": "E",
            "variant": variant,
            "label": label,
            "seed": seed,
            "step": 100 * i,
            "score": score,
            "mean_return": 10 * score,
            "optimal": 10.0,
            "random": 0.0,
            "seconds": 1.0,
        }
        for (variant, label), curves in scores.items()
        for seed, curve in enumerate(curves)
        for i, score in enumerate(curve)
    ]
    return pd.DataFrame(rows)


def test_interquartile_mean_leaves_a_quarter_off_each_end() -> None:
    """Of eight numbers the middle four count, whatever the others are."""
    assert interquartile_mean([-99, 0, 1, 2, 3, 4, 5, 1e9]) == 2.5
    both = interquartile_mean(np.array([[0, 1, 2, 9], [9, 5, 7, 0]]), axis=1)
    assert both.tolist() == [1.5, 6.0]


def test_mean_interval_has_the_width_of_the_closed_form() -> None:
    """For the mean of two tasks the interval is the normal one, stratified.

    The variance within tasks counts, the large one between them does not.
    """
    rng = np.random.default_rng(1)
    tasks = [rng.normal(0, 1, 400), rng.normal(100, 1, 400)]
    estimate = aggregate(tasks, np.mean)
    error = np.sqrt(sum(task.var() for task in tasks) / 400) / 2
    assert estimate.value == pytest.approx(np.mean(tasks))
    assert estimate.high - estimate.low == pytest.approx(2 * 1.96 * error, rel=0.1)


def test_probability_of_improvement_counts_pairs() -> None:
    """By hand: 3 of 4 pairs, and 1 win with 2 draws of 4; the mean of both tasks."""
    estimate = probability_of_improvement([[1, 4], [1, 2]], [[0, 3], [1, 2]])
    assert estimate.value == pytest.approx((3 / 4 + (1 + 2 / 2) / 4) / 2)
    x, y = np.random.default_rng(0).normal(size=(2, 30))
    expected = stats.mannwhitneyu(x, y).statistic / 900
    found = probability_of_improvement([x], [y])
    assert found.value == pytest.approx(expected)
    assert 0 <= found.low < found.value < found.high <= 1


def test_sure_improvement_has_no_interval() -> None:
    """Where all runs of X beat all of Y, every resample says so."""
    estimate = probability_of_improvement([[2, 3], [5, 6]], [[0, 1], [1, 2]])
    assert tuple(estimate) == (1.0, 1.0, 1.0)


def test_one_seed_has_no_interval() -> None:
    """From one seed nothing can be said of the spread."""
    estimate = aggregate([[0.5]])
    assert estimate.value == 0.5
    assert np.isnan([estimate.low, estimate.high]).all()


def test_profile_counts_tasks_alike() -> None:
    """A task with many seeds does not outweigh one with few."""
    profile = performance_profile([[0.9], [0.1, 0.1, 0.1]], [0.0, 0.5, 1.0])
    assert profile.tolist() == [1.0, 0.5, 0.0]


def test_profile_band_has_the_binomial_width() -> None:
    """The band of a share is that of a binomial."""
    scores = np.linspace(0, 1, 400)
    low, high = profile_band([scores], [0.5], num_resamples=2000)
    assert high - low == pytest.approx(2 * 1.96 * 0.5 / np.sqrt(400), rel=0.15)


def test_final_scores_are_those_of_the_last_step() -> None:
    """Early points of a curve do not count as final."""
    results = table({("0.8", "A"): [[0.1, 0.9], [0.2, 0.7]]})
    (scores,) = scores_by_task(results, "A")
    assert scores.tolist() == [0.9, 0.7]
    row = final_table(results).iloc[0]
    assert row["mean return"] == pytest.approx(8.0)
    assert row["standard deviation"] == pytest.approx(np.sqrt(2))
    assert (row.seeds, row["IQM score"]) == (2, pytest.approx(0.8))


def test_comparison_is_on_common_tasks() -> None:
    """A task that only one of two algorithms was run on does not count."""
    results = table(
        {
            ("0.8", "A"): [[0.0, 0.9], [0.0, 0.8]],
            ("0.8", "B"): [[0.0, 0.5], [0.0, 0.4]],
            ("0.2", "B"): [[0.0, 1.0], [0.0, 1.0]],
        }
    )
    (row,) = improvement_table(results).itertuples()
    assert (row.X, row.Y, row[3]) == ("A", "B", 1.0)


def test_efficiency_is_the_median_first_step() -> None:
    """Seeds reach one half after 100, 200 and never: the median is 200."""
    curves = [[0.0, 0.6, 0.4], [0.0, 0.0, 0.9], [0.0, 0.1, 0.2]]
    row = efficiency_table(table({("0.8", "A"): curves}), [0.5, 0.8]).iloc[0]
    assert row["steps to 50%"] == 200
    assert row["steps to 80%"] == np.inf
