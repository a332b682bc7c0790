"""Which episodes count is decided before they are played; none is cut."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from sas_agents._episodes import EpisodeBuffer, discounted_returns

seeds = st.integers(0, 10_000)


def filled_buffer(dones, buffer_size):
    """Return a buffer fed with rewards of 1 until it is complete, or to the end.

    The observation is the number of the step, the action that of the environment.
    """
    num_envs = dones.shape[1]
    buffer = EpisodeBuffer(
        buffer_size,
        spaces.Dict(observation=spaces.Discrete(len(dones))),
        spaces.Discrete(num_envs),
        "cpu",
        gamma=1.0,
        n_envs=num_envs,
    )
    for t, done in enumerate(dones):
        if not buffer.is_complete:
            observation = {"observation": np.full(num_envs, t)}
            buffer.add(observation, np.arange(num_envs), np.ones(num_envs), done)
    return buffer


def steps_that_count(batch):
    """Return the (step, environment) pairs of a batch."""
    steps = zip(batch.observations["observation"], batch.actions, strict=True)
    return {(int(t), int(env)) for t, env in steps}


@given(seed=seeds, gamma=st.floats(0, 1))
def test_returns_are_discounted_sums(seed, gamma):
    rng = np.random.default_rng(seed)
    rewards, dones = rng.normal(size=(9, 3)), rng.random((9, 3)) < 0.3
    returns = discounted_returns(rewards, dones, gamma)
    for t, env in np.ndindex(9, 3):
        expected, discount = 0.0, 1.0
        for k in range(t, 9):
            expected += discount * rewards[k, env]
            discount *= gamma
            if dones[k, env]:
                break
        assert returns[t, env] == pytest.approx(expected)


def test_buffer_keeps_episodes_started_in_first_steps():
    """Environment 0 ends at steps 1, 3 and 4, environment 1 at step 5."""
    dones = np.zeros((6, 2), dtype=bool)
    dones[[1, 3, 4], 0] = dones[5, 1] = True
    buffer = filled_buffer(dones, buffer_size=3)
    assert buffer.is_complete
    batch = buffer.episodes()
    # Environment 0 starts its second episode at step 2, in time; its third too late.
    counted = {(t, 0) for t in range(4)} | {(t, 1) for t in range(6)}
    assert steps_that_count(batch) == counted
    assert batch.num_episodes == 3
    assert sorted(batch.returns.tolist()) == [1, 1, 1, 2, 2, 2, 3, 4, 5, 6]


def test_episode_after_the_last_of_the_first_steps_does_not_count():
    """Of 3 first steps the third ends an episode: the next one starts too late."""
    dones = np.array([[False], [False], [True], [False], [True]])
    buffer = filled_buffer(dones, buffer_size=3)
    assert buffer.is_complete
    batch = buffer.episodes()
    assert steps_that_count(batch) == {(0, 0), (1, 0), (2, 0)}
    assert batch.num_episodes == 1


@given(seed=seeds, buffer_size=st.integers(1, 8))
def test_buffer_counts_by_definition(seed, buffer_size):
    """An episode counts if its first step is among the first `buffer_size`."""
    dones = np.random.default_rng(seed).random((30, 3)) < 0.3
    dones[-1] = True
    counted, num_episodes = set(), 0
    for env in range(3):
        start = 0
        for end in np.flatnonzero(dones[:, env]).tolist():
            if start < buffer_size:
                counted |= {(t, env) for t in range(start, end + 1)}
                num_episodes += 1
            start = end + 1
    buffer = filled_buffer(dones, buffer_size)
    assert buffer.is_complete
    batch = buffer.episodes()
    assert steps_that_count(batch) == counted
    assert batch.num_episodes == num_episodes
