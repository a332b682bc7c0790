"""The command line: a whole small study, its help, and its messages."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sas_agents.study.__main__ import main
from sas_agents.study.commands._parser import EXAMPLES
from sas_agents.study.figures import FIGURES
from sas_agents.study.running._backends import Backend, Outcome


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in this process: starting workers takes longer than a tiny study."""

    def map_here(_: Backend, function: Any, items: Any) -> Any:
        return (Outcome(item, function(item)) for item in items)

    monkeypatch.setattr(Backend, "map", map_here)


@pytest.mark.usefixtures("in_process")
def test_whole_study_on_the_command_line(
    tiny_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run, status, table, plot and repeat, each from what the one before left."""
    folder, csv = tmp_path / "results", tmp_path / "all.csv.gz"
    study = [str(tiny_file), "--folder", str(folder), "--seeds", "2"]
    assert main(["run", *study, "--no-progress"]) == 0
    assert "8 runs done, 0 were done before, 0 failed" in capsys.readouterr().out
    assert main(["status", *study]) == 0
    assert "8 of 8 runs are done" in capsys.readouterr().out
    assert main(["table", *study, "--csv", str(csv)]) == 0
    printed = capsys.readouterr().out
    assert "Probability of improvement" in printed
    assert "Sample efficiency" in printed
    study[2] = str(csv)
    assert main(["plot", *study, "--output", str(tmp_path / "figures")]) == 0
    # All but the variance of the gradient, which this study does not log.
    assert len(list((tmp_path / "figures").glob("*.png"))) == len(FIGURES) - 1
    result = next(folder.glob("*.json"))
    assert main(["repeat", str(result)]) == 0
    assert "the curves are equal" in capsys.readouterr().out
    result.write_text(
        result.read_text().replace('"mean_return": [', '"mean_return": [9,')
    )
    assert main(["repeat", str(result)]) == 2
    assert f"warning: {result} is not a whole result" in capsys.readouterr().err


GUEST = """
num_steps = 64
num_envs = 4
num_seeds = 2

[evaluation]
num_points = 2
num_episodes = 3
num_final_episodes = 5

[search]
num_trials = 1
num_final_seeds = 0

[[environment]]
id = "sb3_contrib.common.envs:InvalidActionEnvDiscrete"
availabilities = []
arguments = { dim = 5, n_invalid_actions = 3, ep_length = 10 }

[[algorithm]]
name = "MaskedPPO"
arguments = { n_steps = 8, batch_size = 16 }
search.learning_rate = [0.001, 0.01]

[[algorithm]]
name = "MaskedA2C"
"""


@pytest.mark.usefixtures("in_process")
def test_whole_study_of_a_guest_has_returns_instead_of_scores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command works on an environment whose optimum nobody knows."""
    path, folder = tmp_path / "guest.toml", tmp_path / "results"
    path.write_text(GUEST)
    study = [str(path), "--folder", str(folder)]
    assert main(["run", *study, "--no-progress"]) == 0
    assert main(["status", *study]) == 0
    assert "4 of 4 runs are done" in capsys.readouterr().out
    assert main(["table", *study]) == 0
    printed = capsys.readouterr().out
    assert "mean return" in printed
    assert "P(X > Y)" in printed
    assert "IQM" not in printed
    assert "steps to" not in printed
    assert "no scores, as no optimum is known" in printed
    assert main(["plot", *study, "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    drawn = {figure.stem for figure in tmp_path.glob("*.png")}
    assert drawn == {"learning_curves", "final_returns"}
    assert printed.count("left out: ") == len(FIGURES) - len(drawn)
    assert main(["repeat", str(next(folder.glob("*.json")))]) == 0
    output = tmp_path / "mine.toml"
    assert main(["search", *study, "--no-progress", "--output", str(output)]) == 0
    assert "MaskedPPO" in output.read_text()


@pytest.mark.usefixtures("in_process")
def test_folder_named_like_a_shipped_file_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Folders `quick` and `ours` are where results are, not a study or its presets."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quick").mkdir()
    (tmp_path / "ours").mkdir()
    assert main(["status", "quick", "--folder", "quick"]) == 0
    assert "0 of 27 runs are done" in capsys.readouterr().out
    assert main(["status", "."]) == 2
    assert "no study file '.' (. is a folder)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "mine"], "no study file 'mine', and the shipped ones are"),
        (["run", "quick", "--algorithm", "DQN"], "no algorithm 'DQN'; it has"),
        (["run", "quick", "--jobs", "0"], "--jobs must be at least 1"),
        (["plot", "quick", "--figure", "pie"], "no figure 'pie'; there are"),
        (["table", "quick", "--folder", "nowhere"], "nowhere has no results of this"),
        (["repeat", "abc", "--folder", "nowhere"], "nowhere has no results whose key"),
    ],
)
def test_mistake_on_the_command_line_is_named(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that names the culprit, and exit code 2."""
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("sas-study: ")
    assert error.count("\n") == 1


@pytest.mark.usefixtures("in_process")
def test_failed_run_gives_exit_code_one(
    tiny_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last line of the error is printed, with the file that has all of it."""
    fail = RuntimeError("too hot")
    monkeypatch.setattr(
        Backend, "map", lambda _, __, items: (Outcome(i, error=fail) for i in items)
    )
    arguments = ["run", str(tiny_file), "--folder", str(tmp_path), "--no-progress"]
    assert main([*arguments, "--seeds", "1"]) == 1
    printed = capsys.readouterr().out
    assert "0 runs done, 0 were done before, 4 failed" in printed
    assert "RuntimeError: too hot; see" in printed
    assert len(list(tmp_path.glob("*.failed.txt"))) == 4


@pytest.mark.parametrize("command", EXAMPLES)
def test_help_teaches_with_examples(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command shows how it is used."""
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert f"  sas-study {command} " in capsys.readouterr().out


def test_studies_are_not_imported_with_the_agents() -> None:
    """Importing the agents loads none of what studies need."""
    check = (
        "import sys, sas_agents; "
        "heavy = {'sas_agents.study', 'joblib', 'optuna', 'ray'}; "
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
