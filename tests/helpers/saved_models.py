"""Model files of each version, which must load for ever.

    PYTHONPATH=tests python -m helpers.saved_models

writes those of this version, again and again until its release. Files of a released
version are never written again.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import sas_gym
from helpers.agents import PAPER_AGENTS, SHORT, make_agent
from sas_agents import make_vec_env

FOLDER = Path(__file__).parents[1] / "sas_agents" / "base" / "saved_models"
CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"
MAP = "SAS/SanFrancisco-v0"


def cases() -> Iterator[tuple[Any, str]]:
    """Yield each agent with the policies that are saved."""
    for agent in SHORT:
        yield agent, "LinearPolicy"
        if agent in PAPER_AGENTS:
            yield agent, "MlpPolicy"


def observations() -> dict[str, Any]:
    """Return every junction of the map twice, with different sets."""
    junction = np.tile(np.arange(28), 2)
    mask = np.ones((56, 5), dtype=np.int8)
    mask[28:, ::2] = 0
    return {"observation": junction, "action_mask": mask}


def predicted(model: Any) -> list[int]:
    """Return the greedy actions, without a memory."""
    actions, _ = model.predict(observations(), deterministic=True)
    return [int(action) for action in actions]


def write() -> None:
    """Write the files of this version, with what the models predict."""
    folder = FOLDER / sas_gym.__version__
    if f"## {folder.name} (unreleased)" not in CHANGELOG.read_text():
        raise SystemExit(f"{folder.name} is released: its files must load as they are")
    shutil.rmtree(folder, ignore_errors=True)
    expected = {}
    for agent, policy in cases():
        small = {"net_arch": [4]} if policy == "MlpPolicy" else {}
        options = SHORT[agent].get("policy_kwargs", {}) | small
        env = make_vec_env(MAP, 2, seed=0)
        model = make_agent(agent, env, policy, policy_kwargs=options or None)
        name = f"{agent.__name__}-{policy}"
        model.learn(300)
        # Stable-Baselines3 writes down the machine, which a public file need not name.
        with patch("platform.platform", str), patch("platform.version", str):
            model.save(folder / name)
        expected[name] = predicted(model)
    text = ",\n".join(f'"{name}": {row}' for name, row in expected.items())
    (folder / "predicted.json").write_text("{\n" + text + "\n}\n")
    assert json.loads((folder / "predicted.json").read_text()) == expected


def saved_files() -> list[Path]:
    """Return the files of all versions."""
    return sorted(FOLDER.glob("*/*.zip"))


if __name__ == "__main__":
    write()
