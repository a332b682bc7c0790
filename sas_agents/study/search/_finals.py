"""The end of a search: its best settings play again on fresh seeds, and one is kept."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sas_agents.study.definition._presets import save_preset
from sas_agents.study.search._search_settings import Search, score_of

if TYPE_CHECKING:
    import optuna


class FinalJob(NamedTuple):
    """A finalist to be played on one of the seeds that decide."""

    search: Search
    number: int
    """The number of its trial."""
    arguments: dict[str, Any]
    seed: int

    @property
    def name(self) -> str:
        """Name of its score in the storage."""
        return f"final score of trial {self.number}, seed {self.seed}"


def finals_to_play(todo: list[Search]) -> list[FinalJob]:
    """Return the final jobs without a score in the storage."""
    return [
        job
        for search in todo
        for trial in search.finalists()
        for job in finals_of(search, trial)
        if job.name not in search.open().user_attrs
    ]


def finals_of(search: Search, trial: "optuna.trial.FrozenTrial") -> list[FinalJob]:
    arguments = trial.user_attrs["arguments"]
    return [
        FinalJob(search, trial.number, arguments, seed) for seed in search.final_seeds
    ]


def run_final(job: FinalJob) -> None:
    """Play a finalist on one seed, and put the score into the storage."""
    score = score_of(job.search, job.arguments, job.seed)
    job.search.open().set_user_attr(job.name, score)


def write_best(search: Search, output: Path) -> str:
    """Write the chosen settings of a search into a preset file; describe them."""
    run = search.run
    trial, comparison = chosen_trial(search)
    seeds = search.final_seeds or search.seeds
    source = (
        f"best of {search.num_finished()} settings ({search.sampler} sampling, pruner "
        f"{search.pruner}): {comparison}; over {len(seeds)} seeds, {run.num_steps} "
        f"steps in {run.num_envs} environments, {run.environment_arguments}"
    )
    entry = {
        "source": source,
        "policy": run.policy,
        "arguments": {**run.arguments, **trial.user_attrs["arguments"]},
    }
    save_preset(output, run.environment, search.label, entry)
    return f"{search.name}: {source}"


def chosen_trial(search: Search) -> "tuple[optuna.trial.FrozenTrial, str]":
    """Return the best finalist, or the first settings if it is not clearly better.

    Among many settings some are lucky, also on the few seeds that decide: the best one
    must be ahead of the first settings by two standard errors, seed by seed.

    Returns:
        The trial, and how it compares.
    """
    finalists = search.finalists()
    best = max(finalists, key=lambda trial: np.mean(final_scores(search, trial)))
    score = float(np.mean(final_scores(search, best)))
    starts = [trial for trial in finalists if not trial.user_attrs["arguments"]]
    if not starts:
        return best, f"score {score:.4f}"
    start_scores = final_scores(search, starts[0])
    before = float(np.mean(start_scores))
    if best is starts[0]:
        return best, f"those it started from, score {score:.4f}"
    failed = not np.isfinite(before)
    if failed or is_clearly_more(final_scores(search, best), start_scores):
        return best, f"score {score:.4f} ({before:.4f} before)"
    return starts[0], (
        f"those it started from, score {before:.4f}, as the best one's {score:.4f} is "
        "within two standard errors"
    )


def final_scores(search: Search, trial: "optuna.trial.FrozenTrial") -> list[float]:
    """Return the scores that decide: on the final seeds, if there are any.

    A finalist that did not come through all of them is behind all that did.
    """
    if not search.final_seeds:
        return [float(trial.value or 0.0)]
    kept = search.open().user_attrs
    return [kept.get(job.name, -np.inf) for job in finals_of(search, trial)]


def is_clearly_more(scores: list[float], others: list[float]) -> bool:
    """Return whether scores are higher by two standard errors, seed by seed.

    Of one seed nothing is known but the difference.
    """
    differences = np.subtract(scores, others)
    if len(differences) < 2:
        return bool(differences.mean() > 0)
    error = differences.std(ddof=1) / np.sqrt(len(differences))
    return bool(differences.mean() > 2 * error)
