"""The examples that are programs keep the promises of their texts."""

import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest

import sas_gym
from sas_agents.study import load_study
from sas_agents.study.storage._table import variant_of
from sas_gym.planning import optimal_return

pytestmark = pytest.mark.slow

DISPATCH_ID = "examples.dispatch:sas_examples/Dispatch-v0"
dispatch: Any = import_module("examples.dispatch")
grid: Any = import_module("examples.grid")
tables: Any = import_module("examples.paper.tables")
third_party: Any = import_module("examples.third_party")
EXAMPLES = Path(__file__).parents[1] / "examples"
STUDIES = "ours", "paper", "baselines", "assumptions", "features", "weights"


def run_program(name: str, *arguments: str, folder: Path) -> str:
    """Run an example in a folder as a user does, and return the output."""
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_dispatch_runs_to_its_end(tmp_path: Path):
    output = run_program(
        "dispatch.py", "--steps", "512", "--episodes", "4", folder=tmp_path
    )
    assert "nearest driver: " in output
    assert "MaskedPPO after " in output


def test_grid_runs_to_its_end(tmp_path: Path):
    output = run_program("grid.py", "--size", "4", "--steps", "2000", folder=tmp_path)
    assert "best policy: -4." in output
    assert "SASQ after 2,048 steps: -" in output


def test_tour_runs_to_its_end_and_writes_into_results(tmp_path: Path):
    output = run_program("tour.py", "--episodes", "100", folder=tmp_path)
    paths = [Path(line) for line in output.splitlines() if line.startswith("results")]
    assert len(paths) == len(sas_gym.SPECS) + 1
    assert all((tmp_path / path).stat().st_size > 1000 for path in paths)


def test_environments_of_others_run_to_the_end(tmp_path: Path):
    """Gymnasium's own stands for those that the tests do not install."""
    page = tmp_path / "page.md"
    page.write_text("<!-- table: third party -->old<!-- end -->kept")
    small = "--steps", "256", "--seeds", "2", "--episodes", "2"
    arguments = ("--only", "Taxi", *small, "--page", str(page))
    output = run_program("third_party.py", *arguments, folder=tmp_path)
    row = r"\| Taxi \| gymnasium [\d.]+ \| .* \| 256 \| -200 ± 0 \| -\d+ ± "
    assert re.search(row, output)
    assert re.search(row, page.read_text())
    assert page.read_text().endswith("<!-- end -->kept")


def test_lines_of_the_third_party_page_are_the_ones_that_run():
    page = (EXAMPLES.parent / "docs" / "third_party.md").read_text()
    assert len(third_party.GUESTS) >= 7
    for guest in third_party.GUESTS:
        assert f"`{guest.env}`" in page
        assert guest.mask in page
        assert guest.package in page


def test_every_program_is_run_by_a_test():
    """One other program runs the notebooks, and one has its own test file."""
    files = set(EXAMPLES.rglob("*.py")) - set(EXAMPLES.rglob("__init__.py"))
    programs = {str(path.relative_to(EXAMPLES)) for path in files}
    code = Path(__file__).read_text()
    run = set(re.findall(r'run_program\(\s*"([\w/]+\.py)"', code))
    assert programs - run == {"store_outputs.py", "paper/results_page.py"}


def test_dispatch_keeps_the_contract():
    sas_gym.check_env(gym.make(DISPATCH_ID))


def test_dispatch_rewards_near_drivers():
    """The rule of the nearest driver is far better than anyone who is free."""
    assert dispatch.play(None, 20).mean() < 0
    assert dispatch.play(dispatch.nearest_driver, 20).mean() > 85


def test_dispatch_waits_for_a_driver():
    """With one driver time passes until they are free, so that someone always is."""
    env = dispatch.Dispatch(num_drivers=1)
    env.reset(seed=0)
    for _ in range(10):
        _, _, _, _, info = env.step(0)
        assert info["action_mask"].tolist() == [1]


def test_dispatch_keeps_drivers_busy():
    """A driver is busy for as long as the two ways take, and refuses orders."""
    env = dispatch.Dispatch(num_drivers=3)
    env.reset(seed=0)
    way = np.linalg.norm(env.drivers[1] - env.pickup)
    trip = np.linalg.norm(env.destination - env.pickup)
    arrival = env.destination
    obs, reward, *_ = env.step(1)
    assert reward == pytest.approx(2 - 4.5 * way)
    assert env.hours_left[1] == pytest.approx(way + trip - 1 / 30)
    np.testing.assert_allclose(env.drivers[1], arrival, rtol=1e-6)
    to_next = np.linalg.norm(arrival - env.pickup)
    assert obs["distance"][1] == pytest.approx(to_next, rel=1e-6)
    assert env.action_masks().tolist() == [True, False, True]
    with pytest.raises(ValueError, match="driver 1 is busy"):
        env.step(1)


