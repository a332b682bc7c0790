"""Searches: sampling, resuming, pruning, sharing, and the presets they write."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest

from sas_agents.study import (
    Backend,
    Run,
    Study,
    load_presets,
    load_study,
    preset,
)
from sas_agents.study.running._backends import Outcome
from sas_agents.study.search import _search, _search_settings
from sas_agents.study.search._finals import is_clearly_more
from sas_agents.study.search._search import TrialJob, run_search, run_trial, searches
from sas_agents.study.search._search_settings import Search

pytestmark = pytest.mark.slow


class InProcess(Backend):
    """A backend that runs in this process."""

    def map(self, function, items):
        for item in items:
            yield Outcome(item, function(item))


@pytest.fixture
def study(tiny_file: Path) -> Study:
    study = load_study(tiny_file).part(availabilities=[0.8])
    search = replace(study.search, num_final_seeds=0)
    return replace(study, num_steps=200, search=search)


def play_scores(monkeypatch: pytest.MonkeyPatch, score: Callable[[Run], float]) -> None:
    """Replace runs by a score of their settings and seed."""

    def execute(run: Run, report: Callable[[int, float], None]) -> None:
        report(run.num_steps, score(run))

    monkeypatch.setattr(_search_settings, "execute", execute)


def make_searches(study: Study, tmp_path: Path, **options: str) -> list[Search]:
    return searches(study, str(tmp_path / "search.log"), **options)  # type: ignore[arg-type]  # literals


def test_search_writes_its_best_settings_as_presets(
    study: Study, tmp_path: Path
) -> None:
    """The best trial of each algorithm stands in the file, with its source."""
    todo, output = make_searches(study, tmp_path), tmp_path / "mine.toml"
    messages, num_written = run_search(todo, 3, output, InProcess(), progress=False)
    assert len(messages) == num_written == 2
    for search in todo:
        trials = search.open().trials
        assert len(trials) == 3
        best = max(trials, key=lambda trial: trial.value or 0.0)
        entry = preset("SAS/SanFrancisco-v0", search.label, output)
        assert entry["arguments"] == {
            **search.run.arguments,
            **best.user_attrs["arguments"],
        }
        assert "best of 3 settings (random sampling" in entry["source"]
        for trial in trials[1:]:
            assert set(trial.user_attrs["arguments"]) == set(search.ranges)
            rate = str(trial.user_attrs["arguments"]["learning_rate"])
            assert 0.001 <= float(rate.removeprefix("lin_")) <= 1.0
    found = load_presets(output)["SAS/SanFrancisco-v0"]["SASQ"]["arguments"]
    assert found["learning_starts"] == 100
    # And a study can use it.
    algorithm = replace(study.algorithms[1], preset=str(output), arguments={})
    run = replace(study, algorithms=(algorithm,)).runs()[0].run
    assert run.arguments == found


def test_search_goes_on_where_it_was(study: Study, tmp_path: Path) -> None:
    """The same command adds what is missing, and does not sample the same again."""
    todo = make_searches(study, tmp_path)[:1]
    output = tmp_path / "mine.toml"
    run_search(todo, 2, output, InProcess(), progress=False)
    # What a killed process was trying stays in the storage, and does not count.
    todo[0].open().ask()
    run_search(todo, 4, output, InProcess(), progress=False)
    finished = [trial for trial in todo[0].open().trials if trial.state.is_finished()]
    assert len(finished) == 4
    assert len({trial.params.get("learning_rate") for trial in finished}) == 4


def test_two_processes_share_one_storage(study: Study, tmp_path: Path) -> None:
    """Workers of one search write to one file, and every trial is there once."""
    todo = make_searches(study, tmp_path, sampler="tpe")[:1]
    run_search(todo, 4, tmp_path / "mine.toml", Backend(num_jobs=2), progress=False)
    trials = todo[0].open().trials
    assert [trial.number for trial in trials] == [0, 1, 2, 3]
    assert all(trial.state.name == "COMPLETE" for trial in trials)


def test_halving_ends_bad_trials_early(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pruned trial has fewer evaluations, and is never the best one."""
    (search, _) = make_searches(study, tmp_path, pruner="halving")
    run_trial(TrialJob(search, 1))
    monkeypatch.setattr(optuna.Trial, "should_prune", lambda _: True)
    run_trial(TrialJob(search, 2))
    first, second = search.open().trials
    assert (first.state.name, second.state.name) == ("COMPLETE", "PRUNED")
    assert len(first.intermediate_values) == 3
    assert len(second.intermediate_values) == 1
    assert isinstance(search.open().pruner, optuna.pruners.SuccessiveHalvingPruner)


