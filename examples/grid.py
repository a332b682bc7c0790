"""A road map of one's own: a grid of streets, from NetworkX, whose roads close.

    python examples/grid.py

The map becomes a task, and a task can be solved exactly: the command prints the mean
returns of the best policy and of random play, and trains an agent. `--size` and
`--steps` make it shorter.

It needs `pip install ".[agents,planning,render]"` in a clone of the repository.
"""

from argparse import ArgumentParser

import networkx as nx

from sas_gym import Routing, SASVectorEnv
from sas_gym.planning import optimal_return, random_return

MAX_STEPS = 200
"""Steps after which an episode is cut off."""


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
    """Print the references, then train and evaluate an agent."""
    from stable_baselines3.common.evaluation import evaluate_policy

    from sas_agents import SASQ, make_vec_env

    parser = ArgumentParser(description="A road map of one's own: a grid of streets.")
    parser.add_argument("--size", type=int, default=30, help="junctions along a side")
    parser.add_argument("--steps", type=int, default=300_000, help="of training")
    arguments = parser.parse_args()

    task = grid(arguments.size)
    env = SASVectorEnv(task, max_episode_steps=MAX_STEPS)
    print(f"best policy: {optimal_return(env):.1f}, random: {random_return(env):.1f}")
    limit = {"max_episode_steps": MAX_STEPS}
    venv = make_vec_env(task, 64, seed=0, env_kwargs=limit)
    model = SASQ("LinearPolicy", venv, seed=0).learn(arguments.steps)
    mean, deviation = evaluate_policy(model, venv, n_eval_episodes=500)
    error = deviation / 500**0.5
    print(f"SASQ after {model.num_timesteps:,} steps: {mean:.1f} ± {error:.1f}")


if __name__ == "__main__":
    main()
