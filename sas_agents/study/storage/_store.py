"""Result files: one per run, written atomically, read with care."""

import json
import os
import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sas_agents.study._files import write_text
from sas_agents.study.definition._runs import Run
from sas_agents.study.definition._settings import Labelled
from sas_agents.study.running._training import COLUMNS, FORMAT, Result, normalized

if TYPE_CHECKING:
    import pandas as pd

KEY_FORM = re.compile(r"[0-9a-f]{16}")


class CorruptResultError(ValueError):
    """A result file that is not what `write_result` wrote."""


def result_path(folder: Path, key: str) -> Path:
    """Return where the result of a run is kept."""
    return folder / f"{key}.json"


def write_result(folder: Path, result: Result) -> Path:
    """Write a result so that its file is either whole or not there.

    Raises:
        StorageError: If the disk is full or cannot be written to.
    """
    path = result_path(folder, result["key"])
    write_text(path, json.dumps(result, indent=1) + "\n")
    return path


def read_result(path: Path) -> Result:
    """Read a result and check that it belongs to its file name.

    Raises:
        CorruptResultError: If it is half-written, edited or of another format.
    """
    try:
        result: Result = json.loads(path.read_text())
        run = Run.from_dict(result["run"])
        columns = [*COLUMNS, *run.evaluation.log]
        lengths = {len(result["curve"][name]) for name in columns}
        is_whole = len(lengths) == 1 and {"random", "optimal", "timing"} <= set(result)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptResultError(f"{path} is not a whole result: {error}") from error
    if result.get("format") != FORMAT or not is_whole:
        raise CorruptResultError(f"{path} is not a whole result of format {FORMAT}")
    if run.key != result["key"] or run.key != path.stem:
        raise CorruptResultError(
            f"{path} does not hold the run that its name says: it was edited or renamed"
        )
    return result


def result_files(folder: Path) -> list[Path]:
    """Return the paths of all results in a folder, whole or not."""
    files = folder.glob("*.json") if folder.exists() else []
    return sorted(path for path in files if KEY_FORM.fullmatch(path.stem))


def read_folder(folder: Path) -> list[Result]:
    """Read all results of a folder; warn of files that are not whole, and skip them."""
    results = []
    for path in result_files(folder):
        try:
            results.append(read_result(path))
        except CorruptResultError as error:
            warnings.warn(f"{error}; skipped: `sas-study run` repeats it", stacklevel=2)
    return results


def is_finished(folder: Path, run: Run) -> bool:
    """Return whether a run has its result; put a corrupt one aside, with a warning."""
    path = result_path(folder, run.key)
    if not path.exists():
        return False
    try:
        read_result(path)
    except CorruptResultError as error:
        aside = path.with_suffix(".corrupt")
        os.replace(path, aside)
        warnings.warn(
            f"{error}; moved to {aside}, and the run is repeated", stacklevel=2
        )
        return False
    return True


def finished_settings(folder: Path) -> set[str]:
    """Return the settings that have a result, made with whatever versions."""
    return {Run.from_dict(result["run"]).setting for result in read_folder(folder)}


def tidy(results: Iterable[Result], runs: Iterable[Labelled] = ()) -> "pd.DataFrame":
    """Put results into one table, with a row per run and evaluation.

    Args:
        results: The results.
        runs: If any are given, only their results are kept, under their labels. A
            result counts for a run if all but the versions agree; of several, the
            newest does.
    """
    import pandas as pd

    labels = {run.setting: label for label, run in runs}
    newest: dict[str, Result] = {}
    for result in sorted(results, key=lambda result: result["timing"]["finished"]):
        setting = Run.from_dict(result["run"]).setting
        if not labels or setting in labels:
            newest[setting if labels else result["key"]] = result
    order = {setting: index for index, setting in enumerate(labels)}
    ordered = sorted(newest.items(), key=lambda item: order.get(item[0], 0))
    frames = [
        _frame(result, labels.get(setting, result["run"]["algorithm"]))
        for setting, result in ordered
    ]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _frame(result: Result, label: str) -> "pd.DataFrame":
    import pandas as pd

    run = result["run"]
    reference = {name: result[name] for name in ("random", "optimal")}
    frame = pd.DataFrame(
        {
            "key": result["key"],
            "environment": run["environment"],
            "variant": variant_of(run["environment_arguments"]),
            "availability": run["environment_arguments"].get("availability"),
            "label": label,
            "algorithm": run["algorithm"],
            "seed": run["seed"],
            "num_steps": run["num_steps"],
            **result["curve"],
        }
    )
    frame["score"] = [
        normalized(mean, reference) for mean in result["curve"]["mean_return"]
    ]
    frame["random"], frame["optimal"] = reference["random"], reference["optimal"]
    frame["seconds"] = training_seconds(result["timing"])
    frame["run"] = json.dumps(run, sort_keys=True)
    numbers = ["score", "random", "optimal", *run["evaluation"]["log"]]
    return frame.astype(dict.fromkeys(numbers, float))


def training_seconds(timing: dict[str, Any]) -> float:
    """Return the time that learning took, without the evaluations.

    It is processor time, of the one thread that a run has: the time on the clock where
    a machine has nothing else to do.
    """
    if "evaluation_cpu_seconds" in timing:
        return float(timing["cpu_seconds"] - timing["evaluation_cpu_seconds"])
    return float(timing["seconds"] - timing.get("evaluation_seconds", 0.0))


def variant_of(arguments: dict[str, Any]) -> str:
    """Return a short name for the arguments of an environment."""
    named = dict(arguments)
    availability = named.pop("availability", None)
    parts = [] if availability is None else [f"{availability:g}"]
    for name, value in named.items():
        if name == "action_sets" and isinstance(value, dict):
            ((kind, values),) = value.items()
            parts.append(f"{kind}({', '.join(map(str, values))})")
        else:
            parts.append(f"{name}={value}")
    return ", ".join(parts)


def collect(source: str | Path, runs: Iterable[Labelled] = ()) -> "pd.DataFrame":
    """Read all results at once: from a folder, or from a CSV that `table` wrote.

    Args:
        source: The folder or the file.
        runs: The runs of a study, to keep its results only; see `tidy`.

    Returns:
        A row per run and evaluation; the last row of a run is its final evaluation.
    """
    import pandas as pd

    path = Path(source)
    if not path.is_file():
        return tidy(read_folder(path), runs)
    frame = pd.read_csv(path, dtype={"variant": str, "key": str})
    # An environment without variants has an empty text, which pandas takes for missing.
    frame["variant"] = frame["variant"].fillna("")
    labels = {run.setting: label for label, run in runs}
    if not labels:
        return frame
    settings = {
        text: Run.from_dict(json.loads(text)).setting for text in set(frame.run)
    }
    frame["label"] = frame["run"].map(settings).map(labels)
    return frame[frame["label"].notna()].reset_index(drop=True)


def find_run(source: Path, key: str) -> tuple[Run, dict[str, list[Any]]]:
    """Return a run and its learning curve, by the start of its key."""
    key = key.removesuffix(".json")
    frame = collect(source)
    found = [] if frame.empty else sorted({k for k in frame.key if k.startswith(key)})
    if len(found) != 1:
        raise ValueError(
            f"{source} has {len(found) or 'no'} results whose key starts with {key!r}"
        )
    rows = frame[frame.key == found[0]]
    curve = {name: rows[name].tolist() for name in ("step", "mean_return")}
    return Run.from_dict(json.loads(rows["run"].iloc[0])), curve