def test_study_without_ranges_says_so(tiny: Study, tmp_path: Path) -> None:
    """Nothing to search is an error, not an empty file."""
    with pytest.raises(
        ValueError, match="no algorithm of this study has search ranges"
    ):
        make_searches(tiny, tmp_path)


def test_changed_definition_is_a_new_search(study: Study, tmp_path: Path) -> None:
    """Trials of other steps, seeds, ranges or objectives are not mixed with these."""
    (before, _) = make_searches(study, tmp_path)
    (after, _) = make_searches(replace(study, num_steps=300), tmp_path)
    names = {
        before.name,
        after.name,
        replace(before, seeds=(1, 2)).name,
        replace(before, ranges={"gamma": [0.9, 1.0]}).name,
        replace(before, objective="area").name,
    }
    assert len(names) == 5
    assert replace(before, sampler="tpe", pruner="halving").name == before.name


def test_two_commands_try_different_settings(study: Study, tmp_path: Path) -> None:
    """Both ask for three trials of one storage: there are three, none of them twice."""
    (search, _) = make_searches(study, tmp_path)
    for _ in range(2):  # Each command works its jobs off, one after the other.
        for _ in range(3):
            run_trial(TrialJob(search, 3))
    trials = search.open().trials
    assert len({trial.params["learning_rate"] for trial in trials}) == 3
    again = make_searches(study, tmp_path / "elsewhere")[0]
    run_trial(TrialJob(again, 1))
    assert again.open().trials[0].params == trials[0].params


def test_search_in_which_nothing_runs_says_so(study: Study, tmp_path: Path) -> None:
    """A trial that raises is named, and no preset is written without a best one."""
    (search, _) = make_searches(study, tmp_path)
    wrong = replace(search, run=replace(search.run, policy="NoPolicy"))

    class Collecting(InProcess):
        def map(self, function, items):
            for item in items:
                try:
                    yield Outcome(item, function(item))
                except ValueError as error:
                    yield Outcome(item, error=error)

    output = tmp_path / "mine.toml"
    messages, num_written = run_search([wrong], 2, output, Collecting(), False)
    assert num_written == 0
    assert len(messages) == 3
    assert "NoPolicy unknown" in messages[0]
    assert "no trial was completed" in messages[-1]
    assert not output.exists()


def test_reports_of_several_seeds_follow_each_other(
    study: Study, tmp_path: Path
) -> None:
    """Each has the mean over the seeds up to it, and no step is reported twice."""
    (search, _) = make_searches(study, tmp_path, pruner="halving")
    run_trial(TrialJob(replace(search, seeds=(7, 8)), 1))
    (trial,) = replace(search, seeds=(7, 8)).open().trials
    assert list(trial.intermediate_values) == [66, 133, 200, 266, 333, 400]
    assert trial.value == pytest.approx(trial.intermediate_values[400])


