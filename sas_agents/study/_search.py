"""Searching for settings with Optuna, by any number of processes on one storage."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sas_agents.study._backends import Backend
from sas_agents.study._presets import save_preset
from sas_agents.study._runs import Run, digest
from sas_agents.study._settings import Study
from sas_agents.study._training import execute

if TYPE_CHECKING:
    import optuna

Sampler = Literal["random", "tpe"]
Pruner = Literal["none", "halving"]


@dataclass(frozen=True)
class Search:
    """A search for the settings of one algorithm in one environment.

    Args:
        label: The algorithm's name in its study.
        run: What to run; its arguments get what is sampled.
        ranges: The search ranges, see `AlgorithmSettings.search`.
        seeds: Seeds of each trial.
        objective: `"final"` or `"area"`.
        storage: A file, which processes and machines may share, or a database's URL.
        sampler: How settings are chosen.
        pruner: Whether bad trials end early, by successive halving.
    """

    label: str
    run: Run
    ranges: dict[str, Any]
    seeds: tuple[int, ...]
    objective: str
    storage: str
    sampler: Sampler = "random"
    pruner: Pruner = "none"

    @property
    def name(self) -> str:
        """Name of the search in the storage: a new definition is a new search."""
        unseeded = replace(self.run, seed=0).key
        key = digest([unseeded, self.ranges, self.seeds, self.objective])
        return f"{self.label} in {self.run.environment} [{key}]"

    def open(self) -> "optuna.Study":
        """Return Optuna's study, made if it is not there."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        samplers: dict[str, Callable[[], Any]] = {
            "random": optuna.samplers.RandomSampler,
            # Others are sampling at the same time: do not choose what they try.
            "tpe": lambda: optuna.samplers.TPESampler(
                multivariate=True, constant_liar=True
            ),
        }
        pruners: dict[str, Callable[[], Any]] = {
            "none": optuna.pruners.NopPruner,
            # From an eighth of the steps on, the better half goes on: earlier there is
            # nothing to see of agents that explore first.
            "halving": lambda: optuna.pruners.SuccessiveHalvingPruner(
                min_resource=max(self.run.num_steps * len(self.seeds) // 8, 1),
                reduction_factor=2,
            ),
        }
        return optuna.create_study(
            storage=open_storage(self.storage),
            study_name=self.name,
            direction="maximize",
            load_if_exists=True,
            sampler=samplers[self.sampler](),
            pruner=pruners[self.pruner](),
        )

    def num_finished(self) -> int:
        """Return the number of trials that came to an end."""
        return sum(trial.state.is_finished() for trial in self.open().trials)


def open_storage(storage: str) -> Any:
    """Open a database's URL, or a journal file, which several machines may share."""
    import optuna
    from optuna.storages.journal import JournalFileBackend

    if "://" in storage:
        return storage
    Path(storage).parent.mkdir(parents=True, exist_ok=True)
    return optuna.storages.JournalStorage(JournalFileBackend(storage))


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
            first = settings.first_seed
            found.append(
                Search(
                    label=algorithm.name,
                    run=run,
                    ranges=algorithm.search,
                    seeds=tuple(range(first, first + settings.num_seeds)),
                    objective=settings.objective,
                    storage=storage,
                    sampler=sampler,
                    pruner=pruner,
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
        num_trials: Trials of each, those that the storage holds included.
        output: The preset file, which keeps what it holds of other searches.
        backend: Where to run; all cores of this machine by default.
        progress: Whether to show a progress bar.

    Returns:
        A line per search and one per trial that raised an error; and how many searches
        have a best setting.
    """
    from tqdm import tqdm

    # Interleaved, so that an interrupted search has something of everything.
    starts = [search.num_finished() for search in todo]
    jobs = [
        (num_trials, search)
        for index in range(num_trials)
        for search, start in zip(todo, starts, strict=True)
        if index >= start
    ]
    messages, num_written = [], 0
    with tqdm(total=len(jobs), unit="trial", disable=not progress) as bar:
        for outcome in (backend or Backend()).map(run_trial, jobs):
            if outcome.error is not None:
                label = outcome.item[1].name
                messages.append(f"a trial of {label} failed: {outcome.error!r}")
            bar.update()
    for search in todo:
        best = best_trial(search)
        if best is None:
            messages.append(f"{search.name}: no trial was completed, nothing written")
        else:
            messages.append(write_best(search, best, output))
            num_written += 1
    return messages, num_written


def run_trial(job: tuple[int, Search]) -> None:
    """Try one setting, and put its score into the storage.

    Nothing is left to do where other commands on the same storage have tried enough.
    """
    num_trials, search = job
    if search.num_finished() >= num_trials:
        return
    search.open().optimize(lambda trial: objective(trial, search), n_trials=1)


def objective(trial: "optuna.Trial", search: Search) -> float:
    """Return the mean score of sampled settings over the seeds of a search."""
    import optuna

    if search.sampler == "random":
        # The trial's number, which the storage gives out, says what is tried: processes
        # and continued searches never repeat each other, and a search can be repeated.
        trial.study.sampler = optuna.samplers.RandomSampler(seed=trial.number)
    sampled = {
        name: suggest(trial, name, search_range)
        for name, search_range in search.ranges.items()
    }
    trial.set_user_attr("arguments", sampled)
    arguments = {**search.run.arguments, **sampled}
    values: list[float] = []
    for number, seed in enumerate(search.seeds):
        curve: list[float] = []

        def report(step: int, score: float, number: int = number) -> None:
            curve.append(score)  # noqa: B023  # Called before the next seed starts.
            if step == 0:  # Untrained, and the step of the last seed's end.
                return
            mean = float(np.mean([*values, score]))
            trial.report(mean, number * search.run.num_steps + step)
            if trial.should_prune():
                raise optuna.TrialPruned

        execute(replace(search.run, arguments=arguments, seed=seed), report)
        values.append(
            float(np.mean(curve)) if search.objective == "area" else curve[-1]
        )
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


def best_trial(search: Search) -> "optuna.trial.FrozenTrial | None":
    """Return the trial with the highest score, if any was completed."""
    trials = [trial for trial in search.open().trials if trial.value is not None]
    completed = [trial for trial in trials if trial.state.name == "COMPLETE"]
    return max(completed, key=lambda trial: float(trial.value or 0.0), default=None)


def write_best(search: Search, best: "optuna.trial.FrozenTrial", output: Path) -> str:
    """Write the best settings of a search into a preset file, and say what they are."""
    run = search.run
    source = (
        f"best of {search.num_finished()} settings ({search.sampler} sampling, pruner "
        f"{search.pruner}), score {best.value:.4f} over {len(search.seeds)} seeds, "
        f"{run.num_steps} steps in {run.num_envs} environments, "
        f"{run.environment_arguments}"
    )
    entry = {
        "source": source,
        "policy": run.policy,
        "arguments": {**run.arguments, **best.user_attrs["arguments"]},
    }
    save_preset(output, run.environment, search.label, entry)
    return f"{search.name}: {source}"
