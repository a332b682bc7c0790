"""What a seeded training and a seeded environment come to, in a few numbers.

    python tests/helpers/behaviour.py

adds the numbers of every behaviour version that has none yet to `behaviour.json`, and
changes no other.
"""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import sb3_contrib  # noqa: F401  # Some agents need it.
import torch as th

import sas_gym
from sas_agents.study import ALGORITHMS, Evaluation, Run
from sas_agents.study.definition._environments import locate, make_problem
from sas_agents.study.definition._identity import STUDY_VERSION
from sas_agents.study.running._training import make_model
from sas_gym.tasks._task import Task

PATH = Path(__file__).with_suffix(".json")
PACKAGES = "torch", "stable_baselines3", "sb3_contrib"
MAZE, MAP = "SAS/Maze-v0", "SAS/SanFrancisco-v0"
NUM_ENVS = 4
# Arguments and steps of three updates; our own defaults are part of what is held.
ROLLOUTS = {"n_steps": 16, "batch_size": 64}, 3 * 16 * NUM_ENVS
REPLAY = {"learning_starts": 180, "train_freq": 1, "gradient_steps": 1}, 192
SETTINGS: dict[str, tuple[dict[str, Any], int]] = {
    "SASPG": ({}, 3 * 2048),
    "SASNPG": ({}, 3 * 2048),
    "SASQ": ({}, 1_000 + 3 * 64),
    "MaskedPPO": ROLLOUTS,
    "MaskedA2C": ({}, 3 * 5 * NUM_ENVS),
    "MaskedTRPO": ROLLOUTS,
    "MaskedRecurrentPPO": ROLLOUTS,
    "MaskedQRDQN": REPLAY,
    "MaskablePPO": ROLLOUTS,
    "RepairedDQN": REPLAY,
}

AGENTS = [
    *((name, MAZE, entry.policy) for name, entry in ALGORITHMS.items()),
    *((name, MAZE, "MlpPolicy") for name in ("SASPG", "SASNPG", "SASQ")),
    *((name, MAP, "LinearPolicy") for name in ("SASPG", "SASNPG", "SASQ")),
]
TASKS = [spec.id for spec in sas_gym.SPECS]


def agent_key(name: str, environment: str, policy: str) -> str:
    """Name an agent's entry by its behaviour version; that of a peer is the study's."""
    cls = locate(ALGORITHMS[name].location)
    number = getattr(cls, "behaviour_version", f"in study {STUDY_VERSION}")
    return f"{name} {number}, {policy} in {environment}"


def task_of(env_id: str) -> type[Task]:
    """Return the class of a registered task."""
    task: type[Task] = locate(gym.spec(env_id).kwargs["task"])
    return task


def task_key(env_id: str) -> str:
    """Name an environment's entry by its behaviour version."""
    return f"{env_id} {task_of(env_id).behaviour_version}"


def trained(name: str, environment: str, policy: str) -> list[float]:
    """Return what the weights are after three updates.

    The numbers are the same in whatever order the weights are stored.
    """
    arguments, num_steps = SETTINGS[name]
    run = Run(
        environment=environment,
        environment_arguments={},
        algorithm=name,
        policy=policy,
        arguments=arguments,
        num_envs=NUM_ENVS,
        num_steps=num_steps,
        seed=7,
        evaluation=Evaluation(),
        versions={},
    )
    th.set_num_threads(1)
    model = make_model(run, make_problem(environment, {}))
    model.learn(num_steps)
    parameters = [p.detach().numpy().ravel() for p in model.policy.parameters()]
    weights = np.sort(np.concatenate(parameters).astype(np.float64))
    places = np.linspace(0, len(weights) - 1, 9).astype(int)
    sums = [weights.sum(), np.abs(weights).sum(), np.square(weights).sum()]
    return [float(f"{number:.8g}") for number in (*sums, *weights[places])]


def played(env_id: str, num_steps: int = 50) -> list[float]:
    """Return what random play of a seeded vector environment comes to."""
    env = gym.make_vec(env_id, num_envs=NUM_ENVS)
    policy = sas_gym.RandomPolicy(seed=7)
    observations, infos = env.reset(seed=7)
    sums = np.zeros(4)
    for step in range(1, num_steps + 1):
        masks = infos["action_mask"]
        places = np.arange(1, masks.size + 1).reshape(masks.shape)
        actions = policy(observations, masks)
        observations, rewards, ended, _, infos = env.step(actions)
        shown = np.asarray(observations["observation"], dtype=np.float64)
        sums += [step * shown.sum(), step * rewards.sum(), ended.sum(), 0]
        sums[3] += step * (masks * places).sum()
    env.close()
    return [float(f"{number:.8g}") for number in sums]


def packages() -> dict[str, str]:
    """Return the versions that training depends on, without those of builds."""
    return {name: version(name).partition("+")[0] for name in PACKAGES}


def main() -> None:
    """Add what is missing."""
    kept: dict[str, Any] = json.loads(PATH.read_text()) if PATH.exists() else {}
    entries = kept.get("numbers", {})
    for agent in AGENTS:
        entries.setdefault(agent_key(*agent), None)
        entries[agent_key(*agent)] = entries[agent_key(*agent)] or trained(*agent)
    for env_id in TASKS:
        entries[task_key(env_id)] = entries.get(task_key(env_id)) or played(env_id)
    lines = [f"  {json.dumps(key)}: {json.dumps(entries[key])}" for key in entries]
    text = ",\n".join(lines)
    head = json.dumps(packages())
    PATH.write_text(f'{{"packages": {head},\n "numbers": {{\n{text}\n }}}}\n')


if __name__ == "__main__":
    main()
