"""Figures have the lines that the results say, and the references."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from sas_agents.study import figures
from sas_agents.study.analysis._drawing import styles


@pytest.fixture
def results() -> pd.DataFrame:
    """Two environments, two availabilities, two algorithms, three seeds."""
    rows = []
    for environment, optimal in (("SAS/Maze-v0", 100.0), ("SAS/SanFrancisco-v0", 9.0)):
        for availability in (0.2, 0.8):
            for label in ("SASPG", "SASQ"):
                for seed in range(3):
                    for step in (0, 100, 200):
                        share = availability * step / 200 + 0.01 * seed
                        weight = -0.5 if label == "SASPG" and step else np.nan
                        rows.append(
                            {
                                "key": f"{environment}{availability}{label}{seed}",
                                "environment": environment,
                                "variant": f"{availability:g}",
                                "availability": availability,
                                "label": label,
                                "seed": seed,
                                "step": step,
                                "num_episodes": 10,
                                "score": share,
                                "mean_return": share * optimal,
                                "optimal": optimal,
                                "random": 0.0,
                                "train/weight_v_hat": weight,
                                "train/weight_q_bar": weight / 2,
                                "train/gradient_variance": 0.5 * (1 + seed) * step,
                                "train/gradient_variance_without_baselines": 2 * step,
                                "seconds": 10.0 + seed,
                            }
                        )
    later = {"acting": "sampled", "shared_error": 0.0, "rule_score": np.nan}
    curve = pd.DataFrame(rows).assign(evaluation="curve", finished="", **later)
    final = curve[curve.step == 200].assign(evaluation="final", num_episodes=1000)
    return pd.concat([curve, final], ignore_index=True)


def lines(axes: Axes) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the labelled lines of a panel."""
    return {
        str(line.get_label()): (
            np.asarray(line.get_xdata(), float),
            np.asarray(line.get_ydata(), float),
        )
        for line in axes.get_lines()
        if not str(line.get_label()).startswith("_")
    }


def test_learning_curves_have_means_and_references(results: pd.DataFrame) -> None:
    """A panel per task with the mean of each algorithm, its band, and references."""
    figure = figures.learning_curves(results)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == [
        "Maze, availability 0.8",
        "San Francisco, availability 0.8",
        "Maze, availability 0.2",
        "San Francisco, availability 0.2",
    ]
    found = lines(figure.axes[0])
    assert set(found) == {"SASPG", "SASQ", "optimum", "random"}
    steps, means = found["SASPG"]
    assert steps.tolist() == [0, 100, 200]
    assert means.tolist() == pytest.approx([1.0, 41.0, 81.0])
    assert set(found["optimum"][1]) == {100.0}
    assert set(found["random"][1]) == {0.0}
    band = figure.axes[0].collections[0].get_paths()[0].vertices
    at_end = sorted(set(np.asarray(band)[np.asarray(band)[:, 0] == 200, 1].round(6)))
    assert at_end == pytest.approx([80.0, 82.0])
    # A final score, of other episodes, is no part of the curve.
    results.loc[results.evaluation == "final", "mean_return"] = 50.0
    _, means = lines(figures.learning_curves(results).axes[0])["SASPG"]
    assert means.tolist() == pytest.approx([1.0, 41.0, 81.0])


def test_weights_are_drawn_for_those_who_have_them(results: pd.DataFrame) -> None:
    """Two lines per panel, of the one algorithm that logs weights."""
    found = lines(figures.baseline_weights(results).axes[0])
    assert [set(values) for _, values in found.values()] == [{-0.5}, {-0.25}]
    with pytest.raises(ValueError, match="no result has logged baseline weights"):
        figures.baseline_weights(results[results.label == "SASQ"])


def test_variance_is_drawn_as_the_share_that_is_left(results: pd.DataFrame) -> None:
    """Of 2 x the step, seeds leave 0.5, 1 and 1.5 x the step: half in the mean."""
    axes = figures.gradient_variance(results).axes[0]
    steps, shares = lines(axes)["SASPG"]
    assert steps.tolist() == [100, 200]
    assert shares.tolist() == pytest.approx([0.5, 0.5])
    without = results.drop(columns=["train/gradient_variance"])
    with pytest.raises(ValueError, match="no result has logged"):
        figures.gradient_variance(without)


def test_final_returns_have_every_seed_and_its_time(results: pd.DataFrame) -> None:
    """A row per algorithm with three seeds, their mean, and the mean of the seconds."""
    axes = figures.final_returns(results).axes[0]
    assert axes.get_title() == "Maze, availability 0.8"
    points = np.asarray(axes.collections[0].get_offsets())
    assert points.tolist() == [[80.0, 0], [81.0, 0], [82.0, 0]]
    ticks = [text.get_text() for text in axes.get_yticklabels()]
    assert ticks == ["SASPG, 11 s", "SASQ, 11 s"]
    assert set(lines(axes)) == {"optimum", "random"}


