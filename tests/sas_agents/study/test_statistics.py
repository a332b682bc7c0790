"""Tables of results against numbers worked out by hand."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sas_agents.study import Study
from sas_agents.study.statistics import (
    aggregate_table,
    comparison_table,
    efficiency_table,
    final_rows,
    final_table,
    improvement_table,
    profile_table,
    renamed,
    scores_by_task,
)

Scores = dict[tuple[str, str], list[list[float]]]


def table(scores: Scores, **columns: object) -> pd.DataFrame:
    """Return results in the older form: by task and label, for each seed a curve."""
    rows = [
        {
            "key": f"{variant}{label}{seed}",
            "environment": "E",
            "variant": variant,
            "label": label,
            "seed": seed,
            "num_steps": 100 * (len(curve) - 1),
            "step": 100 * i,
            "score": score,
            "mean_return": 10 * score,
            "standard_error": 0.0,
            "optimal": 10.0,
            "random": 0.0,
            "seconds": 1.0,
            **columns,
        }
        for (variant, label), curves in scores.items()
        for seed, curve in enumerate(curves)
        for i, score in enumerate(curve)
    ]
    return pd.DataFrame(rows)


def in_both_ways(scores: Scores, greedy_gain: float) -> pd.DataFrame:
    """Return results of today's form, whose greedy policies have a little more."""
    old = table(scores)
    is_last = old.step == old.num_steps
    new = old.assign(
        evaluation="curve", acting="sampled", shared_error=0.0, rule=5.0, finished=""
    )
    new["rule_score"] = (new.mean_return - 5) / 5
    last = new[is_last].assign(evaluation="final")
    greedy = last.assign(
        acting="greedy",
        mean_return=last.mean_return + greedy_gain,
        score=last.score + greedy_gain / 10,
    )
    return pd.concat([new, last, greedy], ignore_index=True)


def test_final_scores_are_those_of_the_last_step() -> None:
    """Early points of a curve do not count as final."""
    results = table({("0.8", "A"): [[0.1, 0.9], [0.2, 0.7]]})
    (scores,) = scores_by_task(results, "A")
    assert scores.tolist() == [0.9, 0.7]
    row = final_table(results).iloc[0]
    assert (row.sampled, row.seeds, row.note) == (pytest.approx(8.0), 2, "rough")
    assert row.sd == pytest.approx(np.sqrt(2))
    # Student's t with one degree of freedom: 12.706 times 1.
    assert row["sampled ±"] == pytest.approx(12.706, abs=1e-3)
    assert np.isnan(row.greedy)
    assert row.score == pytest.approx(0.8)
    assert row.high - row.score == pytest.approx(1.2706, abs=1e-4)


def test_final_table_has_both_ways_and_both_scales() -> None:
    """Sampled and greedy side by side; scores are of the algorithm's own way."""
    row = final_table(in_both_ways({("0.8", "A"): [[0.0, 0.8]] * 10}, 1.0)).iloc[0]
    assert (row.sampled, row.greedy) == pytest.approx((8.0, 9.0))
    assert (row.score, row["rule score"]) == pytest.approx((0.8, 0.6))
    assert row.note == ""
    greedy = final_rows(in_both_ways({("0.8", "A"): [[0.0, 0.8]]}, 1.0), "greedy")
    assert greedy.mean_return.tolist() == [9.0]


def test_error_of_shared_episodes_is_in_the_interval() -> None:
    """Of equal seeds, all played on the same episodes, only their luck is unsure."""
    results = table({("0.8", "A"): [[0.0, 0.8]] * 5}, standard_error=0.5)
    row = final_table(results).iloc[0]
    assert row["sampled ±"] == pytest.approx(1.96 * 0.5, abs=1e-3)
    assert row.high - row.score == pytest.approx(0.196 * 0.5, abs=1e-3)


def test_same_run_counts_once_whatever_its_row_label() -> None:
    """Two tables joined without a thought, as `pd.concat` joins them."""
    reference = table({("0.8", "A"): [[0.0, 0.1 * seed] for seed in range(5)]})
    mine = reference[reference.seed < 2]
    joined = pd.concat([reference, mine])
    for results in (joined, pd.concat([mine, reference])):
        row = final_table(results).iloc[0]
        assert (row.seeds, row.sampled) == (5, pytest.approx(2.0))
        assert len(final_rows(results)) == 5


def test_newer_version_of_a_run_replaces_the_older(tiny: Study) -> None:
    """The same training by two versions is one seed."""
    run = tiny.runs()[0].run
    newer = replace(run, versions={**run.versions, "study": "99"})
    parts = [
        table({("0.8", "A"): [[0.0, score]]}).assign(
            key=one.key,
            run=json.dumps(one.to_dict()),
            evaluation=["curve", "final"],
            acting="sampled",
            shared_error=0.0,
            rule_score=np.nan,
            finished=finished,
        )
        for one, score, finished in ((newer, 0.9, "2026-02"), (run, 0.1, "2026-01"))
    ]
    assert final_rows(pd.concat(parts)).score.tolist() == [0.9]
    assert final_rows(pd.concat(parts[::-1])).score.tolist() == [0.9]


