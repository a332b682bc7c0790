"""One run: its references, its curve, and every algorithm of the table."""

from dataclasses import replace
from typing import Any

import pytest

from sas_agents.study import ALGORITHMS, Evaluation, Run, Study, execute
from sas_agents.study.definition._environments import make_problem
from sas_agents.study.running._training import (
    normalized,
    played_at_random,
    reference_returns,
)

MAP = "SAS/SanFrancisco-v0"
# Enough to learn something in 64 steps; the others take rollouts of 16.
SHORT: dict[str, dict[str, Any]] = {
    "SASQ": {"learning_starts": 8},
    "RepairedDQN": {"learning_starts": 8},
    "MaskedQRDQN": {"learning_starts": 8, "buffer_size": 100},
    "MaskedTRPO": {"n_steps": 16, "batch_size": 16},
    "MaskedRecurrentPPO": {"n_steps": 16, "batch_size": 16},
}


@pytest.fixture
def run(tiny: Study) -> Run:
    return replace(tiny.runs()[0].run, num_steps=200, evaluation=Evaluation(2, 10, 20))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    ("env_id", "arguments"),
    [
        (MAP, {"availability": 0.5}),
        (MAP, {"action_sets": {"Markov": [0.1, 0.05]}}),
    ],
)
def test_every_algorithm_runs(
    algorithm: str, env_id: str, arguments: dict[str, Any], run: Run
) -> None:
    """Ours, a masked peer and a mask-blind one: each has its curve."""
    entry = ALGORITHMS[algorithm]
    run = replace(
        run,
        algorithm=algorithm,
        policy=entry.policy,
        environment=env_id,
        environment_arguments=arguments,
        arguments=SHORT.get(algorithm, {"n_steps": 16}),
        num_steps=64,
    )
    curve = execute(run)["curve"]
    assert curve["step"] == [0, 32, 64]
    assert curve["num_episodes"] == [10, 10, 20]
    assert all(-40 < value < 11 for value in curve["mean_return"])


def test_evaluation_does_not_change_what_is_learned(run: Run) -> None:
    """With more evaluations the adapted weights at the end are the same."""
    few = execute(run)["curve"]
    many = execute(replace(run, evaluation=Evaluation(4, 10, 20)))["curve"]
    assert many["step"] == [0, 50, 100, 150, 200]
    assert few["train/weight_v_hat"][-1] == many["train/weight_v_hat"][-1]


def test_reports_are_scores(run: Run) -> None:
    """What a search sees is the curve between random play and the optimum."""
    reports = []
    result = execute(run, lambda step, score: reports.append((step, score)))
    reference = {name: result[name] for name in ("random", "optimal")}
    curve = result["curve"]
    expected = [normalized(mean, reference) for mean in curve["mean_return"]]
    assert reports == list(zip(curve["step"], expected, strict=True))


def test_references_are_those_of_the_planner_or_played() -> None:
    """The specification's values on the map; with a memory random play is played."""
    reference = reference_returns(MAP, {"availability": 0.2})
    assert reference["optimal"] == pytest.approx(3.967, abs=1e-3)
    assert reference["random"] == pytest.approx(0.341, abs=1e-3)
    played = played_at_random(make_problem(MAP, {"availability": 0.2}), 20_000)
    assert played == pytest.approx(0.341, abs=0.15)
    markov = reference_returns(MAP, {"action_sets": {"Markov": [0.1, 0.05]}})
    assert markov["optimal"] is None
    assert markov["random"] is not None
    assert normalized(1.0, markov) is None
