"""A tiny study, and its results made without disturbance."""

from pathlib import Path
from typing import Any

import pytest

from sas_agents.study import Backend, Evaluation, Study, run_study
from sas_agents.study import AlgorithmSettings as Algorithm
from sas_agents.study import EnvironmentSettings as Environment
from sas_agents.study._store import read_folder

TINY = """
num_steps = 1200
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
search.learning_rate = { low = 0.01, high = 1.0, log = true }

[[algorithm]]
name = "SASQ"
arguments = { learning_starts = 100 }
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
            Algorithm("SASPG", preset="ours"),
            Algorithm("SASQ", arguments={"learning_starts": 100}),
        ),
        num_steps=1200,
        num_envs=4,
        num_seeds=3,
        evaluation=Evaluation(3, 10, 20),
    )


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of the tiny study by key, without their timings."""
    from sas_agents.study import load_study

    folder = tmp_path_factory.mktemp("undisturbed")
    path = folder / "tiny.toml"
    path.write_text(TINY)
    report = run_study(
        load_study(path).runs(), folder, Backend(num_jobs=2), progress=False
    )
    assert not report.failed
    return without_timings(folder)


def without_timings(folder: Path) -> dict[str, Any]:
    """Return the results of a folder by key, without their timings."""
    results = read_folder(folder)
    return {
        result["key"]: {key: result[key] for key in result if key != "timing"}
        for result in results
    }