def test_tasks_without_common_variants_follow_each_other(
    results: pd.DataFrame,
) -> None:
    """Panels are not spread over a grid that is mostly empty."""
    names = {"SAS/Maze-v0": "Taxi-v4", "SAS/SanFrancisco-v0": "my_module:grid"}
    parts = [results.replace({"environment": names}), results]
    parts[0]["key"] = "other " + parts[0]["key"]
    mixed = pd.concat(parts)
    mixed["variant"] += np.where(mixed.environment == "Taxi-v4", ", size=3", "")
    mixed.loc[mixed.environment == "SAS/Maze-v0", "variant"] = ""
    mixed.loc[mixed.environment == "my_module:grid", "variant"] = "Markov(0.1, 0.2)"
    figure = figures.learning_curves(mixed)
    assert [axes.get_title() for axes in figure.axes] == [
        "Taxi, availability 0.2",
        "Taxi, availability 0.8",
        "grid, Markov(0.1, 0.2)",
        "Maze",
        "San Francisco, availability 0.2",
        "San Francisco, availability 0.8",
    ]


def test_availability_figure_has_final_returns(results: pd.DataFrame) -> None:
    """A point per availability at the final mean, with the optimum over it."""
    axes = figures.performance_by_availability(results).axes[0]
    assert lines(axes)["optimum"][0].tolist() == [0.2, 0.8]
    assert lines(axes)["optimum"][1].tolist() == [100.0, 100.0]
    assert lines(axes)["random"][1].tolist() == [0.0, 0.0]
    bars = {bar.get_label(): bar for bar in axes.containers}
    assert set(bars) == {"SASPG", "SASQ"}
    means = np.asarray(bars["SASQ"][0].get_ydata(), float)
    assert means.tolist() == pytest.approx([21.0, 81.0])
    below = figures.performance_by_availability(results).axes[2]
    gaps = {bar.get_label(): bar for bar in below.containers}["SASQ"][0].get_ydata()
    assert np.asarray(gaps, float).tolist() == pytest.approx([-79.0, -19.0])


def test_references_are_drawn_at_one_availability_too(results: pd.DataFrame) -> None:
    """With a single availability the optimum and random play are level lines."""
    one = results[results.availability == 0.8]
    found = lines(figures.performance_by_availability(one).axes[0])
    assert {"optimum", "random"} <= set(found)


def test_profiles_fall_from_one_to_zero(results: pd.DataFrame) -> None:
    """Half of the tasks end near 0.2, half near 0.8."""
    axes = figures.performance_profiles(results).axes[0]
    thresholds, shares = lines(axes)["SASPG"]
    assert thresholds[0] == pytest.approx(0.15)
    assert shares[0] == 1
    assert shares[np.abs(thresholds - 0.5).argmin()] == 0.5
    assert shares[-1] == 0
    # Where all are good, the figure shows where they differ.
    good = results.assign(score=0.96)
    thresholds, _ = lines(figures.performance_profiles(good).axes[0])["SASPG"]
    assert thresholds[0] == pytest.approx(0.9)


def test_intervals_name_every_algorithm_and_pair(results: pd.DataFrame) -> None:
    """A row per algorithm, and one per pair."""
    left, right = figures.score_intervals(results).axes
    assert [text.get_text() for text in left.get_yticklabels()] == ["SASPG", "SASQ"]
    assert [text.get_text() for text in right.get_yticklabels()] == ["SASPG over SASQ"]


def test_algorithms_differ_without_colour() -> None:
    """Line styles and markers distinguish algorithms in black and white."""
    looks = list(styles(list("abcdef")).values())
    assert len({str(look.linestyle) for look in looks}) == 6
    assert len({look.marker for look in looks}) == 6
    assert len({mpl.colors.to_hex(look.color) for look in looks}) == 6


def test_no_panel_stays_empty_where_no_optimum_is_known(results: pd.DataFrame) -> None:
    """Gaps to the optimum have panels where it is known, and scores a figure."""
    maze = results.environment == "SAS/Maze-v0"
    unknown = {"optimal": np.nan, "score": np.nan}
    half = results.assign(**{c: results[c].where(~maze) for c in unknown})
    draw = figures.performance_by_availability
    assert [len(draw(r).axes) for r in (results, half)] == [4, 3]
    none = results.assign(**unknown)
    above = draw(none).axes
    assert len(above) == 2
    assert "optimum" not in lines(above[0])
    for figure in (figures.performance_profiles, figures.score_intervals):
        with pytest.raises(ValueError, match="no optimum is known"):
            figure(none)
    with pytest.raises(ValueError, match="no result has an availability"):
        draw(results.assign(availability=np.nan))
