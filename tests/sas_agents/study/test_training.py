"""One run: its references, its curve, and every algorithm of the table."""

from dataclasses import replace
from typing import Any

import gymnasium as gym
import pytest

from sas_agents.study import ALGORITHMS, Evaluation, Run, Study, execute
from sas_agents.study.definition._environments import make_problem
from sas_agents.study.running._evaluation import played_at_random
from sas_agents.study.running._references import reference_returns
from sas_agents.study.storage._scales import normalized, rule_score
from sas_gym.planning import best_rule

MAP = "SAS/SanFrancisco-v0"
MAP_ENV = gym.make(MAP, availability=0.2)
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
        (MAP, {"wait_cost": 0.1, "action_sets": {"Markov": [0.1, 0.05]}}),
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
    result = execute(run)
    curve = result["curve"]
    assert curve["step"] == [0, 32, 64]
    # Of sets with a memory, and of a policy with one, episodes are played.
    is_exact = "availability" in arguments and algorithm != "MaskedRecurrentPPO"
    assert curve["num_episodes"] == [0 if is_exact else 10] * 3
    ways = {"greedy"} if entry.is_greedy else {"sampled", "greedy"}
    assert set(result["final"]) == ways
    for score in result["final"].values():
        assert score["num_episodes"] == (0 if is_exact else 20)
    means = [score["mean_return"] for score in result["final"].values()]
    assert all(-40 < value < 11 for value in [*curve["mean_return"], *means])


def test_evaluation_does_not_change_what_is_learned(run: Run) -> None:
    """With more evaluations the adapted weights at the end are the same."""
    few = execute(run)["curve"]
    many = execute(replace(run, evaluation=Evaluation(4, 10, 20)))["curve"]
    assert many["step"] == [0, 50, 100, 150, 200]
    assert few["train/weight_v_hat"][-1] == many["train/weight_v_hat"][-1]


def test_reports_are_scores(run: Run) -> None:
    """A search sees the curve, and the final score, on the scale of scores."""
    reports = []
    result = execute(run, lambda step, score: reports.append((step, score)))
    reference = {name: result[name] for name in ("random", "optimal")}
    curve = result["curve"]
    means = [*curve["mean_return"][:-1], result["final"]["sampled"]["mean_return"]]
    expected = [normalized(mean, reference) for mean in means]
    assert reports == list(zip(curve["step"], expected, strict=True))


def test_references_are_those_of_the_planner_or_played() -> None:
    """The specification's values on the map; with a memory random play is played."""
    reference = reference_returns(MAP, {"availability": 0.2})
    assert reference["optimal"] == pytest.approx(3.967, abs=1e-3)
    assert reference["random"] == pytest.approx(0.341, abs=1e-3)
    played = played_at_random(make_problem(MAP, {"availability": 0.2}), 20_000)
    assert played == pytest.approx(0.341, abs=0.15)
    lasting = {"wait_cost": 0.1, "action_sets": {"Markov": [0.1, 0.05]}}
    markov = reference_returns(MAP, lasting)
    assert markov["optimal"] is markov["rule"] is None
    assert markov["random"] is not None
    assert normalized(1.0, markov) is None


def test_two_scales_start_at_random_play_and_at_the_best_rule() -> None:
    """Half of the way; none where a rule comes within 1 % of the optimum."""
    reference: dict[str, float | None]
    reference = {"random": 0.0, "rule": 8.0, "optimal": 10.0}
    assert normalized(9.0, reference) == pytest.approx(0.9)
    assert rule_score(9.0, reference) == pytest.approx(0.5)
    assert rule_score(9.0, {**reference, "rule": 9.95}) is None
    assert rule_score(9.0, {**reference, "rule": None}) is None
    assert rule_score(9.0, {**reference, "optimal": None}) is None
    found = reference_returns(MAP, {"availability": 0.2})
    assert found["rule"] == pytest.approx(best_rule(MAP_ENV).mean_return)
