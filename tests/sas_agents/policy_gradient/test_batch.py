"""Minibatches of a rollout: each step once per pass, whole."""

from typing import Any

import numpy as np
import pytest
import torch as th

from sas_agents import SASNPG, SASPG, make_vec_env
from sas_agents.models._mlp import Dense, Indices
from sas_agents.models._model import Tensors
from sas_agents.policy_gradient._batch import Batch
from sas_gym.tasks._san_francisco import ROADS

SIZE = 20


def numbered_batch(inputs):
    """A batch in which every entry of a step is its number."""
    number = np.arange(SIZE)
    column = number[:, None]
    pairs = np.repeat(column, 2, axis=1)
    return Batch(inputs, number, column, column, number, pairs, number)


@pytest.mark.parametrize(
    "inputs",
    [
        Indices(np.arange(SIZE), SIZE),
        Dense(np.arange(SIZE)[:, None]),
        Tensors(th.arange(SIZE)),
        Tensors({"a": th.arange(SIZE), "b": th.arange(SIZE)}),
    ],
    ids=["indices", "features", "tensor", "dict"],
)
@pytest.mark.parametrize("size", [6, 1, SIZE, 100, None])
def test_each_step_once_per_pass(inputs, size):
    parts = list(numbered_batch(inputs).minibatches(size, 3))
    numbers = np.concatenate([part.actions for part in parts])
    np.testing.assert_array_equal(numbers, np.tile(np.arange(SIZE), 3))
    assert max(len(part.actions) for part in parts) == min(size or SIZE, SIZE)
    for part in parts:
        first, *others = part
        seen = first.values
        inside = list(seen.values()) if isinstance(seen, dict) else [seen]
        for values in map(np.asarray, [*inside, *others]):
            rows = values.reshape(len(part.actions), -1)
            assert (rows == part.actions[:, None]).all()


@pytest.mark.parametrize("num_envs", [1, 5])
def test_returns_belong_to_their_steps_in_random_order(num_envs):
    """On the map, where the action determines reward and next state, and so r + v."""
    env = make_vec_env("SAS/SanFrancisco-v0", num_envs, seed=0)
    model = SASPG(
        "LinearPolicy", env, n_steps=100, gamma=0.5, gae_lambda=0.0, normalize=False
    )
    _, callback = model._setup_learn(1)
    callback.on_training_start({}, {})
    values = np.random.default_rng(0).normal(size=28).astype(np.float32)
    model.policy.value_net.set_theta(values)
    assert model.collect_rollouts(env, callback, model.rollout_buffer, 100)
    states, played = model.rollout_buffer.observations()["observation"], []
    batch, _ = model._batch()
    inputs: Any = batch.inputs
    inputs = inputs.values
    for state, action in zip(inputs, batch.actions, strict=True):
        head = ROADS[state][action]
        reward = -0.1 - (head == state) + 10.0 * (head == 0)
        played.append(reward + 0.5 * values[head] * (head != 0))
    np.testing.assert_allclose(batch.returns, played, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(batch.baselines[:, 0], values[inputs])
    np.testing.assert_array_equal(np.sort(inputs), np.sort(states))
    assert (inputs != states).any()


@pytest.mark.parametrize("agent", [SASPG, SASNPG])
@pytest.mark.parametrize("num_envs", [1, 64])
@pytest.mark.parametrize(
    ("policy", "num_parts"), [("LinearPolicy", 4), ("MlpPolicy", 8)]
)
def test_rollouts_and_minibatches_have_the_sizes_of_the_docstring(
    agent, num_envs, policy, num_parts
):
    model = agent(policy, make_vec_env("SAS/SanFrancisco-v0", num_envs))
    assert model.n_steps * num_envs == num_parts * model.batch_size == 2048
