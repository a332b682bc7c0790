"""Minibatches of a rollout: each step once per pass, whole and in no fixed order."""

import numpy as np
import pytest
import torch as th

from sas_agents import SASNPG, SASPG, make_vec_env
from sas_agents._batch import Batch

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
        np.arange(SIZE),
        np.arange(SIZE)[:, None],
        th.arange(SIZE),
        {"a": th.arange(SIZE), "b": th.arange(SIZE)},
    ],
    ids=["indices", "features", "tensor", "dict"],
)
@pytest.mark.parametrize("size", [6, 1, SIZE, 100, None])
def test_each_step_once_per_pass(inputs, size):
    rng = np.random.default_rng(0)
    parts = list(numbered_batch(inputs).minibatches(size, 3, rng))
    numbers = np.concatenate([part.actions for part in parts])
    np.testing.assert_array_equal(np.bincount(numbers), np.full(SIZE, 3))
    if size is not None and size < SIZE:
        assert max(len(part.actions) for part in parts) == size
        assert (numbers[:SIZE] != np.arange(SIZE)).any()
    for part in parts:
        first, *others = part
        inside = list(first.values()) if isinstance(first, dict) else [first]
        for values in map(np.asarray, [*inside, *others]):
            rows = values.reshape(len(part.actions), -1)
            assert (rows == part.actions[:, None]).all()


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
