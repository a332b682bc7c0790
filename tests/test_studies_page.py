"""The recipe of docs/studies.md works as it stands, from an empty folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "studies.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
NAMES = re.findall(r"^`([\w.]+)`:$", PAGE.read_text(), flags=re.MULTILINE)


def test_recipe_is_short() -> None:
    """Thirty lines of an algorithm, ten of TOML or one more, and three commands."""
    algorithm, _, study, commands = (text for _, text in BLOCKS[:4])
    body = algorithm.partition("def train")[2]
    assert len([line for line in body.splitlines() if line.strip()]) <= 30
    assert len(study.splitlines()) <= 11
    assert len(commands.splitlines()) == 3


@pytest.mark.slow
def test_recipe_runs_from_an_empty_folder(tmp_path: Path) -> None:
    """Its three files and its three commands, with two seeds."""
    assert NAMES == ["my_algorithm.py", "my_environment.py", "mine.toml"]
    for name, (_, text) in zip(NAMES, BLOCKS, strict=False):
        (tmp_path / name).write_text(text)
    root = str(PAGE.parents[1])
    for command in BLOCKS[3][1].splitlines():
        program, *arguments = command.split()
        assert program == "sas-study"
        done = subprocess.run(
            [sys.executable, "-m", "sas_agents.study", *arguments, "--seeds", "2"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": root},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        if "table" in arguments:
            means = {
                line.split()[2]: float(line.split()[4])
                for line in done.stdout.splitlines()
                if line.startswith("my_environment:Corridor")
            }
            # The best policy has about -6.1.
            assert set(means) == {"mine", "SASPG"}
            assert all(-8 < mean < -6 for mean in means.values())
    assert (tmp_path / "figures" / "learning_curves.png").exists()
    assert len(list((tmp_path / "results").glob("*.json"))) == 4
