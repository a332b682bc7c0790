"""The command line: a whole small study, its help, and its messages."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sas_agents.study import load_study
from sas_agents.study.__main__ import main
from sas_agents.study.commands._parser import EXAMPLES
from sas_agents.study.figures import FIGURES
from sas_agents.study.running._backends import Backend, Outcome
from sas_agents.study.storage._store import write_result


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
    assert "Steps to a score for good" in printed
    assert "rough" in printed
    study[2] = str(csv)
    assert main(["plot", *study, "--output", str(tmp_path / "figures")]) == 0
    # All but the variance of the gradient, which this study does not log.
    assert len(list((tmp_path / "figures").glob("*.png"))) == len(FIGURES) - 1
    result = next(folder.glob("*.json"))
    assert main(["repeat", str(result)]) == 0
    assert "the curves are equal" in capsys.readouterr().out
    assert main(["repeat", result.stem, "--folder", str(csv)]) == 0
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
    assert "sampled" in printed
    assert "P(X > Y)" in printed
    assert "optimum  " not in printed
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


@pytest.mark.usefixtures("in_process")
def test_own_algorithm_on_the_command_line(
    tiny_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its place, or as a table of TOML; beside ours, in another folder."""
    ours, mine = str(tmp_path / "ours"), str(tmp_path / "mine")
    part = [str(tiny_file), "--seeds", "2", "--availability", "0.8", "--no-progress"]
    part += ["--algorithm", "SASPG"]
    table = '{ class = "helpers.own_algorithms:train", greedy = true, mask = "info" }'
    ppo = '{ class = "helpers.own_algorithms:MyPPO", arguments = { n_steps = 16 } }'
    added = ["--algorithm", table, "--algorithm", ppo]
    assert main(["run", *part, "--folder", ours]) == 0
    # What is done in another folder is not done again.
    assert main(["run", *part, *added, "--folder", mine, "--folder", ours]) == 0
    assert "4 runs done, 2 were done before, 0 failed" in capsys.readouterr().out
    status = ["status", *part[:-3], *added, "--folder", mine, "--folder", ours]
    assert main(status) == 0
    assert "MyPPO" in capsys.readouterr().out
    csv, figures = tmp_path / "new" / "compared.csv", tmp_path / "figures"
    options = ["--csv", str(csv), "--output", str(figures), "--correct"]
    assert main(["compare", mine, "--with", ours, *options]) == 0
    printed = capsys.readouterr().out
    assert "X less Y" in printed
    assert "MyPPO" in printed
    assert "corrected by Holm" in printed
    assert len(csv.read_text().splitlines()) == 3
    assert (figures / "performance_profiles.png").exists()


