"""Intervals against SciPy, closed forms, numbers by hand, and by simulation."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from sas_agents.study import collect
from sas_agents.study.statistics import (
    difference,
    difference_over_tasks,
    final_rows,
    holm,
    mean_interval,
    mean_over_tasks,
    performance_profile,
    probability_of_improvement,
    profile_band,
)

RNG = np.random.default_rng(0)
NUM_TRIALS = 4000


def test_mean_interval_is_students() -> None:
    """SciPy's own interval of a mean."""
    values = RNG.normal(3, 2, 7)
    expected = stats.ttest_1samp(values, 0).confidence_interval()
    found = mean_interval(values)
    assert (found.low, found.high) == pytest.approx(tuple(expected))
    assert found.value == pytest.approx(values.mean())


def test_difference_is_welchs() -> None:
    """SciPy's own interval and p-value, of unequal sizes and variances."""
    x, y = RNG.normal(1, 1, 4), RNG.normal(0, 5, 11)
    expected = stats.ttest_ind(x, y, equal_var=False)
    found = difference(x, y)
    assert (found.low, found.high) == pytest.approx(
        tuple(expected.confidence_interval())
    )
    assert found.p_value == pytest.approx(expected.pvalue)


def test_one_seed_has_no_interval() -> None:
    """From one seed nothing can be said of the spread."""
    for found in (mean_interval([0.5]), difference([0.5], [0.1, 0.2])):
        assert np.isnan(found.low)
        assert np.isnan(found.high)
    chance = probability_of_improvement([[1.0]], [[0.0]])
    assert chance.value == 1
    assert np.isnan(chance.low)


def test_error_that_seeds_share_widens_the_interval() -> None:
    """By hand: no spread, and an error of 0.1, give 1.96 times 0.1 on both sides."""
    found = mean_interval([2.0, 2.0, 2.0], shared_error=0.1)
    assert found.high - found.value == pytest.approx(0.196, abs=1e-4)
    both = mean_interval([1.0, 2.0, 3.0], shared_error=0.1)
    alone = mean_interval([1.0, 2.0, 3.0])
    half = np.hypot(alone.high - alone.value, 0.196)
    assert both.high - both.value == pytest.approx(half, abs=1e-4)


def test_difference_without_spread_has_a_sure_sign() -> None:
    """Equal numbers differ with certainty or not at all."""
    assert difference([1.0, 1.0], [0.0, 0.0]).p_value == 0
    assert difference([1.0, 1.0], [1.0, 1.0]).p_value == 1


def test_tasks_count_alike_and_their_spread_does_not() -> None:
    """The error of the mean of two tasks is half the root of the sum of squares."""
    tasks = [RNG.normal(0, 1, 400), RNG.normal(100, 2, 100)]
    found = mean_over_tasks(tasks)
    error = np.sqrt(tasks[0].var(ddof=1) / 400 + tasks[1].var(ddof=1) / 100) / 2
    assert found.value == pytest.approx(np.mean([task.mean() for task in tasks]))
    assert found.high - found.value == pytest.approx(1.96 * error, rel=0.02)
    moved = difference_over_tasks([task + 1 for task in tasks], tasks)
    assert moved.value == pytest.approx(1)
    assert moved.high - moved.value == pytest.approx(1.96 * 2**0.5 * error, rel=0.02)


