"""The tables of the page of results: by hand, and as they stand in the repository."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from scipy import stats

tables: Any = import_module("examples.paper.results_page")


def made_up_results() -> pd.DataFrame:
    """Return the final rows of three seeds of two agents, on a scale of 19.5."""
    rows = [
        {
            "key": f"{label}{seed}",
            "environment": "SAS/Maze-v0",
            "variant": "0.8",
            "label": label,
            "step": 100,
            "num_steps": 100,
            "mean_return": mean + seed,
            "standard_error": 0.3,
        }
        for label, mean in (("SASPG", 10.0), ("SASQ", 8.0), ("MaskablePPO", 3.0))
        for seed in range(3)
    ]
    frame = pd.DataFrame(rows).assign(optimal=20.0, random=0.5)
    return frame.assign(score=(frame.mean_return - 0.5) / 19.5)


def test_summary_has_an_interval_of_seeds_and_episodes():
    """By hand: t has 2 degrees of freedom, and the episodes' error is normal."""
    row, other = tables.summary(made_up_results())
    margin = (4.302653**2 / 3 + 1.959964**2 * 0.09) ** 0.5 / 19.5
    interval = f"[{10.5 / 19.5 - margin:.3f}, {10.5 / 19.5 + margin:.3f}]"
    assert row == {
        "environment": "`SAS/Maze-v0`",
        "agent": "SASPG",
        "sampled": "11.00 ± 1.00",
        "greedy": "-",
        "optimum": "20.00",
        "normalized, 95 % interval": f"0.538 {interval}",
        "seeds": 3,
    }
    assert (other["sampled"], other["greedy"]) == ("-", "9.000 ± 1.000")


@pytest.mark.parametrize(("shift", "ties"), [(0.5, True), (30.0, False)])
def test_welch_agrees_with_scipy(shift, ties):
    x, y = pd.Series([1.0, 2.0, 4.0]) + shift, pd.Series([1.0, 5.0, 2.0, 3.0])
    expected = stats.ttest_ind(x, y, equal_var=False).confidence_interval()
    text = f"[{expected.low:.2f}, {expected.high:.2f}]"
    assert tables.welch(x, y) == text + (", tie" if ties else "")


def test_page_shows_the_committed_results(tmp_path: Path):
    """The program changes nothing: the page and the files agree."""
    copy = tmp_path / "page.md"
    copy.write_text(tables.PAGE.read_text())
    command = [sys.executable, "-m", "examples.paper.results_page", "--page", str(copy)]
    subprocess.run(command, cwd=tables.ROOT, check=True)
    assert copy.read_text() == tables.PAGE.read_text()
