"""The table of registered environments: every id, its task and its time limit."""

from typing import Any, NamedTuple

import gymnasium as gym


class TaskSpec(NamedTuple):
    """One row of the table of registered environments."""

    id: str
    """The id for `gymnasium.make` and `gymnasium.make_vec`."""
    task: str
    """The task's class, as `"module:Class"`."""
    max_episode_steps: int | None
    """Number of steps after which an episode is truncated."""


SPECS = (
    TaskSpec("SAS/SanFrancisco-v0", "sas_gym:SanFrancisco", 30),
    TaskSpec("SAS/BayArea-v0", "sas_gym:BayArea", 200),
    TaskSpec("SAS/Maze-v0", "sas_gym:Maze", 80),
    TaskSpec("SAS/Recommender-v0", "sas_gym:Recommender", None),
    TaskSpec("SAS/ThetaTwoTheta-v0", "sas_gym:ThetaTwoTheta", 10),
)


def register(
    id: str, task: str, max_episode_steps: int | None = None, **kwargs: Any
) -> None:
    """Register a task with Gymnasium, as an environment and as a vector environment.

    Args:
        id: The id for `gymnasium.make` and `gymnasium.make_vec`.
        task: The task's class, as `"module:Class"`.
        max_episode_steps: Number of steps after which an episode is truncated.
        **kwargs: Default arguments of the environment: those of `SASEnv`, and those of
            the task's class.
    """
    gym.register(
        id,
        entry_point="sas_gym:SASEnv",
        vector_entry_point="sas_gym:SASVectorEnv",
        max_episode_steps=max_episode_steps,
        kwargs={"task": task, **kwargs},
    )


def register_all() -> None:
    """Register every entry of `SPECS`."""
    for spec in SPECS:
        register(*spec)
