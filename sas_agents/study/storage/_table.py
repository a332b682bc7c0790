"""The table of results: a row per evaluation of a run, from folders and CSV files."""

import json
import warnings
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sas_agents.study.definition._runs import Run
from sas_agents.study.definition._settings import Labelled
from sas_agents.study.storage._format import SCORE, Result
from sas_agents.study.storage._scales import normalized, rule_score
from sas_agents.study.storage._store import read_folder

if TYPE_CHECKING:
    import pandas as pd

NEEDED = (
    "key",
    "environment",
    "variant",
    "label",
    "algorithm",
    "seed",
    "num_steps",
    "step",
    "mean_return",
    "standard_error",
    "num_episodes",
    "random",
    "optimal",
    "seconds",
    "run",
)
"""Columns that every CSV file of results has, the older ones too."""

TEXTS = "key", "environment", "variant", "label", "algorithm", "run"
# Algorithms that older files evaluated greedily.
GREEDY = "SASQ", "MaskedQRDQN", "RepairedDQN"

Source = str | Path


def collect(
    source: Source | Sequence[Source], runs: Iterable[Labelled] = ()
) -> "pd.DataFrame":
    """Read all results at once.

    The table has a row per evaluation of a run: the points of its learning curve
    (`evaluation` is "curve"), and its final scores ("final"), one for each way in which
    the policy acts (`acting` is "sampled" or "greedy"). The same run counts once,
    however many of the sources have it.

    Args:
        source: A folder, a CSV file that `sas-study table --csv` wrote, or several.
        runs: The runs of a study, to keep its results only, under its labels. A result
            counts for a run that trains in the same way, with any versions and any
            evaluation; of several the newest counts.

    Raises:
        ValueError: If a file is not such a CSV.
    """
    import pandas as pd

    sources = [source] if isinstance(source, str | Path) else list(source)
    frames = [frame for one in sources if len(frame := read_source(Path(one)))]
    if not frames:
        return pd.DataFrame()
    table = _each_run_once(pd.concat(frames, ignore_index=True))
    labelled = list(runs)
    return _of_study(table, labelled) if labelled else table


def read_source(path: Path) -> "pd.DataFrame":
    """Read a folder of results, or a CSV file."""
    return read_csv(path) if path.is_file() else tidy(read_folder(path))


def _each_run_once(table: "pd.DataFrame") -> "pd.DataFrame":
    """Drop the rows of runs that an earlier source has already."""
    row = ["key", "evaluation", "acting", "step"]
    return table.drop_duplicates(row, ignore_index=True)


def _of_study(table: "pd.DataFrame", runs: list[Labelled]) -> "pd.DataFrame":
    """Keep the results of a study, in its order and under its labels."""
    labels = {run.training: label for label, run in runs}
    order = {training: index for index, training in enumerate(labels)}
    by_text = {text: _training(text) for text in set(table.run)}
    table = table.assign(training=table.run.map(by_text))
    table = table[table.training.isin(order)]
    newest = table.drop_duplicates("key").sort_values("finished", kind="stable")
    kept = newest.drop_duplicates("training", keep="last").key
    table = table[table.key.isin(kept)]
    table = table.assign(
        label=table.training.map(labels), place=table.training.map(order)
    )
    table = table.sort_values("place", kind="stable", ignore_index=True)
    return table.drop(columns=["training", "place"])


def _training(text: str) -> str:
    return Run.from_dict(json.loads(text)).training


def tidy(results: Iterable[Result]) -> "pd.DataFrame":
    """Put results into one table."""
    import pandas as pd

    frames = [_frame(result) for result in results]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _frame(result: Result) -> "pd.DataFrame":
    import pandas as pd

    run, curve = result["run"], result["curve"]
    logged = run["evaluation"]["log"]
    way = "sampled" if "sampled" in result["final"] else "greedy"
    points = pd.DataFrame({name: curve[name] for name in ["step", *SCORE, *logged]})
    points = points.assign(evaluation="curve", acting=way)
    points["shared_error"] = points["standard_error"]
    last = {name: curve[name][-1] for name in logged}
    scores = [
        {"shared_error": 0.0, **last, **score, "acting": acting}
        for acting, score in result["final"].items()
    ]
    finals = pd.DataFrame(scores).assign(step=run["num_steps"], evaluation="final")
    numbers = ["mean_return", "standard_error", "shared_error", "num_episodes", *logged]
    both = [part.astype(dict.fromkeys(numbers, float)) for part in (points, finals)]
    frame = pd.concat(both, ignore_index=True)
    about = {
        "key": result["key"],
        "environment": run["environment"],
        "variant": variant_of(run["environment_arguments"]),
        "availability": run["environment_arguments"].get("availability"),
        "label": run["algorithm"],
        "algorithm": run["algorithm"],
        "seed": run["seed"],
        "num_steps": run["num_steps"],
    }
    for place, (name, value) in enumerate(about.items()):
        frame.insert(place, name, value)
    frame["availability"] = frame["availability"].astype(float)
    reference = {name: result.get(name) for name in ("random", "rule", "optimal")}
    means = frame["mean_return"]
    frame["score"] = [normalized(mean, reference) for mean in means]
    frame["rule_score"] = [rule_score(mean, reference) for mean in means]
    for name, value in reference.items():
        frame[name] = value
    frame["seconds"] = training_seconds(result["timing"])
    frame["finished"] = result["timing"]["finished"]
    frame["run"] = json.dumps(run, sort_keys=True)
    return frame.astype(dict.fromkeys(["score", "rule_score", *reference], float))


