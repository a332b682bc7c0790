"""The tables of a study: final scores with intervals, means over tasks, comparisons.

A *task* is an environment with its variant. Scores are 0 for random play and 1 for the
optimum.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from sas_agents.study.analysis._intervals import (
    mean_interval,
    mean_over_tasks,
    probability_of_improvement,
)
from sas_agents.study.analysis._rows import (
    TASK,
    by_task,
    curve_rows,
    final_rows,
    shared_error,
    shared_errors,
    whole,
)

THRESHOLDS = 0.5, 0.9, 0.95, 0.99
FEW_SEEDS = 10
"""With fewer seeds an interval is rough: a run that fails once in ten is not seen."""


def note_of(num_seeds: int) -> str:
    """Return the note for an interval over so many seeds."""
    if num_seeds == 1:
        return "one seed"
    return "rough" if num_seeds < FEW_SEEDS else ""


def final_table(results: pd.DataFrame) -> pd.DataFrame:
    """Return the final scores of each task and algorithm, over seeds.

    The columns `sampled` and `greedy` are mean returns of the policy acting in these
    ways, with half the width of their 95 % intervals. `score` belongs to the
    algorithm's own way: sampled, unless it only acts greedily.
    """
    frame = whole(results)
    own = final_rows(frame)
    final = frame[frame.evaluation == "final"]
    rows = []
    for task, group in own.groupby([*TASK, "label"], sort=False):
        same = (final[[*TASK, "label"]] == list(task)).all(axis=1)
        ways = {way: part for way, part in final[same].groupby("acting")}
        rows.append({**_columns_of_task(task), **_final_columns(group, ways)})
    return _sorted(pd.DataFrame(rows))


def _columns_of_task(task: Sequence[str]) -> dict[str, object]:
    return dict(zip(("environment", "availability", "algorithm"), task, strict=True))


def _final_columns(
    group: pd.DataFrame, ways: dict[str, pd.DataFrame]
) -> dict[str, object]:
    row: dict[str, object] = {"seeds": len(group)}
    for way in ("sampled", "greedy"):
        found = ways.get(way)
        row[way] = row[f"{way} ±"] = np.nan
        if found is not None:
            mean = mean_interval(found.mean_return, shared_error(found))
            row[way], row[f"{way} ±"] = mean.value, mean.high - mean.value
    row["sd"] = group.mean_return.std(ddof=1)
    row["optimum"] = group.optimal.iloc[0]
    row["score"] = row["low"] = row["high"] = np.nan
    if group.score.notna().all():
        score = mean_interval(group.score, shared_error(group, of_scores=True))
        row["score"], row["low"], row["high"] = score
    row["rule score"] = group.rule_score.mean()
    row["seconds"] = group.seconds.mean()
    row["note"] = note_of(len(group))
    return row


def _sorted(table: pd.DataFrame) -> pd.DataFrame:
    if table.empty:
        return table
    return table.sort_values(
        ["environment", "availability"], kind="stable", ignore_index=True
    )


def aggregate_table(results: pd.DataFrame) -> pd.DataFrame:
    """Return the mean score of each algorithm, per environment and over all tasks.

    Every task counts the same, and none is left out.
    """
    final = final_rows(results)
    final = final[final.score.notna()]
    rows = []
    for label in final.label.unique():
        mine = final[final.label == label]
        environments = list(mine.environment.unique())
        parts = [(name, mine[mine.environment == name]) for name in environments]
        for name, part in [*parts, ("all", mine)]:
            if name == "all" and len(parts) == 1:
                continue
            scores = by_task(part, label, "score")
            errors = shared_errors(part, label, of_scores=True)
            fewest = min(map(len, scores))
            mean = mean_over_tasks(scores, errors)
            rows.append((label, name, len(scores), len(part), *mean, note_of(fewest)))
    columns = ["algorithm", "environment", "tasks", "runs", "score", "low", "high"]
    return pd.DataFrame(rows, columns=[*columns, "note"])


def improvement_table(results: pd.DataFrame) -> pd.DataFrame:
    """Return the probability of improvement of each algorithm X over each Y.

    Two algorithms are compared on the tasks that both were run on, by their returns: a
    task needs no known optimum for it. Both act in the same way: sampled if both can,
    else greedily.
    """
    frame = whole(results)
    final = frame[frame.evaluation == "final"]
    rows = []
    labels = list(frame.label.unique())
    for i, x in enumerate(labels):
        for y in labels[i + 1 :]:
            both, acting = common_tasks(final, x, y)
            if len(both):
                ours, theirs = (by_task(both, one, "mean_return") for one in (x, y))
                estimate = probability_of_improvement(ours, theirs)
                fewest = min(map(len, [*ours, *theirs]))
                rows.append((x, y, acting, *estimate, note_of(fewest)))
    columns = ["X", "Y", "acting", "P(X > Y)", "low", "high", "note"]
    return pd.DataFrame(rows, columns=columns)


def common_tasks(final: pd.DataFrame, x: str, y: str) -> tuple[pd.DataFrame, str]:
    """Return the final scores of two algorithms that can be compared.

    Both were run on their tasks, and their policies act in the same way.

    Returns:
        The rows, and how the policies act: "sampled" where both can, else "greedy". Of
        older results, which have one way each, it is "as they act".
    """
    of_both = final[final.label.isin([x, y])]
    for way in ("sampled", "greedy"):
        rows = _on_common_tasks(of_both[of_both.acting == way])
        if len(rows):
            return rows, way
    order = of_both.sort_values("acting", kind="stable", ascending=False)
    own = order.drop_duplicates(["label", "key"]).sort_index()
    return _on_common_tasks(own), "as they act"


def _on_common_tasks(rows: pd.DataFrame) -> pd.DataFrame:
    if rows.empty:
        return rows
    return rows.groupby(TASK).filter(lambda task: task.label.nunique() == 2)


def efficiency_table(
    results: pd.DataFrame, thresholds: Sequence[float] = THRESHOLDS
) -> pd.DataFrame:
    """Return how many steps it takes to a score for good, the median over seeds.

    A seed counts from the first step after which no evaluation falls below the score;
    one whose last evaluation is below it counts as infinitely slow. A task without a
    known optimum has no scores, and no row.
    """
    names = [f"steps to {threshold:.0%}" for threshold in thresholds]
    frame = curve_rows(results)
    rows = []
    for task, group in frame.groupby([*TASK, "label"], sort=False):
        if group.score.isna().all():
            continue
        runs = [run for _, run in group.groupby("key")]
        medians = [
            float(np.median([steps_to(run, threshold) for run in runs]))
            for threshold in thresholds
        ]
        rows.append((*task, *medians))
    columns = ["environment", "availability", "algorithm", *names]
    return _sorted(pd.DataFrame(rows, columns=columns))


def steps_to(run: pd.DataFrame, threshold: float) -> float:
    """Return the first step from which on a run has a score, or infinity."""
    run = run.sort_values("step")
    below = run.step[~(run.score >= threshold)]
    after = run.step if below.empty else run.step[run.step > below.iloc[-1]]
    return float(after.iloc[0]) if len(after) else np.inf
