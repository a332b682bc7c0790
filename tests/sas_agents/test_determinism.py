"""One seed, one training: in any process, with any evaluation, to the last bit."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.agents import every_agent, everything_learned, make_agent, make_maze
from stable_baselines3.common.callbacks import EvalCallback

import sas_gym
from sas_agents import SASQ

ROOT = Path(sas_gym.__file__).parent.parent
IN_A_PROCESS = """
from helpers.agents import SHORT
from test_determinism import trained_digest
agent = next(agent for agent in SHORT if agent.__name__ == {name!r})
print(trained_digest(agent, {num_envs}))
"""


def digest(model) -> str:
    """Return a hash of all that training changes."""
    found = hashlib.sha256()
    for name, tensor in sorted(everything_learned(model).items()):
        found.update(name.encode() + tensor.numpy().tobytes())
    return found.hexdigest()


def trained_digest(agent, num_envs: int) -> str:
    many: dict[str, Any] = (
        {"target_update_interval": 128} if agent is SASQ else {"n_steps": 1}
    )
    options: dict[str, Any] = many if num_envs > 2 else {}
    model = make_agent(agent, make_maze(num_envs), **options)
    return digest(model.learn(12 * num_envs + 100))


@every_agent
@pytest.mark.parametrize("num_envs", [1, 64])
def test_fresh_process_trains_identically(agent, num_envs):
    """Hashes of strings, which differ from process to process, play no part."""
    code = IN_A_PROCESS.format(name=agent.__name__, num_envs=num_envs)
    paths = [ROOT, ROOT / "tests", ROOT / "tests" / "sas_agents"]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PYTHONHASHSEED": "123",
    }
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert result.stdout.split()[-1] == trained_digest(agent, num_envs)


@every_agent
@pytest.mark.parametrize("deterministic", [True, False])
def test_evaluation_leaves_training_alone(agent, deterministic):
    evaluation = EvalCallback(
        make_maze(seed=5),
        eval_freq=11,
        n_eval_episodes=2,
        deterministic=deterministic,
        verbose=0,
        warn=False,
    )
    # One after the other: SB3's replay buffer draws from NumPy's global generator,
    # which the constructor seeds.
    alone = digest(make_agent(agent).learn(120))
    assert digest(make_agent(agent).learn(120, evaluation)) == alone
    assert evaluation.n_calls > 0
    assert evaluation.last_mean_reward > -float("inf")