def test_older_and_newer_tables_can_be_joined() -> None:
    """Columns that came later are made up for where they are missing."""
    old = table({("0.8", "A"): [[0.0, 0.5]]})
    new = in_both_ways({("0.8", "B"): [[0.0, 0.8]]}, 1.0)
    final = final_rows(pd.concat([old, new]))
    assert dict(zip(final.label, final.mean_return, strict=True)) == {"A": 5, "B": 8}


def test_mean_score_has_all_environments_and_every_task_alike() -> None:
    """Per environment and over all; a task of few seeds counts as one of many."""
    low = table({("0.8", "A"): [[0.0, 0.2]] * 9})
    high = table({("0.8", "A"): [[0.0, 1.0]] * 2})
    other = high.assign(environment="F", key="F" + high.key)
    found = aggregate_table(pd.concat([low, other]))
    assert found.environment.tolist() == ["E", "F", "all"]
    assert found.score.tolist() == pytest.approx([0.2, 1.0, 0.6])
    assert found.tasks.tolist() == [1, 1, 2]
    assert found.note.tolist() == ["rough"] * 3


def test_improvement_is_on_common_tasks() -> None:
    """A task that only one of two algorithms was run on does not count."""
    results = table(
        {
            ("0.8", "A"): [[0.0, 0.9], [0.0, 0.8]],
            ("0.8", "B"): [[0.0, 0.5], [0.0, 0.4]],
            ("0.2", "B"): [[0.0, 1.0], [0.0, 1.0]],
        }
    )
    (row,) = improvement_table(results).itertuples()
    assert (row.X, row.Y, row.acting, row[4]) == ("A", "B", "sampled", 1.0)


def test_policies_that_act_differently_are_compared_greedily() -> None:
    """One that only acts greedily meets the greedy policy of the other."""
    both = in_both_ways({("0.8", "A"): [[0.0, 0.8], [0.0, 0.8]]}, 1.0)
    greedy = in_both_ways({("0.8", "B"): [[0.0, 0.85], [0.0, 0.85]]}, 0.0)
    greedy = greedy[greedy.acting == "greedy"]
    (row,) = improvement_table(pd.concat([both, greedy])).itertuples()
    assert (row.acting, row[4]) == ("greedy", 1.0)


def test_efficiency_is_the_median_of_the_steps_for_good() -> None:
    """A seed that falls back has reached nothing; the final score does not count."""
    curves = [
        [0.0, 0.6, 0.4, 0.7, 0.0],  # one half for good from 300 on
        [0.0, 0.6, 0.7, 0.9, 0.0],  # from 100 on
        [0.0, 0.9, 0.9, 0.2, 1.0],  # never
    ]
    row = efficiency_table(table({("0.8", "A"): curves}), [0.5, 0.8]).iloc[0]
    assert row["steps to 50%"] == 300
    assert row["steps to 80%"] == np.inf


def test_comparison_by_hand() -> None:
    """Welch's interval per task, and of the scores over all tasks."""
    mine = table({(p, "A"): [[0.0, 0.8], [0.0, 0.9]] for p in ("0.2", "0.8")})
    other = table({(p, "B"): [[0.0, 0.4], [0.0, 0.5]] for p in ("0.2", "0.8")})
    results = renamed(mine, other, "mine")
    found = comparison_table(results, ["A"], ["B"])
    assert found.environment.tolist() == ["E", "E", "all (scores)"]
    assert found["X less Y"].tolist() == pytest.approx([4.0, 4.0, 0.4])
    # Welch with two degrees of freedom: 4.303 times the root of 0.25 + 0.25.
    half = (found.high - found["X less Y"]).iloc[0]
    assert half == pytest.approx(4.303 * np.sqrt(0.5), abs=1e-3)
    assert found["P(X > Y)"].eq(1).all()
    assert found.note.eq("rough").all()
    corrected = comparison_table(results, ["A"], ["B"], correct=True)
    assert (corrected["p-value"] >= found["p-value"]).all()
    assert corrected["p-value"].iloc[0] == pytest.approx(2 * found["p-value"].iloc[0])
    profile = profile_table(results).set_index("algorithm")
    assert profile.loc["A", "above 75%"] == 1
    assert profile.loc["B", "above 50%"] == 0


def test_label_of_both_sides_is_told_apart() -> None:
    """One's own SASPG and the reference's are two algorithms."""
    one = table({("0.8", "A"): [[0.0, 0.8]] * 2})
    both = renamed(one, one.assign(mean_return=0.0), "mine")
    assert list(both.label.unique()) == ["A (mine)", "A"]
    (row,) = comparison_table(both, ["A (mine)"], ["A"]).itertuples()
    assert row.seeds == "2, 2"


def test_nothing_in_common_is_an_error() -> None:
    """Results of different environments cannot be compared."""
    mine = table({("0.8", "A"): [[0.0, 0.8]]})
    other = table({("0.2", "B"): [[0.0, 0.8]]})
    with pytest.raises(ValueError, match="there is nothing to compare"):
        comparison_table(renamed(mine, other, "mine"), ["A"], ["B"])
