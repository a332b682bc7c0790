"""The uniforms behind the sets are independent, and addressed by their place alone."""

import itertools

import numpy as np
from helpers.statistical import ERROR_RATE, assert_frequencies
from scipy import stats

from sas_gym._types import ALL_ENVS
from sas_gym.action_sets import Independent
from sas_gym.action_sets._sampler import ActionSetSampler, hashed_uniforms


class Recorder(Independent):
    """A distribution that keeps the uniforms from which it makes sets."""

    def sets_from(self, uniforms, state, possible):
        self.uniforms = uniforms.copy()
        return super().sets_from(uniforms, state, possible)


class Draws:
    """The uniforms that a sampler draws, three per set."""

    def __init__(self, num_envs, seed=0):
        self._recorder = Recorder(0.5)
        self._sampler = ActionSetSampler(self._recorder, 3, num_envs)
        self._sampler.seed(seed)

    def reset_at(self, envs=ALL_ENVS):
        self._sampler.reset_at(envs, None, None)
        return self._recorder.uniforms

    def advance(self):
        self._sampler.advance(None, None)
        return self._recorder.uniforms


def test_hashed_counters_are_uniform():
    numbers = hashed_uniforms(np.arange(200_000, dtype=np.uint64))
    assert stats.kstest(numbers, "uniform").pvalue > ERROR_RATE


def test_neighbouring_draws_are_independent():
    """Chi-square over 4 x 4 cells for each pair of neighbours along every axis."""
    draws = Draws(num_envs=20_000)
    first = draws.reset_at()
    next_step = draws.advance()
    next_episode = draws.reset_at()
    neighbours = [
        first[:-1, 0],
        first[1:, 0],
        first[:-1, 1],
        next_step[:-1, 0],
        next_episode[:-1, 0],
    ]
    for x, y in itertools.combinations(neighbours, 2):
        cells = np.bincount((4 * x).astype(int) * 4 + (4 * y).astype(int), minlength=16)
        assert_frequencies(cells, np.full(16, 1 / 16))


def test_draw_depends_on_environment_episode_and_step_alone():
    """Environment 0 of many replays a single one, whenever the others reset.

    One environment is hashed many steps ahead, a thousand are not: so this also holds
    the two ways of hashing against each other.
    """
    alone, crowd = Draws(1), Draws(1000)
    rng = np.random.default_rng(0)
    one, many = alone.reset_at(), crowd.reset_at()
    for _ in range(300):
        np.testing.assert_array_equal(one[0], many[0])
        one, many = alone.advance(), crowd.advance()
        others = 1 + np.flatnonzero(rng.random(999) < 0.1)
        many[others] = crowd.reset_at(others)
        if rng.random() < 0.05:
            first = np.array([0])
            one[first] = alone.reset_at(first)
            many[first] = crowd.reset_at(first)


def test_no_draw_repeats():
    draws = Draws(num_envs=50)
    rows = [draws.reset_at()]
    for _ in range(40):
        rows += [draws.advance() for _ in range(30)]
        rows.append(draws.reset_at())
    numbers = np.concatenate(rows).ravel()
    assert len(np.unique(numbers)) == len(numbers)


def test_seed_replays():
    first = Draws(5, seed=7).reset_at()
    np.testing.assert_array_equal(first, Draws(5, seed=7).reset_at())
    assert not (first == Draws(5, seed=8).reset_at()).any()