def test_grid_has_the_values_of_the_readme():
    """The map of 30 by 30 junctions, solved exactly within 200 steps."""
    env = sas_gym.SASVectorEnv(grid.grid(), max_episode_steps=200)
    assert optimal_return(env) == pytest.approx(-36.8, abs=0.1)


def made_up_results(study: str) -> pd.DataFrame:
    """Return results of a study in which seed i ends at 10 + i, and SASQ 2 below.

    Seeds count from the study's first one.
    """
    columns = (
        *("key", "environment", "variant", "label", "algorithm", "seed", "num_steps"),
        *("run", "step", "mean_return"),
    )
    rows = [
        (
            run.key,
            run.environment,
            variant_of(run.environment_arguments),
            label,
            run.algorithm,
            run.seed,
            run.num_steps,
            json.dumps(run.to_dict()),
            step,
            (10.0 + run.seed % 1000 - 2 * (label == "SASQ")) * (step > 0),
        )
        for label, run in load_study(study).part(num_seeds=3).runs()
        for step in (0, 50, 100)
    ]
    frame = pd.DataFrame(rows, columns=columns)
    logged = {"train/weight_v_hat": -0.5, "train/weight_q_bar": -0.25}
    variances = {tables.SHARE[0]: frame.step * 0.5, tables.SHARE[1]: frame.step}
    score = (frame.mean_return - 0.5) / 19.5
    about = {"optimal": 20.0, "random": 0.5, "num_episodes": 1000, "seconds": 1.0}
    return frame.assign(score=score, standard_error=0.3, **about, **logged, **variances)


def test_page_of_the_paper_is_filled_from_results(tmp_path: Path):
    """Every table has its place, with the numbers of the files or how to get them."""
    page = tables.PAGE.read_text()
    unfilled = tables.filled(page, tables.TABLES, tmp_path)
    assert unfilled.count("Not run yet: `sas-study run") == 18
    for study in STUDIES:
        made_up_results(study).to_csv(tmp_path / f"{study}.csv.gz", index=False)
    filled = tables.filled(page, tables.TABLES, tmp_path)
    assert "Not run yet" not in filled
    maze = "| `SAS/Maze-v0` | 0.2 |"
    assert f"{maze} 11.00 ± 1.00 | 11.00 ± 1.00 | 9.000 ± 1.000 | 20.00 | 3 |" in filled
    assert f"{maze} -0.500 ± 0.000 | -0.250 ± 0.000 |" in filled
    assert f"{maze} none | 0.500 ± 0.000 | 7.333 ± 0.667 | 11.00 ± 1.00 |" in filled
    # The maze has no streets: its columns of these are empty.
    assert "| `SAS/Maze-v0` | SASPG | 11.00 ± 1.00 | - |" in filled
    assert "| SASPG | 12 | 36 | 0.5385 | [" in filled
    assert "| `SAS/Maze-v0` | SASPG | 50 | never | never | never |" in filled
    assert filled.count("PerEpisode(0.7) | [") == 2
    assert tables.filled(filled, tables.TABLES, tmp_path) == filled


def test_page_of_the_paper_shows_the_committed_results(tmp_path: Path):
    """The program changes nothing: the page and the files agree."""
    copy = tmp_path / "page.md"
    copy.write_text(tables.PAGE.read_text())
    run_program("paper/tables.py", "--page", str(copy), folder=tmp_path)
    assert copy.read_text() == tables.PAGE.read_text()


def test_page_of_the_paper_takes_a_part_of_a_study(tmp_path: Path):
    """Results without SAS-Q, or of one seed, fill what they can."""
    page = tables.PAGE.read_text()
    results = made_up_results("paper")
    part = results[results.label != "SASQ"].groupby(["variant", "label"]).head(3)
    part.to_csv(tmp_path / "paper.csv.gz", index=False)
    filled = tables.filled(page, tables.TABLES, tmp_path)
    assert "10.00 ± nan" not in filled
    assert "| `SAS/SanFrancisco-v0` | 0.2 | 10.00 | 10.00 | 20.00 | 1 |" in filled
