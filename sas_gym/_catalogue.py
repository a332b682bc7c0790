"""The table of the suite: every environment and level, with its reference returns."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import gymnasium as gym

from sas_gym._registration import SPECS, TaskSpec
from sas_gym.rules import rules_of
from sas_gym.tasks._task import Task


class CatalogueRow(NamedTuple):
    """One environment or level of the suite, with default arguments otherwise."""

    id: str
    """The id for `gymnasium.make`."""
    level: str | None
    """The `level=` argument; `None` for the defaults."""
    num_actions: int
    """Size of the base action set."""
    size: str
    """Number of states, or the observation space where they are not numbered."""
    max_episode_steps: int | None
    """Number of steps after which an episode is truncated."""
    tags: tuple[str, ...]
    """What the environment tests: see `sas_gym.TAGS`."""
    random: float | None
    """Mean return of random play."""
    best_rule: str | None
    """Name of the best rule of `sas_gym.rules`."""
    rule: float | None
    """Mean return of the best rule."""
    optimum: float | None
    """Best mean return."""


class Catalogue(tuple[CatalogueRow, ...]):
    """The rows of the catalogue; printed, a Markdown table."""

    def __str__(self) -> str:
        names = CatalogueRow._fields
        lines = [names, ["---"] * len(names), *(map(_cell, row) for row in self)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


@cache
def catalogue() -> Catalogue:
    """Return every environment and level of the suite with its reference returns.

    `sas_gym.planning` computes the returns, and needs
    `pip install sas-gym[planning]`: exact, but for the approximated optima of the maze
    and the recommender.

    Example:
        >>> row = catalogue()[0]
        >>> row.id, row.num_actions, round(row.optimum, 3)
        ('SAS/SanFrancisco-v0', 5, 9.432)
    """
    return Catalogue(
        _row(spec, level) for spec in SPECS for level in (None, *spec.levels)
    )


def _row(spec: TaskSpec, level: str | None) -> CatalogueRow:
    from sas_gym import planning  # SciPy loads on first use

    env: Any = gym.make(spec.id, level=level)
    task: Task = env.unwrapped.task
    rule = planning.best_rule(env) if rules_of(task) else None
    return CatalogueRow(
        id=spec.id,
        level=level,
        num_actions=task.num_actions,
        size=_size(task),
        max_episode_steps=spec.max_episode_steps,
        tags=spec.tags,
        random=planning.random_return(env),
        best_rule=None if rule is None else rule.name,
        rule=None if rule is None else rule.mean_return,
        optimum=planning.optimal_return(env),
    )


def _size(task: Task) -> str:
    if task.num_states is not None:
        return f"{task.num_states} states"
    space = task.observation_space
    shape = "x".join(map(str, space.shape)) if space.shape else ""
    return f"{type(space).__name__} {shape}".strip()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(value)
    return str(value)
