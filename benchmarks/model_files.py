"""Save a file of every agent, or load such files with other versions of the libraries.

    python benchmarks/model_files.py save folder
    python benchmarks/model_files.py load folder

`load` compares the actions of each agent with those of the one that saved it, and
learns on for some steps. `nox -s files` saves with the lowest versions and loads with
the newest, and the other way round.
"""

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import sas_agents
from sas_agents import make_vec_env
from sas_gym.masks import MASK_KEY

AGENTS = (
    "SASPG",
    "SASNPG",
    "SASQ",
    "MaskedPPO",
    "MaskedA2C",
    "MaskedTRPO",
    "MaskedRecurrentPPO",
    "MaskedQRDQN",
)
SHORT = {"n_steps": 16}
OPTIONS: dict[str, dict[str, Any]] = {
    "SASQ": {"learning_starts": 100, "batch_size": 32},
    "MaskedQRDQN": {"learning_starts": 100, "buffer_size": 1_000},
}
KINDS = "Linear", "Mlp"
LIBRARIES = "stable-baselines3", "gymnasium", "numpy", "torch"


def make_env(seed: int) -> Any:
    """Make eight mazes."""
    return make_vec_env("SAS/Maze-v0", 8, seed=seed)


def save(folder: Path) -> None:
    """Train every agent for some steps and save it with its actions."""
    folder.mkdir(parents=True, exist_ok=True)
    obs = make_env(1).reset()
    for name in AGENTS:
        for kind in KINDS:
            policy = f"{kind}{'Lstm' if name == 'MaskedRecurrentPPO' else ''}Policy"
            options = {"seed": 0, "device": "cpu"} | OPTIONS.get(name, SHORT)
            model: Any = getattr(sas_agents, name)(policy, make_env(0), **options)
            model.learn(400)
            actions, _ = model.predict(obs, deterministic=True)
            model.save(folder / f"{name}-{kind}.zip")
            np.savez(folder / f"{name}-{kind}.npz", actions=actions, **obs)


def load(folder: Path) -> None:
    """Load every file; raise `SystemExit` where one acts otherwise or fails."""
    faults = []
    for name in AGENTS:
        for kind in KINDS:
            path = folder / f"{name}-{kind}.zip"
            try:
                _load(getattr(sas_agents, name), path)
            except Exception as error:
                faults.append(f"{path.name}: {error!r}")
    if faults:
        raise SystemExit("\n".join(faults))


def _load(agent: Any, path: Path) -> None:
    model = agent.load(path, env=make_env(2), device="cpu", seed=2)
    with np.load(path.with_suffix(".npz")) as saved:
        obs = {key: saved[key] for key in ("observation", MASK_KEY)}
        actions, _ = model.predict(obs, deterministic=True)
        np.testing.assert_array_equal(actions, saved["actions"])
    model.learn(400, reset_num_timesteps=False)


if __name__ == "__main__":
    command, given = sys.argv[1:]
    {"save": save, "load": load}[command](Path(given))
    print(command, *(f"{name} {version(name)}" for name in LIBRARIES))
