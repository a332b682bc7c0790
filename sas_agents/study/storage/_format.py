"""The format of a result file, and the checks that find a damaged one."""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from sas_agents.study.definition._algorithms import ALGORITHMS
from sas_agents.study.definition._runs import Run

Result = dict[str, Any]
"""The result of a run, in the form of its file; see `execute`."""

FORMAT = 2
COLUMNS = "step", "mean_return", "standard_error", "num_episodes"
SCORE = COLUMNS[1:]
WAYS = "sampled", "greedy"


class CorruptResultError(ValueError):
    """A result file that `write_result` did not write."""


def own_way(final: Mapping[str, Any]) -> str:
    """Return how a policy acts by itself: sampled, unless it only acts greedily."""
    return "sampled" if "sampled" in final else "greedy"


def checked(result: Any) -> Result:
    """Return a result in today's format, or name its damage.

    Raises:
        CorruptResultError: If something is missing, of a wrong type, or not the run
            that the key says.
    """
    if not isinstance(result, dict) or result.get("format") not in (1, FORMAT):
        raise CorruptResultError(f"it is not a result of format {FORMAT}")
    for name, kind in (("run", dict), ("curve", dict), ("timing", dict), ("key", str)):
        if not isinstance(result.get(name), kind):
            raise CorruptResultError(f"its {name!r} is missing or of a wrong type")
    try:
        run = Run.from_dict(result["run"])
    except ValueError as error:
        raise CorruptResultError(f"its run is damaged: {error}") from error
    if run.key != result["key"]:
        raise CorruptResultError("its key belongs to another run: it was edited")
    for name in ("random", "optimal"):
        _check_number(name, result.get(name, "nothing"), optional=True)
    _check_number("rule", result.get("rule"), optional=True)
    _check_curve(result["curve"], run)
    _check_timing(result["timing"])
    if result["format"] == 1:
        return _upgraded(result, run)
    _check_final(result.get("final"))
    return result


def _check_curve(curve: dict[str, Any], run: Run) -> None:
    lengths = set()
    for name in [*COLUMNS, *run.evaluation.log]:
        column = curve.get(name)
        if not isinstance(column, list):
            raise CorruptResultError(f"its curve has no {name!r}")
        lengths.add(len(column))
        for value in column:
            _check_number(name, value, optional=name != "step")
    if len(lengths) != 1 or lengths == {0}:
        raise CorruptResultError("the columns of its curve have different lengths")
    steps = curve["step"]
    if any(later <= step for step, later in pairwise(steps)):
        raise CorruptResultError("the steps of its curve do not rise")


def _check_timing(timing: dict[str, Any]) -> None:
    for name, value in timing.items():
        if "seconds" in name:
            _check_number(name, value)
    if "seconds" not in timing or not isinstance(timing.get("finished"), str):
        raise CorruptResultError("its timing is damaged")


def _check_final(final: Any) -> None:
    if not isinstance(final, dict) or not final or not set(final) <= set(WAYS):
        raise CorruptResultError("it has no final scores")
    for score in final.values():
        if not isinstance(score, dict):
            raise CorruptResultError("its final scores are damaged")
        for name in SCORE:
            _check_number(name, score.get(name, "nothing"))


def _check_number(name: str, value: Any, optional: bool = False) -> None:
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CorruptResultError(f"its {name} must be a number, got {value!r}")
    if name in ("step", "num_episodes") and not math.isfinite(value):
        raise CorruptResultError(f"its {name} must be finite, got {value!r}")


def _upgraded(result: Result, run: Run) -> Result:
    """Return a result of format 1: its last evaluation is the final score.

    All runs were evaluated on the same episodes, whose luck they share.
    """
    curve = {name: column[:-1] for name, column in result["curve"].items()}
    score = {name: result["curve"][name][-1] for name in SCORE}
    score["shared_error"] = score["standard_error"]
    entry = ALGORITHMS.get(run.algorithm)
    way = "greedy" if entry is not None and entry.is_greedy else "sampled"
    last = {name: result["curve"][name][-1] for name in run.evaluation.log}
    return {
        **result,
        "curve": curve,
        "final": {way: {**score, **last}},
        "rule": None,
    }
