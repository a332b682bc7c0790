"""The table of registered tasks."""

from typing import Any, NamedTuple

import gymnasium as gym


class Task(NamedTuple):
    """A registered task."""

    id: str
    dynamics: str
    """The dynamics' class, as `"module:Class"`."""
    max_episode_steps: int | None


TASKS = (
    Task("SAS/SanFrancisco-v0", "sas_gym.envs.san_francisco:SanFrancisco", 30),
    Task("SAS/BayArea-v0", "sas_gym.envs.bay_area:BayArea", 200),
    Task("SAS/Maze-v0", "sas_gym.envs.maze:Maze", 80),
    Task("SAS/Recommender-v0", "sas_gym.envs.recommender:Recommender", None),
    Task("SAS/ThetaTwoTheta-v0", "sas_gym.envs.theta_two_theta:ThetaTwoTheta", 10),
)


def register(
    id: str, dynamics: str, max_episode_steps: int | None = None, **arguments: Any
) -> None:
    """Register a task with Gymnasium, in its single and in its vector form.

    Args:
        id: The id for `gymnasium.make` and `gymnasium.make_vec`.
        dynamics: The class of its dynamics, as `"module:Class"`.
        max_episode_steps: Number of steps after which an episode is truncated.
        **arguments: Default arguments, for the class or for `SASEnv`.
    """
    gym.register(
        id,
        entry_point="sas_gym.single_env:SASEnv",
        vector_entry_point="sas_gym.vector_env:SASVectorEnv",
        max_episode_steps=max_episode_steps,
        kwargs={"dynamics": dynamics, **arguments},
    )


def register_all() -> None:
    """Register every task of the table."""
    for task in TASKS:
        register(*task)
