"""Sets that last: does a memory help?

    python benchmarks/lasting_outages.py ferries     Markov, a memory matters
    python benchmarks/lasting_outages.py map         Markov, on the streets of the map
    python benchmarks/lasting_outages.py closures    roads closed for an episode

Three agents with the same loop and settings: one that sees the state, one that sees the
mask beside it, and one with a memory of both. How much a memory can be worth, exactly:
`memory_worth.py`. Two ferries, seen early and needed late, show what a memory is for;
on the map a closed street stays closed, for outages of ten steps in the mean or for a
whole episode, and the driver can wait.
"""

import argparse
import time
from typing import Any, NamedTuple

import numpy as np
import torch as th
from memory_worth import ROAD_MAPS, outages
from scipy import stats
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv

from sas_agents import MaskedPPO, MaskedRecurrentPPO, make_vec_env
from sas_gym import Routing, SanFrancisco
from sas_gym.action_sets import ActionSets, Markov, PerEpisode

NUM_ENVS = 64
NUM_EPISODES = 1000
SETTINGS: dict[str, Any] = {
    "n_steps": 64,
    "batch_size": 512,
    "n_epochs": 4,
    "learning_rate": 1e-3,
    "device": "cpu",
}
AGENTS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "memoryless": (MaskedPPO, "MlpPolicy", {}),
    "memoryless, sees the mask": (MaskedPPO, "MlpPolicy", {"mask_in_features": True}),
    "recurrent": (MaskedRecurrentPPO, "MlpLstmPolicy", {"lstm_hidden_size": 64}),
}


class Setting(NamedTuple):
    """A road map whose outages last, and how long to learn there."""

    task: Routing
    action_sets: ActionSets
    max_episode_steps: int
    num_steps: int

    def make_env(self, seed: int) -> VecEnv:
        """Make environments in parallel."""
        options = {
            "action_sets": self.action_sets,
            "max_episode_steps": self.max_episode_steps,
        }
        return make_vec_env(self.task, NUM_ENVS, seed=seed, env_kwargs=options)


def make_setting(what: str) -> Setting:
    """Return what to learn."""
    if what == "ferries":
        task, max_episode_steps, lasts = ROAD_MAPS["two ferries"]
        return Setting(task, outages(0.5, lasts), max_episode_steps, 100_000)
    streets = SanFrancisco(wait_cost=0.1)
    if what == "closures":
        return Setting(streets, PerEpisode(0.7), 30, 240_000)
    return Setting(streets, Markov(0.1, 0.1), 30, 100_000)


def mean_return(name: str, setting: Setting, seed: int) -> float:
    """Train an agent and return its mean return in new episodes."""
    algorithm, policy, policy_kwargs = AGENTS[name]
    env = setting.make_env(seed)
    model = algorithm(policy, env, seed=seed, policy_kwargs=policy_kwargs, **SETTINGS)
    model.learn(setting.num_steps)
    # Drawn, not greedy: without a memory it is better not to try the same for ever.
    unseen = setting.make_env(1000 + seed)
    mean, _ = evaluate_policy(model, unseen, NUM_EPISODES, deterministic=False)
    return float(np.mean(mean))


def print_agents(setting: Setting, num_seeds: int) -> None:
    """Print the returns and how far the recurrent agent is ahead."""
    returns = {}
    for name in AGENTS:
        start = time.process_time()
        returns[name] = np.array(
            [mean_return(name, setting, seed) for seed in range(num_seeds)]
        )
        print(
            f"{name:26} {returns[name].mean():8.3f} {np.round(returns[name], 3)} "
            f"({time.process_time() - start:.0f} s)",
            flush=True,
        )
    for name in list(AGENTS)[:-1]:
        test = stats.ttest_ind(returns["recurrent"], returns[name], equal_var=False)
        interval = test.confidence_interval()
        print(
            f"recurrent less {name}: [{interval.low:.3f}, {interval.high:.3f}] (95 %)"
        )


def main() -> None:
    """Print the table asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["ferries", "map", "closures"])
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    th.set_num_threads(1)
    setting = make_setting(arguments.what)
    if arguments.steps is not None:
        setting = setting._replace(num_steps=arguments.steps)
    print(
        f"{arguments.what}, {type(setting.action_sets).__name__}: "
        f"{setting.num_steps:,} steps, {arguments.seeds} seeds"
    )
    print_agents(setting, arguments.seeds)


if __name__ == "__main__":
    main()
