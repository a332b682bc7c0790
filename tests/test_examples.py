"""The examples that are programs keep the promises of their texts."""

from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest

import sas_gym
from sas_agents.study import load_study
from sas_agents.study.storage._store import variant_of
from sas_gym.planning import optimal_return

DISPATCH_ID = "examples.dispatch:sas_examples/Dispatch-v0"
dispatch: Any = import_module("examples.dispatch")
grid: Any = import_module("examples.grid")
tables: Any = import_module("examples.paper.tables")


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
    columns = ("key", "environment", "variant", "label", "step", "mean_return")
    rows = [
        (
            run.key,
            run.environment,
            variant_of(run.environment_arguments),
            label,
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
    return frame.assign(optimal=20.0, random=0.5, score=score, **logged, **variances)


def test_page_of_the_paper_is_filled_from_results(tmp_path: Path):
    """Every table has its place, with the numbers of the files or how to get them."""
    page = tables.PAGE.read_text()
    assert tables.filled(page, tmp_path).count("Not run yet: `sas-study run") == 18
    for study in ("ours", "paper", "baselines", "assumptions", "features", "weights"):
        made_up_results(study).to_csv(tmp_path / f"{study}.csv.gz", index=False)
    filled = tables.filled(page, tmp_path)
    assert "Not run yet" not in filled
    maze = "| `SAS/Maze-v0` | 0.2 |"
    assert f"{maze} 11.00 ± 1.00 | 11.00 ± 1.00 | 9.000 ± 1.000 | 20.00 | 3 |" in filled
    assert f"{maze} -0.500 ± 0.000 | -0.250 ± 0.000 |" in filled
    assert f"{maze} none | 0.500 ± 0.000 | 7.333 ± 0.667 | 11.00 ± 1.00 |" in filled
    assert "| `SAS/Maze-v0` | SASPG | 11.00 ± 1.00 | 11.00 ± 1.00 | [" in filled
    assert "| SASPG | 12 | 36 | 0.5385 | [" in filled
    assert "| `SAS/Maze-v0` | SASPG | 50 | never | never | never |" in filled
    assert filled.count("| PerEpisode(0.7) | [") == 2
    assert tables.filled(filled, tmp_path) == filled


def test_page_of_the_paper_takes_a_part_of_a_study(tmp_path: Path):
    """Results without SAS-Q, or of one seed, fill what they can."""
    page = tables.PAGE.read_text()
    results = made_up_results("paper")
    part = results[results.label != "SASQ"].groupby(["variant", "label"]).head(3)
    part.to_csv(tmp_path / "paper.csv.gz", index=False)
    filled = tables.filled(page, tmp_path)
    assert "10.00 ± nan" not in filled
    assert "| `SAS/SanFrancisco-v0` | 0.2 | 10.00 | 10.00 | 20.00 | 1 |" in filled
