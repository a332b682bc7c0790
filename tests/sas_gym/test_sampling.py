"""The uniforms behind the sets are independent, and addressed by their place alone."""

import itertools

import numpy as np
from helpers.statistical import ERROR_RATE, assert_frequencies
from scipy import stats

from sas_gym._types import ALL_ENVS
from sas_gym.action_sets import Independent
from sas_gym.action_sets._sampler import ActionSetSampler, hashed_uniforms


class Uniforms(Independent):
    """A distribution that shows the uniforms themselves."""

    def sets_from(self, uniforms, state, possible):
        return uniforms.copy()


def seeded(num_envs, seed=0, num_actions=3):
    sampler = ActionSetSampler(Uniforms(0.5), num_actions, num_envs)
    sampler.seed(seed)
    return sampler


def test_hashed_counters_are_uniform():
    numbers = hashed_uniforms(np.arange(200_000, dtype=np.uint64))
    assert stats.kstest(numbers, "uniform").pvalue > ERROR_RATE


def test_neighbouring_draws_are_independent():
    """Chi-square over 4 x 4 cells for each pair of neighbours along every axis."""
    sampler = seeded(num_envs=20_000)
    first = sampler.reset_at(ALL_ENVS, None, None)
    next_step = sampler.advance(None, None)
    next_episode = sampler.reset_at(ALL_ENVS, None, None)
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
    alone, crowd = seeded(1), seeded(1000)
    rng = np.random.default_rng(0)
    one, many = (
        alone.reset_at(ALL_ENVS, None, None),
        crowd.reset_at(ALL_ENVS, None, None),
    )
    for _ in range(300):
        np.testing.assert_array_equal(one[0], many[0])
        one, many = alone.advance(None, None), crowd.advance(None, None)
        others = 1 + np.flatnonzero(rng.random(999) < 0.1)
        many[others] = crowd.reset_at(others, None, None)
        if rng.random() < 0.05:
            first = np.array([0])
            one[first] = alone.reset_at(first, None, None)
            many[first] = crowd.reset_at(first, None, None)


def test_no_draw_repeats():
    sampler = seeded(num_envs=50)
    rows = [sampler.reset_at(ALL_ENVS, None, None)]
    for _ in range(40):
        rows += [sampler.advance(None, None) for _ in range(30)]
        rows.append(sampler.reset_at(ALL_ENVS, None, None))
    numbers = np.concatenate(rows).ravel()
    assert len(np.unique(numbers)) == len(numbers)


def test_seed_replays():
    first = seeded(5, seed=7).reset_at(ALL_ENVS, None, None)
    np.testing.assert_array_equal(
        first, seeded(5, seed=7).reset_at(ALL_ENVS, None, None)
    )
    assert not (first == seeded(5, seed=8).reset_at(ALL_ENVS, None, None)).any()
