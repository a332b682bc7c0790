"""The comparison of one's own results with a reference."""

import numpy as np
import pandas as pd

from sas_agents.study.analysis._intervals import (
    difference,
    difference_over_tasks,
    holm,
    performance_profile,
    probability_of_improvement,
)
from sas_agents.study.analysis._rows import (
    TASK,
    by_task,
    final_rows,
    shared_error,
    shared_errors,
    whole,
)
from sas_agents.study.analysis._statistics import common_tasks, note_of

PROFILE = 0.5, 0.75, 0.9, 0.95, 0.99


def renamed(mine: pd.DataFrame, reference: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return both results in one table, with different labels.

    Args:
        mine: One's own results.
        reference: The reference.
        name: Text that is added to a label of one's own that the reference has, too.
    """
    taken = set(reference.label)
    labels = {label: f"{label} ({name})" for label in set(mine.label) & taken}
    return pd.concat(
        [mine.assign(label=mine.label.replace(labels)), reference], ignore_index=True
    )


def comparison_table(
    results: pd.DataFrame,
    ours: list[str],
    theirs: list[str],
    *,
    correct: bool = False,
) -> pd.DataFrame:
    """Compare algorithms with others, per task and over all tasks of both.

    Per task the mean returns are subtracted, over all tasks the mean scores. Policies
    act in the same way: sampled if both can, else greedily.

    Args:
        results: A table with both.
        ours: Labels of the algorithms to be compared.
        theirs: Labels of the reference.
        correct: Whether to correct the p-values for their number, by Holm's method.

    Raises:
        ValueError: If no two of them were run on the same task.
    """
    frame = whole(results)
    final = frame[frame.evaluation == "final"]
    rows = [row for x in ours for y in theirs for row in _compared(final, x, y)]
    if not rows:
        raise ValueError(
            f"none of {ours} was run on the same environment and availability as one "
            f"of {theirs}: there is nothing to compare"
        )
    table = pd.DataFrame(rows)
    if correct:
        table["p-value"] = holm(table["p-value"])
    return table


def _compared(final: pd.DataFrame, x: str, y: str) -> list[dict[str, object]]:
    both, acting = common_tasks(final, x, y)
    rows = []
    for (environment, variant), group in both.groupby(TASK, sort=False):
        row = {"environment": environment, "availability": variant}
        rows.append({"X": x, "Y": y, **row, **_on_task(group, x, y, acting)})
    if len(rows) > 1:
        rows.append({"X": x, "Y": y, **_over_all(both, x, y, acting)})
    return rows


def _on_task(group: pd.DataFrame, x: str, y: str, acting: str) -> dict[str, object]:
    mine, other = group[group.label == x], group[group.label == y]
    error = np.hypot(shared_error(mine), shared_error(other))
    gap = difference(mine.mean_return, other.mean_return, float(error))
    chance = probability_of_improvement([mine.mean_return], [other.mean_return])
    return {
        "acting": acting,
        "seeds": f"{len(mine)}, {len(other)}",
        "mean of X": mine.mean_return.mean(),
        "mean of Y": other.mean_return.mean(),
        **_gap_columns(gap, chance),
        "note": note_of(min(len(mine), len(other))),
    }


def _over_all(both: pd.DataFrame, x: str, y: str, acting: str) -> dict[str, object]:
    """Compare scores over all tasks where an optimum is known, and returns over all."""
    returns = [by_task(both, label, "mean_return") for label in (x, y)]
    chance = probability_of_improvement(*returns)
    fewest = min(len(task) for side in returns for task in side)
    row: dict[str, object] = {
        "environment": "all (scores)",
        "availability": "",
        "acting": acting,
        "seeds": f"{fewest} or more",
    }
    known = both[both.score.notna()]
    known = known.groupby(TASK).filter(lambda task: task.label.nunique() == 2)
    gap: tuple[float, ...] = (np.nan,) * 4
    if len(known):
        ours, theirs = (by_task(known, label, "score") for label in (x, y))
        errors = [shared_errors(known, label, of_scores=True) for label in (x, y)]
        gap = difference_over_tasks(ours, theirs, np.hypot(*np.array(errors)).tolist())
        row["mean of X"] = float(np.mean([task.mean() for task in ours]))
        row["mean of Y"] = float(np.mean([task.mean() for task in theirs]))
    return {**row, **_gap_columns(gap, chance), "note": note_of(fewest)}


def _gap_columns(
    gap: tuple[float, ...], chance: tuple[float, ...]
) -> dict[str, object]:
    names = "X less Y", "low", "high", "p-value", "P(X > Y)", "P low", "P high"
    return dict(zip(names, (*gap, *chance), strict=True))


def profile_table(results: pd.DataFrame) -> pd.DataFrame:
    """Return the share of runs above some scores, every task counting the same."""
    final = final_rows(results)
    final = final[final.score.notna()]
    rows = []
    for label in final.label.unique():
        shares = performance_profile(by_task(final, label, "score"), PROFILE)
        names = [f"above {threshold:.0%}" for threshold in PROFILE]
        rows.append({"algorithm": label, **dict(zip(names, shares, strict=True))})
    return pd.DataFrame(rows)


def budgets(results: pd.DataFrame) -> list[str]:
    """Say on which tasks algorithms learned from different numbers of steps."""
    lines = []
    for (environment, variant), group in results.groupby(TASK, sort=False):
        steps = group.groupby("label", sort=False).num_steps.max()
        if steps.nunique() > 1:
            of = ", ".join(f"{label} {number:,}" for label, number in steps.items())
            lines.append(f"{environment} {variant}: different numbers of steps: {of}")
    return lines
