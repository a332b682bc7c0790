"""Which episodes count is decided before they are played; none is cut."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from sas_agents.policy_gradient._episodes import (
    EpisodeBuffer,
    discounted_returns,
    lambda_returns,
)

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
        whole_episodes=True,
    )
    for t, done in enumerate(dones):
        if not buffer.is_complete:
            observation = {"observation": np.full(num_envs, t)}
            buffer.add(observation, np.arange(num_envs), np.ones(num_envs), done, [])
    return buffer


def steps_that_count(buffer):
    """Return the (step, environment) pairs that a buffer returns."""
    steps = zip(buffer.observations()["observation"], buffer.actions(), strict=True)
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


@given(seed=seeds, gamma=st.floats(0, 1), gae_lambda=st.floats(0, 1))
def test_lambda_returns_mix_n_step_returns(seed, gamma, gae_lambda):
    """One environment: by the definition, up to the end of the episode or rollout."""
    rng = np.random.default_rng(seed)
    rewards, dones = rng.normal(size=(7, 1)), rng.random((7, 1)) < 0.2
    values, last = rng.normal(size=(7, 1)), rng.normal(size=1)
    returns = lambda_returns(rewards, dones, values, last, gamma, gae_lambda)
    following = np.append(values[1:, 0], last)
    for t in range(7):
        n_step, discount, expected, weight = 0.0, 1.0, 0.0, 1.0
        for k in range(t, 7):
            n_step += discount * rewards[k, 0]
            discount *= gamma
            is_last = dones[k, 0] or k == 6
            bootstrapped = n_step + discount * following[k] * (not dones[k, 0])
            share = weight if is_last else weight * (1 - gae_lambda)
            expected += share * bootstrapped
            weight *= gae_lambda
            if is_last:
                break
        assert returns[t, 0] == pytest.approx(expected)


def test_time_limit_is_bootstrapped():
    """A limit ends the first of two steps; the second is the rollout's last."""
    space = spaces.Dict(observation=spaces.Discrete(9))
    buffer = EpisodeBuffer(2, space, spaces.Discrete(2), "cpu", 0.5, 1.0, n_envs=1)
    final = {"observation": 7}
    limit = {"TimeLimit.truncated": True, "terminal_observation": final}
    for t, (done, info) in enumerate([(True, limit), (False, {})]):
        observation = {"observation": np.array([t])}
        buffer.add(observation, np.array([0]), np.ones(1), np.array([done]), [info])
    assert buffer.is_complete
    cut = buffer.cut_observations({"observation": np.array([8])})
    assert cut["observation"].tolist() == [7, 8]
    returns = buffer.returns(np.zeros(2), np.array([10.0, 100.0]))
    assert returns.tolist() == [1 + 0.5 * 10, 1 + 0.5 * 100]
    assert buffer.num_episodes() == 1


def test_buffer_keeps_episodes_started_in_first_steps():
    """Environment 0 ends at steps 1, 3 and 4, environment 1 at step 5."""
    dones = np.zeros((6, 2), dtype=bool)
    dones[[1, 3, 4], 0] = dones[5, 1] = True
    buffer = filled_buffer(dones, buffer_size=3)
    assert buffer.is_complete
    # Environment 0 starts its second episode at step 2, in time; its third too late.
    counted = {(t, 0) for t in range(4)} | {(t, 1) for t in range(6)}
    assert steps_that_count(buffer) == counted
    assert buffer.num_episodes() == 3
    returns = buffer.returns(np.zeros(10), np.empty(0))
    assert sorted(returns.tolist()) == [1, 1, 1, 2, 2, 2, 3, 4, 5, 6]


def test_episode_after_the_last_of_the_first_steps_does_not_count():
    """Of 3 first steps the third ends an episode: the next one starts too late."""
    dones = np.array([[False], [False], [True], [False], [True]])
    buffer = filled_buffer(dones, buffer_size=3)
    assert buffer.is_complete
    assert steps_that_count(buffer) == {(0, 0), (1, 0), (2, 0)}
    assert buffer.num_episodes() == 1


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
    assert steps_that_count(buffer) == counted
    assert buffer.num_episodes() == num_episodes
