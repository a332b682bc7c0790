"""Digests of what a seed replays: masks, observations, rewards and endings.

`PYTHONPATH=tests python -m helpers.streams` writes the digests of the code as it is.
Do so only with a new `-vN` of each environment whose digest changes.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from helpers.playing import play_vector
from sas_gym import SPECS

PATH = Path(__file__).parent.parent / "sas_gym" / "data" / "streams.json"
SEEDS = (0, 1, 12345)
NUM_DIGITS = 9


def digest(env_id: str, seed: int, num_envs: int) -> str:
    """Play at random, and hash all that is returned, floats rounded."""
    env: Any = gym.make_vec(env_id, num_envs=num_envs)
    found = hashlib.sha256()
    for obs, *numbers, infos in play_vector(env, 200, seed):
        masks: Any = infos["action_mask"]
        found.update(np.packbits(masks).tobytes())
        for array in (obs["observation"], *numbers[:3]):
            if isinstance(array, np.ndarray):
                rounded = np.round(array.astype(np.float64), NUM_DIGITS) + 0.0
                found.update(rounded.tobytes())
    return found.hexdigest()[:16]


def digests(env_id: str) -> dict[str, str]:
    """Return the digests of an id by seed and number of environments."""
    cases = [(seed, num_envs) for seed in SEEDS for num_envs in (1, 7)]
    return {f"seed {seed}, {n} envs": digest(env_id, seed, n) for seed, n in cases}


if __name__ == "__main__":
    table = {spec.id: digests(spec.id) for spec in SPECS}
    PATH.write_text(json.dumps(table, indent=2) + "\n")