def test_table_and_comparison_take_committed_results(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A study's committed CSV file, and one of it beside another."""
    paper = Path(__file__).parents[3] / "examples" / "paper" / "results"
    part = ["ours", "--environment", "SAS/Maze-v0", "--availability", "0.8"]
    part += ["--algorithm", "SASPG", "--algorithm", "SASQ"]
    assert main(["table", *part, "--folder", str(paper / "ours.csv.gz")]) == 0
    printed = capsys.readouterr().out
    assert "99.49" in printed
    both = [str(paper / "features.csv.gz"), "--with", str(paper / "ours.csv.gz")]
    assert main(["compare", *both]) == 0
    assert "all (scores)" in capsys.readouterr().out


def test_label_with_several_settings_needs_its_study(
    tmp_path: Path, tiny_file: Path, made_up: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a folder alone they have the algorithm's name, which both share."""
    run = load_study(tiny_file).runs()[0].run
    for steps in (32, 64):
        other = replace(run, arguments={"n_steps": steps})
        write_result(tmp_path, made_up(other))
    assert main(["compare", str(tmp_path), "--with", str(tmp_path)]) == 2
    assert "several settings of SASPG: name the study" in capsys.readouterr().err


MISTAKES: dict[str, tuple[list[str], str]] = {
    "no command": ([], "arguments are required: COMMAND"),
    "unknown command": (["train"], "invalid choice: 'train'"),
    "no study": (["run"], "arguments are required: study"),
    "unknown study": (["run", "mine"], "no study file 'mine', and the shipped ones"),
    "empty study": (["status", ""], "no study file ''"),
    "folder as study": (["run", "."], "(. is a folder)"),
    "binary study": (["run", "binary.toml"], "binary.toml is not a text file"),
    "broken study": (["run", "broken.toml"], "broken.toml: "),
    "number for a table": (["run", "number.toml"], "[evaluation] must be a table"),
    "unknown algorithm": (["run", "quick", "--algorithm", "DQN"], "no algorithm 'DQN'"),
    "unknown module": (["run", "quick", "--algorithm", "no:Where"], "no module 'no'"),
    "unknown class": (
        ["run", "quick", "--algorithm", "helpers.playing:Where"],
        "no algorithm 'helpers.playing:Where'",
    ),
    "broken table": (
        ["run", "quick", "--algorithm", "{ class = }"],
        "is not an inline table of TOML",
    ),
    "unknown key": (
        ["run", "quick", "--algorithm", '{ class = "a:b", speed = 1 }'],
        "unknown key 'speed'",
    ),
    "unknown environment": (
        ["run", "quick", "--environment", "no:Where"],
        "no environment 'no:Where'",
    ),
    "no seeds": (["run", "quick", "--seeds", "0"], "num_seeds must be a whole number"),
    "text for seeds": (["run", "quick", "--seeds", "x"], "invalid int value: 'x'"),
    "unknown availability": (
        ["run", "quick", "--availability", "0.5"],
        "no availability 0.5",
    ),
    "no jobs": (["run", "quick", "--jobs", "0"], "--jobs must be at least 1"),
    "file for results": (["run", "quick", "--folder", "file"], "choose another"),
    "no trials": (["search", "quick", "--trials", "0"], "num_trials must be a whole"),
    "folder for presets": (
        ["search", "quick", "--output", "folder"],
        "--output folder is a folder",
    ),
    "broken presets": (
        ["search", "quick", "--output", "broken.toml"],
        "broken.toml: ",
    ),
    "unknown storage": (
        ["search", "quick", "--storage", "no://where", "--jobs", "1"],
        "cannot open the storage no://where",
    ),
    "unknown figure": (["plot", "quick", "--figure", "pie"], "no figure 'pie'"),
    "file for figures": (
        ["plot", "quick", "--output", "file"],
        "choose another --output",
    ),
    "no results": (
        ["table", "quick", "--folder", "nowhere"],
        "nowhere has no results of this",
    ),
    "folder for a table": (
        ["table", "quick", "--csv", "folder"],
        "--csv folder is a folder",
    ),
    "file as folder of a table": (
        ["table", "quick", "--csv", "file/a.csv"],
        "choose another --csv",
    ),
    "no table": (["table", "quick", "--folder", "file"], "not a CSV file of results"),
    "broken table of results": (
        ["table", "quick", "--folder", "broken.csv.gz"],
        "not a CSV file of results",
    ),
    "nothing to repeat": (
        ["repeat", "abc", "--folder", "nowhere"],
        "nowhere has no results whose key",
    ),
    "empty key": (["repeat", ""], "no results whose key starts with ''"),
    "no reference": (["compare", "folder"], "arguments are required: --with"),
    "nothing to compare": (
        ["compare", "folder", "--with", "folder"],
        "folder has no results",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_on_the_command_line_is_named(
    mistake: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line that names the culprit, and exit code 2."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("a,b\n1,2\n")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "broken.toml").write_text("num_steps = \n")
    (tmp_path / "number.toml").write_text(
        'evaluation = 3\n[[environment]]\nid = "SAS/Maze-v0"\n'
        '[[algorithm]]\nname = "SASPG"\n'
    )
    (tmp_path / "broken.csv.gz").write_bytes(b"\x1f\x8b\x08\x00")
    arguments, message = MISTAKES[mistake]
    try:
        code = main(arguments)
    except SystemExit as end:  # what argparse finds
        code = int(end.code or 0)
    error = capsys.readouterr().err
    assert code == 2
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
