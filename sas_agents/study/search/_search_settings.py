"""A search: settings to be tried, the storage of their scores, one score."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sas_agents.study.definition._runs import Run, digest
from sas_agents.study.running._training import execute

if TYPE_CHECKING:
    import optuna

Sampler = Literal["random", "tpe"]
Pruner = Literal["none", "halving"]


@dataclass(frozen=True)
class Search:
    """A search for the settings of one algorithm in one environment.

    Args:
        label: The algorithm's name in its study.
        run: The run whose arguments are replaced by sampled ones.
        ranges: The search ranges, see `AlgorithmSettings.search`.
        seeds: Seeds of each trial.
        objective: `"final"` or `"area"`.
        storage: A file, which processes and machines may share, or a database's URL.
        sampler: How settings are chosen.
        pruner: Whether bad trials end early, by successive halving.
        num_finalists: How many of the best play again, with the first settings.
        final_seeds: Seeds of that, which decides.
    """

    label: str
    run: Run
    ranges: dict[str, Any]
    seeds: tuple[int, ...]
    objective: str
    storage: str
    sampler: Sampler = "random"
    pruner: Pruner = "none"
    num_finalists: int = 4
    final_seeds: tuple[int, ...] = ()

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
            "tpe": _tpe_sampler,
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

    def completed(self) -> "list[optuna.trial.FrozenTrial]":
        """Return the trials that were not pruned and did not fail, best first."""
        trials = [t for t in self.open().trials if t.state.name == "COMPLETE"]
        return sorted(trials, key=lambda trial: -float(trial.value or 0.0))

    def has_start(self) -> bool:
        """Whether the settings that the search starts from were tried."""
        return any(not trial.user_attrs["arguments"] for trial in self.completed())

    def finalists(self) -> "list[optuna.trial.FrozenTrial]":
        """Return the best trials, and the one of the settings it started from."""
        trials = self.completed()
        start = [t for t in trials if not t.user_attrs["arguments"]][:1]
        best = trials[: self.num_finalists]
        return best + [trial for trial in start if trial not in best]


def _tpe_sampler() -> "optuna.samplers.TPESampler":
    import optuna

    with warnings.catch_warnings():  # Of arguments that may change.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.TPESampler(
            multivariate=True,
            group=True,  # The first trial has no parameters.
            constant_liar=True,  # Others sample at the same time.
        )


def open_storage(storage: str) -> Any:
    """Open a database's URL, or a journal file, which several machines may share."""
    import optuna
    from optuna.storages.journal import JournalFileBackend

    if "://" in storage:
        return _database(storage)
    Path(storage).parent.mkdir(parents=True, exist_ok=True)
    return optuna.storages.JournalStorage(JournalFileBackend(storage))


def _database(url: str) -> Any:
    """Open a database.

    Raises:
        ValueError: If that is not possible.
    """
    import optuna

    try:
        return optuna.storages.get_storage(url)
    except Exception as error:  # SQLAlchemy and its drivers.
        lines = str(error).splitlines() or [type(error).__name__]
        raise ValueError(f"cannot open the storage {url}: {lines[0]}") from error


def score_of(
    search: Search,
    sampled: dict[str, Any],
    seed: int,
    report: Callable[[int, float], None] | None = None,
) -> float:
    """Run one seed with sampled settings; return the objective of the search."""
    curve: list[float] = []

    def watch(step: int, score: float) -> None:
        curve.append(score)
        if report is not None:
            report(step, score)

    arguments = {**search.run.arguments, **sampled}
    execute(replace(search.run, arguments=arguments, seed=seed), watch)
    return float(np.mean(curve)) if search.objective == "area" else curve[-1]