def read_csv(path: Path) -> "pd.DataFrame":
    """Read a CSV file of results, and check each row's run by its key.

    Raises:
        ValueError: If it is not such a file.
    """
    import pandas as pd

    texts = dict.fromkeys([*TEXTS, "finished"], str)
    try:
        frame = pd.read_csv(path, dtype=texts, keep_default_na=False, na_values=[""])
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise ValueError(f"{path} is not a CSV file of results: {error}") from error
    missing = [name for name in NEEDED if name not in frame]
    if missing:
        raise ValueError(
            f"{path} is not a CSV file of results: it has no column {missing[0]!r}; "
            "`sas-study table STUDY --csv FILE` writes such a file"
        )
    # An environment without variants has an empty text, which pandas takes for missing.
    frame[list(TEXTS)] = frame[list(TEXTS)].fillna("")
    _check_numbers(frame, path)
    return upgraded(_with_true_keys(frame, path))


def _check_numbers(frame: "pd.DataFrame", path: Path) -> None:
    from pandas.api.types import is_numeric_dtype

    for name in NEEDED:
        if name not in TEXTS and not is_numeric_dtype(frame[name]):
            raise ValueError(f"{path}: the column {name!r} must hold numbers only")


def _with_true_keys(frame: "pd.DataFrame", path: Path) -> "pd.DataFrame":
    """Drop rows whose key belongs to another run, with a warning."""
    wrong = {
        text: key
        for key, text in set(zip(frame.key, frame.run, strict=True))
        if not _is_run_of(key, text)
    }
    if wrong:
        warnings.warn(
            f"{path}: {len(wrong)} runs contradict their keys, such as "
            f"{next(iter(wrong.values()))!r}: they were edited, and are left out",
            stacklevel=2,
        )
    return frame[~frame.run.isin(wrong)].reset_index(drop=True)


def _is_run_of(key: str, text: str) -> bool:
    try:
        return Run.from_dict(json.loads(text)).key == key
    except (ValueError, AttributeError, TypeError):
        return False


def upgraded(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Return a table of results with the columns that came later.

    In older tables the last evaluation of a run is its final score, and all runs were
    evaluated on the same episodes, whose luck they share.
    """
    if "evaluation" in frame:
        return frame
    is_last = frame["step"] == frame.groupby("key")["step"].transform("max")
    algorithm = frame["algorithm"] if "algorithm" in frame else frame["label"]
    later: dict[str, Any] = {
        "evaluation": is_last.map({True: "final", False: "curve"}),
        "acting": algorithm.isin(GREEDY).map({True: "greedy", False: "sampled"}),
        "shared_error": frame.get("standard_error", 0.0),
        "rule": float("nan"),
        "rule_score": float("nan"),
        "finished": "",
    }
    return frame.assign(**later)


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


def find_run(sources: Sequence[Source], key: str) -> tuple[Run, dict[str, list[Any]]]:
    """Return a run and its learning curve, by the start of its key.

    Raises:
        ValueError: If there is none, or more than one.
    """
    key = key.removesuffix(".json")
    frame = collect(sources)
    found = [] if frame.empty else sorted({k for k in frame.key if k.startswith(key)})
    if len(found) != 1 or not key:
        where = ", ".join(map(str, sources))
        raise ValueError(
            f"{where} has {len(found) or 'no'} results whose key starts with {key!r}"
        )
    rows = frame[(frame.key == found[0]) & (frame.evaluation == "curve")]
    curve = {name: rows[name].tolist() for name in ("step", "mean_return")}
    return Run.from_dict(json.loads(rows["run"].iloc[0])), curve
