"""A road map of one's own: a grid of streets, from NetworkX, whose roads close.

    python examples/grid.py

The map becomes a task, and a task can be solved exactly: the command prints what the
best policy and random play are worth.
"""

import networkx as nx

from sas_agents import make_vec_env
from sas_gym import Routing, SASVectorEnv
from sas_gym.planning import optimal_return, random_return


def grid(size: int = 30, availability: float = 0.7) -> Routing:
    """Return the task to reach a corner of a grid from anywhere; a road costs 1.

    Args:
        size: Number of junctions along a side.
        availability: Probability that a road is open at a step.
    """
    graph = nx.grid_2d_graph(size, size)
    return Routing.from_networkx(
        graph, goal=(0, 0), length=None, availability=availability
    )


def main() -> None:
    """Print the references, and learn for a moment."""
    from sas_agents import SASQ

    env = SASVectorEnv(grid(), max_episode_steps=200)
    print(f"best policy: {optimal_return(env):.1f}, random: {random_return(env):.1f}")
    venv = make_vec_env(grid(), 64, seed=0, env_kwargs={"max_episode_steps": 200})
    SASQ("LinearPolicy", venv, seed=0, verbose=1).learn(100_000)


if __name__ == "__main__":
    main()