def test_search_returns_nothing_worse_than_its_start(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The study's own settings are tried, are not pruned, and win if they are best."""
    monkeypatch.setattr(optuna.Trial, "should_prune", lambda _: True)
    (search, _) = make_searches(study, tmp_path, pruner="halving")
    play_scores(monkeypatch, lambda run: float("learning_rate" not in run.arguments))
    output = tmp_path / "mine.toml"
    run_search([search], 4, output, InProcess(), progress=False)
    states = [trial.state.name for trial in search.open().trials]
    assert states == ["COMPLETE", "PRUNED", "PRUNED", "PRUNED"]
    entry = preset("SAS/SanFrancisco-v0", "SASPG", output)
    assert entry["arguments"] == search.run.arguments


def test_start_is_made_up_for(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that was killed with the first trial leaves a search without it."""
    (search, _) = make_searches(study, tmp_path)
    play_scores(monkeypatch, lambda _: 0.0)
    search.open().ask()  # What the killed worker was trying.
    run_trial(TrialJob(search, 2))
    assert not search.has_start()
    for _ in range(2):
        run_search([search], 2, tmp_path / "mine.toml", InProcess(), progress=False)
        assert search.has_start()
        assert search.num_finished() == 2


def test_finals_decide_on_seeds_that_no_trial_had(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The luckiest trial loses to a finalist that is better on other seeds."""
    settings = replace(study.search, num_finalists=2, num_final_seeds=3)
    (search, _) = make_searches(replace(study, search=settings), tmp_path)
    assert not set(search.seeds) & set(search.final_seeds)
    played: list[int] = []

    def score(run: Run) -> float:
        rate = run.arguments.get("learning_rate", 0.0)
        if run.seed in search.seeds:
            return float(rate)
        played.append(run.seed)
        return -float(rate)

    play_scores(monkeypatch, score)
    output = tmp_path / "mine.toml"
    for _ in range(2):  # What the storage holds is not played again.
        run_search([search], 5, output, InProcess(), progress=False)
        # The start is the worst by its trial, is there all the same, and wins.
        assert sorted(played) == sorted(3 * list(search.final_seeds))
    entry = preset("SAS/SanFrancisco-v0", "SASPG", output)
    assert "learning_rate" not in entry["arguments"]
    assert "over 3 seeds" in entry["source"]


@pytest.mark.parametrize(
    ("gains", "wins"), [((0.1, 0.1, 0.1), True), ((1, -1, 1), False)]
)
def test_start_stays_unless_a_finalist_is_clearly_better(
    study: Study,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gains: tuple[float, ...],
    wins: bool,
) -> None:
    """A gain of 0.1 on every seed is; a mean of 0.33 with an error of 0.67 is not."""
    settings = replace(study.search, num_finalists=1, num_final_seeds=3)
    (search, _) = make_searches(replace(study, search=settings), tmp_path)

    def score(run: Run) -> float:
        if "learning_rate" not in run.arguments:
            return 0.5
        if run.seed in search.seeds:
            return 1.0
        return 0.5 + gains[search.final_seeds.index(run.seed)]

    play_scores(monkeypatch, score)
    output = tmp_path / "mine.toml"
    run_search([search], 2, output, InProcess(), progress=False)
    entry = preset("SAS/SanFrancisco-v0", "SASPG", output)
    assert ("learning_rate" in entry["arguments"]) is wins
    assert ("within two standard errors" in entry["source"]) is not wins


def keep_final_scores(
    monkeypatch: pytest.MonkeyPatch, search: Search, succeeds: Callable[[Any], bool]
) -> None:
    """Let the finals that succeed have the score 1, and the others none."""

    def play(job: Any) -> None:
        if succeeds(job):
            search.open().set_user_attr(job.name, 1.0)

    monkeypatch.setattr(_search, "run_final", play)


def test_start_that_fails_does_not_stay(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings without a score on the final seeds are behind any that have one."""
    settings = replace(study.search, num_finalists=1, num_final_seeds=2)
    (search, _) = make_searches(replace(study, search=settings), tmp_path)
    play_scores(monkeypatch, lambda run: run.arguments.get("learning_rate", 0.0))
    keep_final_scores(monkeypatch, search, lambda job: bool(job.arguments))
    output = tmp_path / "mine.toml"
    run_search([search], 2, output, InProcess(), progress=False)
    entry = preset("SAS/SanFrancisco-v0", "SASPG", output)
    assert "learning_rate" in entry["arguments"]


def test_is_clearly_more_by_hand():
    """Differences 1, 2, 3 have the mean 2 and the standard error 1 / sqrt(3) = 0.58."""
    assert is_clearly_more([1.0, 2.0, 3.0], [0.0, 0.0, 0.0])
    assert not is_clearly_more([1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
    assert is_clearly_more([1.0], [0.9])


def test_finalist_that_fails_does_not_win(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finalist without a score on every final seed is behind the others."""
    settings = replace(study.search, num_finalists=3, num_final_seeds=2)
    (search, _) = make_searches(replace(study, search=settings), tmp_path)
    play_scores(monkeypatch, lambda run: run.arguments.get("learning_rate", 0.0))
    output = tmp_path / "mine.toml"
    keep_final_scores(
        monkeypatch,
        search,
        lambda job: job.seed == search.final_seeds[0] or not job.arguments,
    )
    run_search([search], 5, output, InProcess(), progress=False)
    entry = preset("SAS/SanFrancisco-v0", "SASPG", output)
    assert "learning_rate" not in entry["arguments"]
