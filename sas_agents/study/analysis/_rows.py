"""Which rows of a table of results are final scores, each run once."""

import json
from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sas_agents.study.definition._runs import Run
from sas_agents.study.storage._table import upgraded

Floats = NDArray[np.float64]
TASK = ["environment", "variant"]


def whole(results: pd.DataFrame) -> pd.DataFrame:
    """Return a table of results with today's columns and with each run once.

    A run that is there twice counts once: the same one from two sources, and the newer
    one of two that were trained in the same way by different versions.
    """
    frame = results.reset_index(drop=True)
    if "evaluation" in frame and frame.evaluation.isna().any():
        old = frame.evaluation.isna()
        columns = ["evaluation", "acting", "shared_error", "rule", "rule_score"]
        older = upgraded(frame[old].drop(columns=[*columns, "finished"]))
        frame = pd.concat([frame[~old], older], ignore_index=True)
    frame = upgraded(frame)
    frame = frame.drop_duplicates(
        ["label", "key", "evaluation", "acting", "step"], ignore_index=True
    )
    if "run" not in frame:
        return frame
    runs = frame.drop_duplicates(["label", "key"])
    runs = runs.assign(training=runs.run.map(_training))
    runs = runs.sort_values("finished", kind="stable")
    newest = runs.drop_duplicates(["label", "training"], keep="last")
    return frame[frame.key.isin(newest.key)].reset_index(drop=True)


@cache
def _training(text: str) -> str:
    return Run.from_dict(json.loads(text)).training


def curve_rows(results: pd.DataFrame) -> pd.DataFrame:
    """Return the evaluations of the learning curves."""
    frame = whole(results)
    return frame[frame.evaluation == "curve"].reset_index(drop=True)


def evaluation_rows(results: pd.DataFrame) -> pd.DataFrame:
    """Return every evaluation of each run, of which the last is its final score.

    Each step has one, of the algorithm's own way of acting.
    """
    frame = whole(results)
    final = final_rows(frame)
    curve = frame[frame.evaluation == "curve"]
    keys = pd.Index(final.key + " " + final.step.astype(str))
    is_left = ~(curve.key + " " + curve.step.astype(str)).isin(keys)
    rows = pd.concat([curve[is_left], final], ignore_index=True)
    place = {key: index for index, key in enumerate(final.key)}
    order = rows.key.map(place)
    return (
        rows.assign(order=order)
        .sort_values(["order", "step"], kind="stable", ignore_index=True)
        .drop(columns="order")
    )


def final_rows(results: pd.DataFrame, acting: str | None = None) -> pd.DataFrame:
    """Return the final score of each run, a row per run.

    Args:
        results: The table of results.
        acting: `"sampled"` or `"greedy"`, for the scores of policies that act so. By
            default each run has the score of its own way: sampled, unless its algorithm
            only acts greedily.
    """
    frame = whole(results)
    final = frame[frame.evaluation == "final"]
    if acting is not None:
        return final[final.acting == acting].reset_index(drop=True)
    own = final.sort_values("acting", kind="stable", ascending=False)
    kept = own.drop_duplicates(["label", "key"]).sort_index()
    return kept.reset_index(drop=True)


def by_task(final: pd.DataFrame, label: str, column: str) -> list[Floats]:
    """Return a column of final scores: for each task an array over seeds."""
    groups = final[final.label == label].groupby(TASK, sort=True)
    return [group[column].to_numpy(dtype=np.float64) for _, group in groups]


def scores_by_task(results: pd.DataFrame, label: str) -> list[Floats]:
    """Return the final scores of an algorithm: for each task an array over seeds."""
    final = final_rows(results)
    return by_task(final[final.score.notna()], label, "score")


def shared_errors(final: pd.DataFrame, label: str, of_scores: bool) -> list[float]:
    """Return for each task the error that all seeds of an algorithm share.

    Args:
        final: The final scores.
        label: The algorithm.
        of_scores: Whether to give it as a part of the way from random play to the
            optimum.
    """
    groups = final[final.label == label].groupby(TASK, sort=True)
    return [shared_error(group, of_scores) for _, group in groups]


def shared_error(group: pd.DataFrame, of_scores: bool = False) -> float:
    """Return the error that all runs of an algorithm on one task share."""
    error = float(group.shared_error.mean())
    if not of_scores:
        return error
    return error / float((group.optimal - group.random).iloc[0])
