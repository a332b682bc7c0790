"""Study files: what they mean, and what is said of mistakes in them."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from helpers.agents import SHORT

from sas_agents.study import Run, Study, load_study
from sas_agents.study.definition._algorithms import ALGORITHMS

HEAD = '[[environment]]\nid = "SAS/Maze-v0"\n[[algorithm]]\nname = "SASPG"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "num_step = 5\n" + HEAD,
            r"unknown key 'num_step' in the study \(did you mean",
        ),
        ("num_steps = 0\n" + HEAD, "num_steps must be a whole number of at least 1"),
        ("num_envs = 2.5\n" + HEAD, "num_envs must be a whole number"),
        (HEAD + "rate = 1\n", r"unknown key 'rate' in \[\[algorithm\]\] SASPG"),
        (HEAD.replace("SASPG", "SASP"), "no algorithm 'SASP': choose one of"),
        (HEAD.replace("Maze", "Mace"), "no environment 'SAS/Mace-v0'"),
        (HEAD.replace("[[algorithm]]", "availabilities = [1.5]\n[[algorithm]]"), "1.5"),
        (HEAD + "[evaluation]\nnum_points = 0\n", r"\[evaluation\]: num_points must"),
        (
            HEAD + "[search]\nobjective = 'best'\n",
            "objective must be 'final' or 'area'",
        ),
        (HEAD + "search.gamma = { low = 1, high = 0 }\n", "gamma must have low < high"),
        (HEAD + "search.gamma = 3\n", "must be a list of choices or a table"),
        (HEAD + "search.gamma = { low = 'a', high = 1 }\n", "must have numbers"),
        (
            HEAD + "search.gama = [1]\n",
            "SASPG has no argument 'gama'; it has \\['adapt_weights'",
        ),
        (HEAD + "arguments = { seed = 1 }\n", "SASPG has no argument 'seed'"),
        (HEAD + "arguments = 3\n", "arguments must be a table, got 3"),
        (HEAD + "policy = 3\n", "policy must be a text, got 3"),
        (HEAD + "[evaluation]\nlog = 'train/kl'\n", "log must be a list of texts"),
        (HEAD + "[evaluation]\nseed = true\n", "seed must be a whole number"),
        (HEAD + "[search]\navailability = 3\n", "availability must be above 0"),
        (
            HEAD.replace("[[algorithm]]", "availabilities = 1\n[[algorithm]]"),
            "availabilities must be a list of numbers, got 1",
        ),
        (HEAD + 'preset = "none"\n', "no preset file 'none', and the shipped ones are"),
        (HEAD.replace("[[algorithm]]", "[algorithm]"), "with two brackets"),
        ("[[algorithm]]\nname = 'SASQ'\n", r"at least one \[\[environment\]\]"),
        (HEAD + "[[algorithm]]\nname = 'SASPG'\n", "two algorithms have one name"),
        ("num_steps = \n", "Invalid value"),
    ],
)
def test_mistake_in_study_file_is_named(
    text: str, message: str, tmp_path: Path
) -> None:
    """The message has the file, the key and what would be right."""
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as raised:
        load_study(path).runs()
    is_of_the_file = "preset" not in message and "no argument" not in message
    assert str(path) in str(raised.value) or not is_of_the_file


def test_unknown_study_lists_the_shipped_ones() -> None:
    """A name that is neither a file nor a shipped study says which there are."""
    with pytest.raises(ValueError, match="mine") as raised:
        load_study("mine")
    shipped = (
        "assumptions",
        "baselines",
        "features",
        "ours",
        "paper",
        "quick",
        "weights",
    )
    assert str(list(shipped)) in str(raised.value)


def test_argument_that_a_class_does_not_have_is_named(tiny: Study) -> None:
    """A misspelt argument is found before anything runs, where signatures allow it."""
    algorithm = replace(tiny.algorithms[0], name="peer", algorithm="MaskablePPO")
    wrong = replace(algorithm, arguments={"n_step": 1}, preset=None)
    with pytest.raises(ValueError, match="MaskablePPO has no argument 'n_step'"):
        replace(tiny, algorithms=(wrong,)).runs()


def test_shipped_studies_have_the_runs_they_promise() -> None:
    """Three domains, four availabilities; 30 seeds, and 10 of PPO and the peers."""
    ours, paper = load_study("ours").runs(), load_study("paper").runs()
    assert len(ours) == 3 * 4 * (3 * 30 + 3 * 10)
    assert len(paper) == 3 * 4 * 3 * 10
    assert {run.seed for _, run in ours} == set(range(2000, 2030))
    assert {run.num_envs for _, run in ours} == {64}
    assert {run.num_envs for _, run in paper} == {1}
    assert len({run.key for _, run in ours + paper}) == len(ours) + len(paper)


def test_key_depends_on_every_field(tiny: Study) -> None:
    """Whatever changes in a run changes its key; only versions leave the setting."""
    run = tiny.runs()[0].run
    changed: dict[str, Any] = {
        "environment": "SAS/Maze-v0",
        "environment_arguments": {"availability": 0.3},
        "algorithm": "SASQ",
        "policy": "MlpPolicy",
        "arguments": {"gamma": 0.5},
        "num_envs": 3,
        "num_steps": 3,
        "seed": 9,
        "evaluation": replace(run.evaluation, seed=1),
        "versions": {**run.versions, "torch": "0"},
        "mask": "info",
        "greedy": True,
    }
    assert set(changed) == {entry.name for entry in fields(Run)}
    for name, value in changed.items():
        other = replace(run, **{name: value})
        assert other.key != run.key
        assert (other.setting == run.setting) == (name == "versions")
        same = name in ("versions", "evaluation")
        assert (other.training == run.training) == same


def test_run_survives_json(tiny: Study) -> None:
    """A run read from its file has the key of the run that was written."""
    run = replace(tiny.runs()[0].run, arguments={"max_grad_norm": float("inf")})
    assert Run.from_dict(run.to_dict()).key == run.key


def test_part_keeps_what_is_asked_for(tiny: Study) -> None:
    """A part has the chosen runs, with the keys that they have in the whole."""
    part = tiny.part(algorithms=["SASQ"], availabilities=[0.8], num_seeds=2)
    keys = [run.key for _, run in part.runs()]
    assert len(keys) == 2
    assert set(keys) < {run.key for _, run in tiny.runs()}
    with pytest.raises(
        ValueError, match=r"no algorithm 'DQN'; it has \['SASPG', 'SASQ'\]"
    ):
        tiny.part(algorithms=["DQN"])
    with pytest.raises(ValueError, match=r"no availability 0.5; it has \[0.2, 0.8\]"):
        tiny.part(availabilities=[0.5])


def test_tests_and_studies_know_the_same_agents() -> None:
    """An agent that is new has to be entered in both tables."""
    ours = [a.location for a in ALGORITHMS.values() if a.location[:4] == "sas_"]
    assert ours == [f"sas_agents:{agent.__name__}" for agent in SHORT]
