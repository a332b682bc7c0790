"""Train the three agents on the three domains of the paper, and show how they learn.

    python examples/train.py

It prints a table and saves the learning curves to `examples/pictures/learning.png`.
"""

from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch as th
from matplotlib.figure import Figure
from numpy.typing import NDArray
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
# The Okabe-Ito colours, which everybody can tell apart.
AGENTS = {SASPG: "#0072B2", SASNPG: "#009E73", SASQ: "#D55E00"}
NUM_STEPS = 300_000
NUM_ENVS = 64
NUM_EVALUATIONS = 1_000
SEED = 0
PICTURE = Path(__file__).parent / "pictures" / "learning.png"


class Run(NamedTuple):
    """What came of training one agent on one domain."""

    mean: float
    error: float
    curve: NDArray[np.float64]
    """Steps and mean return of the last episodes, [T, 2]."""


class Watch(BaseCallback):
    """Moves a progress bar, and notes the learning curve."""

    def __init__(self, bar: Any) -> None:
        super().__init__()
        self.bar = bar
        self.curve: list[tuple[int, float]] = []

    def _on_step(self) -> bool:
        self.bar.update(self.training_env.num_envs)
        episodes = self.model.ep_info_buffer
        # Not before it is full: the first episodes to end are short ones.
        if len(episodes) == episodes.maxlen and self.n_calls % 32 == 0:
            mean = float(np.mean([episode["r"] for episode in episodes]))
            self.curve.append((self.num_timesteps, mean))
        return True


def train(env_id: str, agent: Any, bar: Any) -> Run:
    """Train an agent with its defaults, and evaluate it as it is meant to act."""
    model = agent("LinearPolicy", make_vec_env(env_id, NUM_ENVS, seed=SEED), seed=SEED)
    watch = Watch(bar)
    model.learn(NUM_STEPS, watch)
    returns, _ = evaluate_policy(
        model,
        make_vec_env(env_id, NUM_ENVS, seed=SEED + 1),
        NUM_EVALUATIONS,
        deterministic=agent is SASQ,
        return_episode_rewards=True,
    )
    error = np.std(returns, ddof=1) / np.sqrt(len(returns))
    return Run(float(np.mean(returns)), float(error), np.array(watch.curve))


def print_table(runs: dict[tuple[str, Any], Run]) -> None:
    """Print the returns, and where they lie between random play and the optimum."""
    print(f"{NUM_STEPS:,} steps, {NUM_ENVS} lanes, seed {SEED}, defaults")
    print(
        f"{'environment':20} {'agent':7} {'mean return':>18} "
        f"{'optimum':>9} {'score':>7}"
    )
    for (env_id, agent), run in runs.items():
        env = gym.make(env_id)
        score = normalized_score(env, run.mean)
        print(
            f"{env_id:20} {agent.__name__:7} {run.mean:9.3f} ± {run.error:6.3f}"
            f" {optimal_return(env):9.3f} {score:7.1%}"
        )
    print("score: 0 % is random play, 100 % the optimum (or the best that is known)")


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
    figure.axes[0].set_ylabel("return, mean of the last 100 episodes")
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
