"""One seed, one training: in any process, with any evaluation, to the last bit."""

import copy
import hashlib
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from helpers.agents import (
    all_agents,
    everything_learned,
    make_agent,
    make_maze,
    twin_of,
)
from stable_baselines3.common.callbacks import EvalCallback

import sas_gym
from sas_agents import SASNPG, SASPG, SASQ, MaskedQRDQN

OFF_POLICY = SASQ, MaskedQRDQN
NUM_ENVS = 1, 64
ROOT = Path(sas_gym.__file__).parent.parent
IN_A_PROCESS = """
import json
import torch
from helpers.agents import SHORT
from test_determinism import NUM_ENVS, trained_digest
assert torch.get_num_threads() == {num_threads}
print(json.dumps({{
    f"{{agent.__name__}} {{num_envs}}": trained_digest(agent, num_envs)
    for agent in SHORT for num_envs in NUM_ENVS
}}))
"""

pytestmark = pytest.mark.slow


def digest(model) -> str:
    """Return a hash of all that training changes."""
    found = hashlib.sha256()
    for name, tensor in sorted(everything_learned(model).items()):
        found.update(name.encode() + tensor.numpy().tobytes())
    return found.hexdigest()


@cache
def trained_digest(agent, num_envs: int) -> str:
    many: dict[str, Any] = {}
    if agent in OFF_POLICY:
        many = {"target_update_interval": 128}
    elif agent in (SASPG, SASNPG):
        many = {"n_steps": 1}
    options: dict[str, Any] = many if num_envs > 2 else {}
    model = make_agent(agent, make_maze(num_envs), **options)
    return digest(model.learn(12 * num_envs + 100))


@pytest.fixture(scope="module", params=[1, 2], ids=["1-thread", "2-threads"])
def elsewhere(request) -> dict[str, str]:
    """Digests of all agents, trained in a fresh process."""
    paths = [ROOT, ROOT / "tests", Path(__file__).parent]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PYTHONHASHSEED": "123",
        "OMP_NUM_THREADS": str(request.param),
        # A waiting thread sleeps: with matrices so small it would mostly spin.
        "OMP_WAIT_POLICY": "passive",
    }
    result = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS.format(num_threads=request.param)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=environment,
    )
    digests: dict[str, str] = json.loads(result.stdout.splitlines()[-1])
    return digests


@all_agents
@pytest.mark.parametrize("num_envs", NUM_ENVS)
def test_fresh_process_trains_identically(agent, num_envs, elsewhere):
    """Hashes of strings, which differ from process to process, play no part.

    Nor does the number of threads with networks as small as these; `help(sas_agents)`
    says where it does.
    """
    found = elsewhere[f"{agent.__name__} {num_envs}"]
    assert found == trained_digest(agent, num_envs)


@all_agents
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


@all_agents
def test_interrupted_training_is_identical(agent, tmp_path):
    """Saved and loaded in the middle, with the buffer and the random states beside.

    Stable-Baselines3 leaves the states of NumPy and torch to the user.
    """
    model = make_agent(agent).learn(96)
    model.save(tmp_path / "model")
    if agent in OFF_POLICY:
        model.save_replay_buffer(tmp_path / "buffer")
    # sb3-contrib does not save the memory of a recurrent policy.
    memory = copy.deepcopy(getattr(model, "_last_lstm_states", None))
    env, states = twin_of(model.env), (np.random.get_state(), th.get_rng_state())  # noqa: NPY002  # SB3's
    model.learn(96, reset_num_timesteps=False)
    loaded = agent.load(tmp_path / "model", env=env, seed=None, force_reset=False)
    if agent in OFF_POLICY:
        loaded.load_replay_buffer(tmp_path / "buffer")
    np.random.set_state(states[0])  # noqa: NPY002  # SB3's
    th.set_rng_state(states[1])
    loaded._last_lstm_states = memory
    assert digest(loaded) != digest(model)
    assert digest(loaded.learn(96, reset_num_timesteps=False)) == digest(model)
