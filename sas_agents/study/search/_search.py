"""Searching for settings with Optuna, by any number of processes on one storage.

A search starts with the settings that the study has, tries others, and lets the best of
them and the first ones play again on seeds that none has seen. So the result is not
worse than the start, nor is it only the luckiest of many.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sas_agents.study.definition._settings import Study
from sas_agents.study.running._backends import Backend
from sas_agents.study.search._finals import finals_to_play, run_final, write_best
from sas_agents.study.search._search_settings import Pruner, Sampler, Search, score_of

if TYPE_CHECKING:
    import optuna


# Added to the seed of a study's evaluations: settings are chosen on other episodes than
# the reported ones.
EVALUATION_SEED = 1_000_000_000


def searches(
    study: Study, storage: str, sampler: Sampler = "random", pruner: Pruner = "none"
) -> list[Search]:
    """Return a search per algorithm with search ranges and environment of a study."""
    found = []
    settings = study.search
    for environment in study.environments:
        for algorithm in study.algorithms:
            if not algorithm.search:
                continue
            arguments = dict(environment.arguments)
            if environment.availabilities:
                arguments["availability"] = settings.availability
            run = study.make_run(environment, arguments, algorithm, seed=0)
            seed = run.evaluation.seed + EVALUATION_SEED
            run = replace(run, evaluation=replace(run.evaluation, seed=seed))
            seeds = range(
                settings.first_seed,
                settings.first_seed + settings.num_seeds + settings.num_final_seeds,
            )
            found.append(
                Search(
                    label=algorithm.name,
                    run=run,
                    ranges=algorithm.search,
                    seeds=tuple(seeds[: settings.num_seeds]),
                    objective=settings.objective,
                    storage=storage,
                    sampler=sampler,
                    pruner=pruner,
                    num_finalists=settings.num_finalists,
                    final_seeds=tuple(seeds[settings.num_seeds :]),
                )
            )
    if not found:
        raise ValueError("no algorithm of this study has search ranges")
    return found


def run_search(
    todo: list[Search],
    num_trials: int,
    output: Path,
    backend: Backend | None = None,
    progress: bool = True,
) -> tuple[list[str], int]:
    """Try settings until each search has its number of trials; write the best ones.

    Args:
        todo: The searches.
        num_trials: Trials of each, counting the trials in the storage.
        output: The preset file, which keeps the presets of other searches.
        backend: Where to run; all cores of this machine by default.
        progress: Whether to show a progress bar.

    Returns:
        A line per search and one per trial that raised an error; and how many searches
        have a best setting.
    """
    backend = backend or Backend()
    messages = _map(backend, run_trial, _trials(todo, num_trials), "trial", progress)
    messages += _map(backend, run_final, finals_to_play(todo), "final", progress)
    num_written = 0
    for search in todo:
        if search.completed():
            messages.append(write_best(search, output))
            num_written += 1
        else:
            messages.append(f"{search.name}: no trial was completed, nothing written")
    return messages, num_written


def _map(
    backend: Backend,
    function: Callable[[Any], None],
    jobs: list[Any],
    unit: str,
    progress: bool,
) -> list[str]:
    """Work jobs off, each of which begins with its search; return the failures."""
    from tqdm import tqdm

    messages = []
    with tqdm(total=len(jobs), unit=unit, disable=not progress) as bar:
        for outcome in backend.map(function, jobs):
            if outcome.error is not None:
                label = outcome.item.search.name
                messages.append(f"a {unit} of {label} failed: {outcome.error!r}")
            bar.update()
    return messages


class TrialJob(NamedTuple):
    """A trial to be made, if the storage does not hold enough of them by then."""

    search: Search
    num_trials: int
    is_start: bool = False
    """Whether to try the settings at the start: nothing is sampled or pruned."""


def _trials(todo: list[Search], num_trials: int) -> list[TrialJob]:
    """Return the missing trials in turn: an interruption leaves some of each."""
    jobs = [TrialJob(search, num_trials, True) for search in todo]
    jobs = [job for job in jobs if not job.search.has_start()]
    starts = [max(search.num_finished(), 1) for search in todo]
    return jobs + [
        TrialJob(search, num_trials)
        for index in range(num_trials)
        for search, start in zip(todo, starts, strict=True)
        if index >= start
    ]


def run_trial(job: TrialJob) -> None:
    """Try one setting, and put its score into the storage.

    Nothing is left to do where other commands on the same storage have tried enough.
    """
    search = job.search
    if job.is_start and search.has_start():
        return
    if not job.is_start and search.num_finished() >= job.num_trials:
        return
    search.open().optimize(
        lambda trial: objective(trial, search, job.is_start), n_trials=1
    )


def objective(trial: "optuna.Trial", search: Search, is_start: bool = False) -> float:
    """Return the mean score of sampled settings over the seeds of a search."""
    import optuna

    if search.sampler == "random":
        # The trial's number, from the storage, decides the settings: processes and
        # continued searches never repeat each other, and a search can be repeated.
        trial.study.sampler = optuna.samplers.RandomSampler(seed=trial.number)
    ranges = {} if is_start else search.ranges
    sampled = {name: suggest(trial, name, ranges[name]) for name in ranges}
    trial.set_user_attr("arguments", sampled)
    values: list[float] = []
    for number, seed in enumerate(search.seeds):

        def report(step: int, score: float, number: int = number) -> None:
            if step == 0:  # Untrained, and the step of the last seed's end.
                return
            mean = float(np.mean([*values, score]))
            trial.report(mean, number * search.run.num_steps + step)
            if not is_start and trial.should_prune():
                raise optuna.TrialPruned

        values.append(score_of(search, sampled, seed, report))
    return float(np.mean(values))


def suggest(trial: "optuna.Trial", name: str, search_range: Any) -> Any:
    """Sample one argument."""
    if isinstance(search_range, list | tuple):
        return trial.suggest_categorical(name, list(search_range))
    low, high = search_range["low"], search_range["high"]
    log = bool(search_range.get("log", False))
    if search_range.get("integer", False):
        return trial.suggest_int(name, low, high, log=log)
    value = trial.suggest_float(name, low, high, log=log)
    return f"lin_{value:.6g}" if "schedule" in search_range else value
