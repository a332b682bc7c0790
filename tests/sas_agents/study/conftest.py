"""A tiny study, and its results made without disturbance."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sas_agents.study import AlgorithmSettings as Algorithm
from sas_agents.study import EnvironmentSettings as Environment
from sas_agents.study import Evaluation, Run, Study, load_study
from sas_agents.study.running._training import Result, execute

TINY = """
num_steps = 600
num_envs = 4
num_seeds = 3

[evaluation]
num_points = 3
num_episodes = 10
num_final_episodes = 20

[search]
num_trials = 3

[[environment]]
id = "SAS/SanFrancisco-v0"
availabilities = [0.2, 0.8]

[[algorithm]]
name = "SASPG"
preset = "ours"
arguments = { n_steps = 32 }
search.learning_rate = { low = 0.01, high = 1.0, log = true }

[[algorithm]]
name = "SASQ"
arguments = { learning_starts = 100, gradient_steps = 1 }
search.learning_rate = { low = 0.001, high = 0.2, log = true, schedule = "linear" }
search.batch_size = [32, 64]
"""


@pytest.fixture
def tiny_file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture
def tiny() -> Study:
    return Study(
        environments=(Environment("SAS/SanFrancisco-v0", (0.2, 0.8)),),
        algorithms=(
            Algorithm("SASPG", preset="ours", arguments={"n_steps": 32}),
            Algorithm("SASQ", arguments={"learning_starts": 100, "gradient_steps": 1}),
        ),
        num_steps=600,
        num_envs=4,
        num_seeds=3,
        evaluation=Evaluation(3, 10, 20),
    )


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of the tiny study by key, without timings, made in this process."""
    path = tmp_path_factory.mktemp("undisturbed") / "tiny.toml"
    path.write_text(TINY)
    results = [execute(run) for _, run in load_study(path).runs()]
    return {
        result["key"]: {key: result[key] for key in result if key != "timing"}
        for result in json.loads(json.dumps(results))
    }


@pytest.fixture
def made_up() -> Callable[..., Result]:
    """Return what makes a result as `execute` would, without the training."""
    return _made_up


def _made_up(
    run: Run, returns: Sequence[float] = (0.0, 1.0), finished: str = "2026-01-01"
) -> Result:
    count = len(returns)
    curve = {
        "step": list(range(0, 100 * count, 100)),
        "mean_return": list(returns),
        "standard_error": [0.1] * count,
        "num_episodes": [10] * count,
        "train/weight_v_hat": [None] + [-0.5] * (count - 1),
        "train/weight_q_bar": [None] + [-0.25] * (count - 1),
    }
    score = {"mean_return": returns[-1], "standard_error": 0.05, "num_episodes": 20}
    ways = ("greedy",) if run.entry.is_greedy else ("sampled", "greedy")
    return {
        "format": 2,
        "key": run.key,
        "command": f"sas-study repeat {run.key}.json",
        "run": run.to_dict(),
        "random": 0.0,
        "rule": None,
        "optimal": 10.0,
        "curve": curve,
        "final": dict.fromkeys(ways, score),
        "timing": {"seconds": 1.0, "finished": finished},
    }