@pytest.mark.parametrize("num_seeds", [3, 5, 10, 30])
def test_intervals_cover_normal_scores(num_seeds: int) -> None:
    """At least 93 % of the intervals hold the true value, at every number of seeds."""
    rng = np.random.default_rng(num_seeds)
    samples = rng.normal(1, 1, (NUM_TRIALS, 2, num_seeds))
    means = difference_mean = tasks = 0
    for x, y in samples[: NUM_TRIALS // 2]:
        means += covers(mean_interval(x), 1)
        difference_mean += covers(difference(x, 3 * y), -2)
        tasks += covers(mean_over_tasks([x, 3 * y]), 2)
    for number in (means, difference_mean, tasks):
        assert number / (NUM_TRIALS // 2) >= 0.93


def covers(interval: tuple[float, ...], value: float) -> bool:
    """Return whether an interval holds a value."""
    return interval[1] <= value <= interval[2]


@pytest.mark.parametrize("num_seeds", [3, 5, 10])
@pytest.mark.parametrize("shift", [0.0, 1.0, 2.5])
def test_probability_of_improvement_covers(num_seeds: int, shift: float) -> None:
    """Of normal scores the true chance is the normal distribution of the shift."""
    rng = np.random.default_rng(num_seeds)
    truth = float(stats.norm.cdf(shift / np.sqrt(2)))
    hits = 0
    for _ in range(1000):
        x, y = rng.normal(shift, 1, num_seeds), rng.normal(0, 1, num_seeds)
        hits += covers(probability_of_improvement([x], [y]), truth)
    assert hits / 1000 >= 0.93


def test_committed_scores_coverage_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """How often the interval of a few draws holds the mean of all 30 seeds."""
    path = Path(__file__).parents[3] / "examples" / "paper" / "results" / "ours.csv.gz"
    final = final_rows(collect(path))
    cells = [
        group.mean_return.to_numpy()
        for _, group in final.groupby(["environment", "variant", "label"])
        if len(group) == 30
    ]
    assert len(cells) == 36
    rng = np.random.default_rng(0)
    lines = []
    for num_seeds in (3, 5, 10):
        shares = []
        for cell in cells:
            drawn = rng.choice(cell, (300, num_seeds))
            hits = [covers(mean_interval(few), cell.mean()) for few in drawn]
            shares.append(float(np.mean(hits)))
        mean, worst = np.mean(shares), min(shares)
        lines.append(f"{num_seeds} seeds: {mean:.3f} in the mean, {worst:.3f} at worst")
        assert mean > 0.85
    with capsys.disabled():
        text = "; ".join(lines)
        sys.stdout.write(f"\ncoverage on the committed scores: {text}\n")


def test_probability_of_improvement_counts_pairs() -> None:
    """By hand: 3 of 4 pairs, and 1 win with 2 draws of 4; the mean of both tasks."""
    found = probability_of_improvement([[1, 4], [1, 2]], [[0, 3], [1, 2]])
    assert found.value == pytest.approx((3 / 4 + (1 + 2 / 2) / 4) / 2)
    x, y = RNG.normal(size=(2, 30))
    expected = stats.mannwhitneyu(x, y).statistic / 900
    found = probability_of_improvement([x], [y])
    assert found.value == pytest.approx(expected)
    assert 0 <= found.low < found.value < found.high <= 1


def test_chance_of_sure_wins_solves_newcombes_equation() -> None:
    """Three against three, all won: the lower end solves (1 - p)^2 = z^2 V(p)."""
    found = probability_of_improvement([[2, 3, 4]], [[0, 1, 1]])
    assert (found.value, found.high) == (1, 1)
    p = found.low
    variance = p * (1 - p) / 9 * (1 + 2 * (1 - p) / (2 - p) + 2 * p / (1 + p))
    assert (1 - p) ** 2 == pytest.approx(2.776445**2 * variance)
    lost = probability_of_improvement([[0, 1, 1]], [[2, 3, 4]])
    assert tuple(lost) == pytest.approx((0, 0, 1 - p))


def test_profile_counts_tasks_alike() -> None:
    """A task with many seeds does not outweigh one with few."""
    profile = performance_profile([[0.9], [0.1, 0.1, 0.1]], [0.0, 0.5, 1.0])
    assert profile.tolist() == [1.0, 0.5, 0.0]


def test_profile_band_is_wilsons() -> None:
    """SciPy's interval of a share; of sure shares it is wider than nothing."""
    scores = np.linspace(0, 1, 40)
    low, high = profile_band([scores], [0.25, 2.0])
    wilson = stats.binomtest(30, 40).proportion_ci(method="wilson")
    assert (low[0], high[0]) == pytest.approx((wilson.low, wilson.high))
    assert low[1] == 0
    assert 0.05 < high[1] < 0.15


def test_holm_by_hand() -> None:
    """Three values: times 3, 2 and 1 in their order, never falling; NaN stays."""
    found = holm([0.04, np.nan, 0.01, 0.03])
    assert found[[0, 2, 3]].tolist() == pytest.approx([0.06, 0.03, 0.06])
    assert np.isnan(found[1])
    assert holm([0.9, 0.8]).tolist() == [1.0, 1.0]


def test_different_numbers_of_tasks_are_refused() -> None:
    """Two algorithms are compared on the same tasks."""
    with pytest.raises(ValueError, match="X has 1 tasks and Y has 2"):
        difference_over_tasks([[1.0, 2.0]], [[1.0], [2.0]])
