"""Algorithms of users: classes and functions, wherever their masks are."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers import own_algorithms

from sas_agents.study import (
    AlgorithmSettings,
    Backend,
    Run,
    Study,
    collect,
    execute,
    load_study,
    run_study,
)
from sas_agents.study.running._before import check_models
from sas_gym.planning import policy_return

OWN = "helpers.own_algorithms"
MAP = "SAS/SanFrancisco-v0"


@pytest.fixture
def own(tiny: Study) -> Callable[..., Run]:
    """Return what makes a run of an own algorithm on the map."""

    def make(name: str, **settings: Any) -> Run:
        algorithm = AlgorithmSettings("mine", f"{OWN}:{name}", **settings)
        study = replace(tiny, algorithms=(algorithm,), num_steps=64, num_seeds=1)
        return study.runs()[1].run

    return make


def test_function_is_trained_and_evaluated(own: Callable[..., Run]) -> None:
    """Its callback makes the curve; greedy, it is evaluated exactly."""
    result = execute(own("train", greedy=True))
    expected = policy_return(MAP, own_algorithms.first_available)
    assert result["curve"]["step"] == [0, 21, 42, 64]
    assert result["final"]["greedy"]["mean_return"] == pytest.approx(expected)
    assert result["curve"]["mean_return"][-1] == pytest.approx(expected)
    assert result["curve"]["num_episodes"] == [0] * 4


def test_function_that_draws_is_played(own: Callable[..., Run]) -> None:
    """It acts in one way, which is not known to be greedy."""
    result = execute(own("train", arguments={"place": 1}))
    assert result["curve"]["num_episodes"] == [10] * 4
    assert list(result["final"]) == ["sampled"]
    assert result["final"]["sampled"]["num_episodes"] == 20
    assert -10 < result["final"]["sampled"]["mean_return"] < 3


def test_class_is_trained_as_ours_are(own: Callable[..., Run]) -> None:
    """With a policy and arguments of its own, and both ways of acting."""
    arguments = {"n_steps": 16, "batch_size": 16}
    result = execute(own("MyPPO", arguments=arguments, policy="LinearPolicy"))
    assert set(result["final"]) == {"sampled", "greedy"}
    assert result["run"]["policy"] == "LinearPolicy"


def test_class_itself_may_stand_in_a_study() -> None:
    """In Python the class or function, which workers can import by its place."""
    named = AlgorithmSettings("mine", own_algorithms.MyPPO)
    assert named.place == f"{OWN}:MyPPO"
    with pytest.raises(ValueError, match="put it at the top level of a module"):
        AlgorithmSettings("mine", lambda: None)


@pytest.mark.parametrize("mask", ["info", "method"])
def test_masks_may_be_outside_of_the_observation(
    mask: str, own: Callable[..., Run]
) -> None:
    """They are in the infos and in the method, and `predict` is given them."""
    result = execute(own("ReadsInfo", mask=mask))
    expected = policy_return(MAP, own_algorithms.first_available)
    assert result["final"]["greedy"]["mean_return"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("failing", {}, "the policy"),
        ("cheating", {}, r"cheating chose the unavailable action 0: .*'?repair"),
        ("without_policy", {}, "must return a policy: .*; got None"),
    ],
)
def test_fault_of_an_algorithm_is_named(
    name: str, settings: dict[str, Any], message: str, own: Callable[..., Run]
) -> None:
    """An unavailable action is never repaired in silence."""
    with pytest.raises((ArithmeticError, ValueError, TypeError), match=message):
        execute(own(name, **settings))


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("Nobody", {}, "there is no algorithm 'helpers.own_algorithms:Nobody'"),
        ("OWN", {"mask": "sky"}, "mask must be one of"),
        ("train", {"arguments": {"speed": 1}}, r"train has no argument 'speed'"),
        ("train", {"arguments": {"place": float("nan")}}, "place must be a number"),
        ("MyPPO", {"arguments": {"n_step": 1}}, "MyPPO has no argument 'n_step'"),
        ("__name__", {}, "is no class or function"),
    ],
)
def test_mistake_is_named_when_the_study_is_made(
    name: str, settings: dict[str, Any], message: str, own: Callable[..., Run]
) -> None:
    """Before anything runs."""
    with pytest.raises(ValueError, match=message):
        own(name, **settings)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("MyPPO", {"policy": "WildPolicy"}, "cannot make .*MyPPO.*'WildPolicy'"),
        ("WithoutMasks", {"mask": "info"}, "must have an argument action_masks"),
    ],
)
def test_mistake_is_named_once_before_the_study(
    name: str, settings: dict[str, Any], message: str, own: Callable[..., Run]
) -> None:
    """The model of every setting is made once."""
    with pytest.raises(ValueError, match=message):
        check_models([own(name, **settings)])


MINE = """
num_steps = 64
num_envs = 4
num_seeds = 2

[evaluation]
num_points = 2

[[environment]]
id = "SAS/SanFrancisco-v0"
availabilities = [0.8]

[[algorithm]]
name = "mine"
class = "my_first_algorithm:train"
"""
ALGORITHM = """
def train(env, steps, seed, callback):
    policy = lambda observations, masks: masks.argmax(axis=1)
    callback(0, policy)
    return policy
"""


@pytest.mark.parametrize("backend", ["joblib", "ray"])
def test_workers_find_the_algorithm_and_its_edits(
    backend: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies beside the study, in the folder where the command is given."""
    if backend == "ray":
        pytest.importorskip("ray")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("mine.toml").write_text(MINE)
    module = Path("my_first_algorithm.py")
    module.write_text(ALGORITHM)
    runs = load_study("mine.toml").runs()
    where = Backend(backend, num_jobs=1)
    report = run_study(runs, tmp_path / "results", where, progress=False)
    assert (len(report.written), report.failed) == (2, {})
    assert set(collect(tmp_path / "results", runs).label) == {"mine"}
    # The same file is the same algorithm; an edited one is another.
    module.write_text(f"# New.\\n{ALGORITHM}")
    assert {run.key for _, run in load_study("mine.toml").runs()} == {
        run.key for _, run in runs
    }
    module.write_text(ALGORITHM.replace("argmax", "argmin"))
    assert not {run.key for _, run in load_study("mine.toml").runs()} & {
        run.key for _, run in runs
    }
