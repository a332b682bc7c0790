"""Random settings from the paper's ranges on the maze: none may end in NaN.

    python benchmarks/stability.py [number of settings]

The authors' published code ends in NaN in about one setting of thirteen.
"""

import sys
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.callbacks import StopTrainingOnMaxEpisodes

from sas_agents import SASPG, make_vec_env

NUM_EPISODES = 300
RANGES = {
    "learning_rate": (5e-5, 5e-3),
    "critic_learning_rate": (1e-4, 1e-2),
}


def stays_finite(setting: dict[str, Any], seed: int) -> bool:
    """Train the paper's algorithm, one update per episode; check all parameters."""
    model = SASPG(
        "LinearPolicy",
        make_vec_env("SAS/Maze-v0", 1, seed=seed),
        n_steps=1,
        n_epochs=1,
        clip_range=None,
        whole_episodes=True,
        normalize=False,
        target_kl=None,
        policy_kwargs={"optimizer_class": th.optim.SGD},
        seed=seed,
        **setting,
    )
    model.learn(10**9, StopTrainingOnMaxEpisodes(NUM_EPISODES))
    parameters = [*model.policy.parameters(), model.baseline_weights]
    return all(bool(parameter.isfinite().all()) for parameter in parameters)


def main() -> None:
    """Print how many settings end in NaN or infinity."""
    th.set_num_threads(1)
    num_settings = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    rng = np.random.default_rng(0)
    failures = 0
    for seed in range(num_settings):
        setting = {name: rng.uniform(*span) for name, span in RANGES.items()}
        if not stays_finite(setting, seed):
            failures += 1
            print(f"seed {seed}: {setting}")
    print(f"{failures} of {num_settings} settings end in NaN or infinity")


if __name__ == "__main__":
    main()
