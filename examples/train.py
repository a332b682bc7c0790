"""Train the three agents on the three domains of the paper, and show how they learn.

    python examples/train.py

It prints a table and saves the learning curves to `examples/pictures/learning.png`.
"""

from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch as th
from jaxtyping import Float
from matplotlib.figure import Figure
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from tqdm import tqdm

from sas_agents import SASNPG, SASPG, SASQ, make_vec_env
from sas_gym.planning import normalized_score, optimal_return, random_return

DOMAINS = {
    "SAS/SanFrancisco-v0": "San Francisco",
    "SAS/Maze-v0": "Maze",
    "SAS/Recommender-v0": "Recommender",
}
# Okabe-Ito colours, safe for colour-blind readers.
AGENTS = {SASPG: "#0072B2", SASNPG: "#009E73", SASQ: "#D55E00"}
NUM_STEPS = 300_000
NUM_ENVS = 64
NUM_EVALUATIONS = 1_000
WINDOW = 100
SEED = 0
PICTURE = Path(__file__).parent / "pictures" / "learning.png"


class Run(NamedTuple):
    """The result of training one agent on one domain."""

    mean: float
    """Mean return of the evaluation."""
    error: float
    """Standard error of that mean."""
    curve: Float[np.ndarray, "T 2"]
    """Training steps, and the mean return of the last episodes."""


class LearningCurve(BaseCallback):
    """Records the learning curve and updates a progress bar."""

    def __init__(self, bar: Any) -> None:
        super().__init__()
        self.bar = bar
        self.points: list[tuple[int, float]] = []

    def _on_step(self) -> bool:
        self.bar.update(self.training_env.num_envs)
        episodes = self.model.ep_info_buffer or ()
        # Not before the window is full: the first episodes to end are short ones.
        if len(episodes) == WINDOW and self.n_calls % 32 == 0:
            mean = float(np.mean([episode["r"] for episode in episodes]))
            self.points.append((self.num_timesteps, mean))
        return True


def train(env_id: str, agent: Any, bar: Any) -> Run:
    """Train an agent with its defaults, and evaluate it the way it acts."""
    env = make_vec_env(env_id, NUM_ENVS, seed=SEED)
    model = agent("LinearPolicy", env, stats_window_size=WINDOW, seed=SEED)
    curve = LearningCurve(bar)
    model.learn(NUM_STEPS, curve)
    returns, _ = evaluate_policy(
        model,
        make_vec_env(env_id, NUM_ENVS, seed=SEED + 1),
        NUM_EVALUATIONS,
        deterministic=agent is SASQ,
        return_episode_rewards=True,
    )
    error = np.std(returns, ddof=1) / np.sqrt(NUM_EVALUATIONS)
    return Run(float(np.mean(returns)), float(error), np.array(curve.points))


def print_table(runs: dict[tuple[str, Any], Run]) -> None:
    """Print the returns, and their share of the way from random play to the optimum."""
    print(f"{NUM_STEPS:,} steps in {NUM_ENVS} environments, seed {SEED}, defaults")
    print(
        f"{'environment':20} {'agent':7} {'mean return':>18} "
        f"{'optimum':>9} {'normalized':>10}"
    )
    for (env_id, agent), run in runs.items():
        env = gym.make(env_id)
        print(
            f"{env_id:20} {agent.__name__:7} {run.mean:9.3f} ± {run.error:6.3f}"
            f" {optimal_return(env):9.3f} {normalized_score(env, run.mean):10.1%}"
        )
    print("normalized: 0 % is random play, 100 % the optimum (or the best known value)")


def draw_curves(runs: dict[tuple[str, Any], Run]) -> None:
    """Draw the returns while learning, with the optimum and random play."""
    figure = Figure(figsize=(12, 3.8), layout="constrained")
    for axes, (env_id, title) in zip(
        figure.subplots(1, len(DOMAINS)), DOMAINS.items(), strict=True
    ):
        env = gym.make(env_id)
        axes.axhline(optimal_return(env), color="black", lw=1, label="optimum")
        axes.axhline(random_return(env), color="grey", lw=1, ls=":", label="random")
        for agent, colour in AGENTS.items():
            steps, returns = runs[env_id, agent].curve.T
            axes.plot(steps / 1000, returns, color=colour, label=agent.__name__)
        axes.set(title=title, xlabel="thousand steps")
    figure.axes[0].set_ylabel(f"return, mean of the last {WINDOW} episodes")
    figure.axes[0].legend()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=120)


def main() -> None:
    """Train, print and draw."""
    th.set_num_threads(1)
    runs = {}
    total = NUM_STEPS * len(DOMAINS) * len(AGENTS)
    with tqdm(total=total, unit="step", unit_scale=True) as bar:
        for env_id in DOMAINS:
            for agent in AGENTS:
                bar.set_description(f"{agent.__name__} on {env_id}")
                runs[env_id, agent] = train(env_id, agent, bar)
    print_table(runs)
    draw_curves(runs)
    print(f"learning curves: {PICTURE}")


if __name__ == "__main__":
    main()
