"""The memory of long training: it must not grow once the buffers are full.

    python benchmarks/memory.py [--steps N] [--agent NAME] ...

Each agent trains in a process of its own with 64 environments; the resident memory is
read on the way. Flat means that it grows by less than 1 % between a quarter and the end
of the training, in which every buffer is full.
"""

import argparse
import subprocess
import sys
import time
from typing import Any

import numpy as np
import psutil
import torch as th
from our_agents import AGENTS
from stable_baselines3.common.callbacks import BaseCallback

from sas_agents import make_vec_env

ENV_ID = "SAS/SanFrancisco-v0"
NUM_ENVS = 64
NUM_SAMPLES = 100
ON_POLICY: dict[str, Any] = {"n_steps": 32, "batch_size": 512, "n_epochs": 2}
SETTINGS: dict[str, dict[str, Any]] = {
    "MaskedPPO": ON_POLICY,
    "MaskedTRPO": {"n_steps": 32, "batch_size": 512},
    "MaskedRecurrentPPO": ON_POLICY | {"policy_kwargs": {"lstm_hidden_size": 16}},
    "MaskedQRDQN": {"buffer_size": 100_000, "policy_kwargs": {"n_quantiles": 10}},
}


class Sampler(BaseCallback):
    """Reads the process's resident memory, a hundred times in all."""

    def __init__(self, num_steps: int) -> None:
        super().__init__()
        self.interval = max(num_steps // NUM_SAMPLES, 1)
        self.megabytes: list[float] = []

    def _on_step(self) -> bool:
        if self.num_timesteps >= self.interval * len(self.megabytes):
            self.megabytes.append(psutil.Process().memory_info().rss / 2**20)
        return True


def measure(name: str, num_steps: int) -> bool:
    """Train an agent, print its memory, and return whether it stayed flat."""
    th.set_num_threads(1)
    policy = "LinearLstmPolicy" if "Recurrent" in name else "LinearPolicy"
    env = make_vec_env(ENV_ID, NUM_ENVS, seed=0)
    model = AGENTS[name](policy, env, seed=0, **SETTINGS.get(name, {}))
    sampler, start = Sampler(num_steps), time.process_time()
    model.learn(num_steps, sampler)
    sizes = np.array(sampler.megabytes)
    quarter = len(sizes) // 4
    # The mean of some, as freed memory goes back to the system only now and then.
    early, late = sizes[quarter : 2 * quarter].mean(), sizes[-quarter:].mean()
    flat = bool(late < 1.01 * early)
    print(
        f"{name}, {model.num_timesteps} steps in {time.process_time() - start:.0f} s: "
        f"{sizes[0]:.1f} MB at the start, {early:.1f} in the second quarter, "
        f"{late:.1f} in the last, {sizes.max():.1f} at most: "
        f"{'flat' if flat else 'GROWS'}",
        flush=True,
    )
    return flat


def main() -> None:
    """Measure the agents one after the other; fail if any grows."""
    parser = argparse.ArgumentParser(description="Measure the memory of long training.")
    parser.add_argument("--steps", type=int, default=2_000_000)
    parser.add_argument("--agent", choices=AGENTS, action="append")
    given = parser.parse_args()
    names = given.agent or list(AGENTS)
    if len(names) == 1:
        sys.exit(not measure(names[0], given.steps))
    failed = 0
    for name in names:
        command = [sys.executable, __file__, "--steps", str(given.steps)]
        failed += subprocess.run([*command, "--agent", name], check=False).returncode
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
