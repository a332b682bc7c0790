"""Scores of trained policies: exact where possible, of fresh episodes elsewhere."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sas_agents.study import ALGORITHMS, Evaluation, Run, Study, execute, load_study
from sas_agents.study.definition._environments import make_problem
from sas_agents.study.running import _evaluation
from sas_agents.study.running._acting import Actor
from sas_agents.study.running._backends import THREADS, run_locally
from sas_agents.study.running._evaluation import Evaluator, Score, final_seed
from sas_agents.study.running._training import make_model
from sas_agents.study.search._search import searches

MAP = "SAS/SanFrancisco-v0"


@pytest.fixture
def run(tiny: Study) -> Run:
    return tiny.runs()[0].run


def evaluator_of(run: Run, **changes: Any) -> Evaluator:
    """Return the evaluator of a changed run."""
    run = replace(run, **changes)
    problem = make_problem(run.environment, run.environment_arguments)
    return Evaluator(run, problem)


@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize(
    "algorithm", ["SASPG", "SASQ", "MaskedPPO", "MaskablePPO", "RepairedDQN"]
)
def test_exact_score_is_that_of_many_episodes(
    algorithm: str, greedy: bool, run: Run
) -> None:
    """Of every kind of policy, sampled, greedy and repaired, before it has learned."""
    entry = ALGORITHMS[algorithm]
    if entry.is_greedy and not greedy:
        return
    changes: dict[str, Any]
    changes = {"algorithm": algorithm, "policy": "MlpPolicy", "arguments": {}}
    evaluator = evaluator_of(run, **changes)
    model = make_model(replace(run, **changes), evaluator.problem)
    exact = evaluator.score(model, greedy, 10, 0)
    assert exact.num_episodes == 0
    played = evaluator._played(Actor(entry, model, greedy), 20_000, seed=1)
    assert played.num_episodes == 20_000
    assert exact.mean_return == pytest.approx(
        played.mean_return, abs=4 * played.standard_error
    )


@pytest.mark.parametrize(
    ("environment", "number", "expected"),
    [
        ("SAS/Maze-v0", None, 40_000),
        ("SAS/Maze-v0", 77, 77),
        ("CartPole-v1", None, 1_000),
        ("CartPole-v1", 50_000, 50_000),
    ],
)
def test_number_of_final_episodes(
    environment: str,
    number: int | None,
    expected: int,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many where they are fast, few where they are slow, or what the study says."""
    asked: list[tuple[int, int]] = []

    def play(*arguments: Any) -> Score:
        _, _, num_episodes, seed = arguments
        asked.append((num_episodes, seed))
        return Score(0.0, 0.0, num_episodes)

    monkeypatch.setattr(Evaluator, "_played", play)
    evaluation = Evaluation(num_final_episodes=number)
    evaluator = evaluator_of(
        run,
        environment=environment,
        environment_arguments={"availability": 0.8},
        evaluation=evaluation,
    )
    model = make_model(evaluator.run, evaluator.problem)
    assert list(evaluator.at_the_end(model)) == ["sampled", "greedy"]
    assert asked == [(expected, final_seed(evaluator.run))] * 2
    evaluator.on_curve(model)
    assert asked[-1] == (evaluation.num_episodes, evaluation.seed)


def test_search_curve_and_report_have_different_episodes(
    tiny_file: Path, tmp_path: Path
) -> None:
    """Nothing is chosen on the episodes on which it is reported."""
    study = load_study(tiny_file)
    runs = [run for _, run in study.runs()]
    (search, *_) = searches(study, str(tmp_path / "search.log"))
    seeds = {final_seed(run) for run in runs}
    assert len(seeds) == len({run.seed for run in runs}) == 3
    assert study.evaluation.seed not in seeds
    searched = replace(search.run, seed=runs[0].seed)
    assert searched.evaluation.seed != study.evaluation.seed
    assert final_seed(searched) not in seeds


def test_policy_with_a_memory_is_played(run: Run) -> None:
    """What it does depends on more than the state."""
    changes = {
        "algorithm": "MaskedRecurrentPPO",
        "policy": "MlpLstmPolicy",
        "arguments": {},
    }
    evaluator = evaluator_of(run, **changes)
    model = make_model(evaluator.run, evaluator.problem)
    assert evaluator.score(model, True, 10, 0).num_episodes == 10


def test_too_many_pairs_are_played(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where listing the states and sets would take longer."""
    monkeypatch.setattr(_evaluation, "MAX_PAIRS", 10)
    assert evaluator_of(run).tabular is None


def test_run_leaves_no_folder_of_its_logger(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stable-Baselines3 makes one for each training that logs nowhere."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    logged = replace(run.evaluation, log=("train/weight_v_hat",))
    result = execute(replace(run, evaluation=logged))
    assert not list(tmp_path.iterdir())
    assert result["curve"]["train/weight_v_hat"][-1] is not None


def test_workers_have_one_thread_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the command's own environment says."""
    for name in THREADS:
        monkeypatch.setenv(name, "8")
    outcomes = run_locally(os.getenv, list(THREADS), num_jobs=1)
    assert {outcome.answer for outcome in outcomes} == {"1"}
