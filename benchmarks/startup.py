"""Processor time to import the packages, make an environment and draw a frame.

The time of an import is that of a whole interpreter that does nothing else.

python benchmarks/startup.py
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym

import sas_gym

NUM_RUNS = 5
NUM_FRAMES = 10
MS_PER_SECOND = 1000.0


def import_seconds(*modules: str) -> list[float]:
    """Return the least processor time of each import, each time in a new process."""
    code = "import time, {}; print(time.process_time())"
    times: dict[str, list[float]] = {module: [] for module in modules}
    for _ in range(NUM_RUNS):
        for module in modules:
            command = [sys.executable, "-c", code.format(module)]
            result = subprocess.run(command, capture_output=True, text=True, check=True)
            times[module].append(float(result.stdout))
    return [min(times[module]) for module in modules]


def milliseconds(call: Callable[[], Any]) -> float:
    """Return the processor time of a call."""
    start = time.process_time()
    call()
    return (time.process_time() - start) * MS_PER_SECOND


def frame_milliseconds(env_id: str) -> float:
    """Return the median time of a frame, of a state and an action set that change."""
    env: Any = gym.make(env_id, render_mode="rgb_array")
    _, info = env.reset(seed=0)
    env.render()  # loads matplotlib
    times = []
    for _ in range(NUM_FRAMES):
        _, _, terminated, truncated, info = env.step(info["action_mask"].argmax())
        if terminated or truncated:
            _, info = env.reset()
        times.append(milliseconds(env.render))
    return statistics.median(times)


def print_row(name: str, measured: float, wanted: float) -> None:
    """Print a measured number beside the largest one that is wanted."""
    print(f"{name:56} {measured:9.2f} {wanted:9.2f}")


def main() -> None:
    """Print the table."""
    print(f"{'':56} {'measured':>9} {'at most':>9}")
    ours, agents, sb3 = import_seconds("sas_gym", "sas_agents", "stable_baselines3")
    print_row(f"import sas_gym, seconds, least of {NUM_RUNS}", ours, 0.3)
    print_row("import sas_agents / import stable_baselines3", agents / sb3, 1.1)
    for spec in sas_gym.SPECS:
        # The first time, as a program that makes one environment meets it.
        first = milliseconds(partial(gym.make, spec.id))
        print_row(f"{spec.id}: gymnasium.make, ms", first, 10.0)
    for spec in sas_gym.SPECS:
        print_row(f"{spec.id}: frame, ms", frame_milliseconds(spec.id), 50.0)


if __name__ == "__main__":
    main()
