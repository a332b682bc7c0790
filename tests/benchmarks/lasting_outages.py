"""Sets that last: does a memory help where an outage takes ten steps in the mean?

    python tests/benchmarks/lasting_outages.py

Under `Markov` availability what was closed a moment ago says what will be closed soon.
Three agents with the same loop and settings: one that sees the state, one that sees the
mask beside it, and one with a memory of both.
"""

import argparse
import time
from typing import Any

import numpy as np
import torch as th
from scipy import stats
from stable_baselines3.common.evaluation import evaluate_policy

from sas_agents import MaskedPPO, MaskedRecurrentPPO, make_vec_env
from sas_gym.action_sets import Markov

NUM_ENVS = 32
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


def outages(availability: float, mean_length: float = 10.0) -> Markov:
    """Return sets with outages of a mean length and a share of time available."""
    turn_on = 1 / mean_length
    return Markov(turn_on, turn_on * (1 - availability) / availability)


def mean_return(
    name: str, env_id: str, availability: float, num_steps: int, seed: int
) -> float:
    """Train an agent and return its mean return in new episodes."""
    algorithm, policy, policy_kwargs = AGENTS[name]
    options = {"action_sets": outages(availability)}
    env = make_vec_env(env_id, NUM_ENVS, seed=seed, env_kwargs=options)
    model = algorithm(policy, env, seed=seed, policy_kwargs=policy_kwargs, **SETTINGS)
    model.learn(num_steps)
    unseen = make_vec_env(env_id, NUM_ENVS, seed=1000 + seed, env_kwargs=options)
    mean, _ = evaluate_policy(model, unseen, NUM_EPISODES, deterministic=False)
    return float(np.mean(mean))


def main() -> None:
    """Print the returns and how far the recurrent agent is ahead."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", default="SAS/SanFrancisco-v0")
    parser.add_argument("--availability", type=float, default=0.5)
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    th.set_num_threads(1)
    print(f"{arguments.env}, availability {arguments.availability}, mean outage 10")
    returns = {}
    for name in AGENTS:
        start = time.perf_counter()
        returns[name] = np.array(
            [
                mean_return(
                    name, arguments.env, arguments.availability, arguments.steps, seed
                )
                for seed in range(arguments.seeds)
            ]
        )
        print(
            f"{name:26} {returns[name].mean():8.3f} {np.round(returns[name], 3)} "
            f"({time.perf_counter() - start:.0f} s)",
            flush=True,
        )
    for name in list(AGENTS)[:-1]:
        test = stats.ttest_ind(returns["recurrent"], returns[name], equal_var=False)
        interval = test.confidence_interval()
        print(
            f"recurrent less {name}: [{interval.low:.3f}, {interval.high:.3f}] (95 %)"
        )


if __name__ == "__main__":
    main()
