"""The table of registered environments: ids, tasks, time limits, levels and tags."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium as gym

Arguments = Mapping[str, Any]


class TaskSpec(NamedTuple):
    """One row of the table of registered environments."""

    id: str
    """The id for `gymnasium.make` and `gymnasium.make_vec`."""
    task: str
    """The task's class, as `"module:Class"`."""
    max_episode_steps: int | None = None
    """Number of steps after which an episode is truncated."""
    levels: Mapping[str, Arguments] = {}
    """Arguments of the environment by the name that `level=` takes."""
    tags: tuple[str, ...] = ()
    """What the environment tests, of `TAGS`; each level has them too."""


TAGS = {
    "exact optimum": "the planner knows the best mean return exactly",
    "correlated": "actions come and go together",
    "lasting": "an action that is unavailable stays so for more than one step",
    "features": "the task has features of its actions",
    "long horizon": "episodes may last 100 steps or more",
    "real data": "made from data of the real world",
}
"""The tags and their meanings."""

SPECS = (
    TaskSpec(
        "SAS/SanFrancisco-v0",
        "sas_gym:SanFrancisco",
        30,
        levels={"scarce": {"availability": 0.2}},
        tags=("exact optimum",),
    ),
    TaskSpec(
        "SAS/BayArea-v0",
        "sas_gym:BayArea",
        200,
        levels={
            "failing_bridge": {
                "start": 9,
                "availability": 0.5,
                "bridge_availability": 0.05,
            }
        },
        tags=("exact optimum", "long horizon", "real data"),
    ),
    TaskSpec(
        "SAS/Maze-v0",
        "sas_gym:Maze",
        80,
        levels={"scarce": {"availability": 0.2}},
    ),
    TaskSpec(
        "SAS/Recommender-v0",
        "sas_gym:Recommender",
        levels={"scarce": {"availability": 0.2}},
        tags=("features",),
    ),
    TaskSpec(
        "SAS/ShutTheBox-v0",
        "sas_gym:ShutTheBox",
        levels={
            "one_die": {"one_die": True},
            "score": {"objective": "score"},
            "ten_tiles": {"num_tiles": 10},
            "twelve_tiles": {"num_tiles": 12},
        },
        tags=("exact optimum", "correlated"),
    ),
    TaskSpec(
        "SAS/ThetaTwoTheta-v0",
        "sas_gym:ThetaTwoTheta",
        10,
        tags=("exact optimum",),
    ),
)


def register(
    id: str,
    task: str,
    max_episode_steps: int | None = None,
    levels: Mapping[str, Arguments] | None = None,
    **kwargs: Any,
) -> None:
    """Register a task with Gymnasium, as an environment and as a vector environment.

    Args:
        id: The id for `gymnasium.make` and `gymnasium.make_vec`.
        task: The task's class, as `"module:Class"`.
        max_episode_steps: Number of steps after which an episode is truncated.
        levels: Arguments of the environment by the name that `level=` takes, such as
            `{"scarce": {"availability": 0.2}}`.
        **kwargs: Default arguments of `SASEnv` and of the task's class.
    """
    named = {"levels": dict(levels)} if levels else {}
    gym.register(
        id,
        entry_point="sas_gym:SASEnv",
        vector_entry_point="sas_gym:SASVectorEnv",
        max_episode_steps=max_episode_steps,
        kwargs={"task": task, **named, **kwargs},
    )


def register_all() -> None:
    """Register every entry of `SPECS`."""
    for spec in SPECS:
        register(spec.id, spec.task, spec.max_episode_steps, spec.levels)
