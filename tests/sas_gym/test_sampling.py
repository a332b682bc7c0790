"""The draws of the sets are uniform, independent, and found by their place alone."""

import itertools

import numpy as np
from helpers.statistical import ERROR_RATE, assert_frequencies
from scipy import stats

from sas_gym.action_sets import Independent
from sas_gym.action_sets._sampler import ALL_ENVS, ActionSetSampler
from sas_gym.action_sets._uniforms import uniforms


class Rows(Independent):
    """A law that shows the uniforms themselves."""

    def sets_from(self, row, state, possible=None):
        return row.copy()


def started(num_envs, seed=0, num_actions=3):
    process = ActionSetSampler(Rows(0.5), num_actions, num_envs)
    process.seed(seed)
    return process


def test_hashed_counters_are_uniform():
    numbers = uniforms(np.arange(200_000, dtype=np.uint64))
    assert stats.kstest(numbers, "uniform").pvalue > ERROR_RATE


def test_draws_at_neighbouring_places_are_independent():
    """Chi-square over 4 x 4 cells for each pair of lanes, episodes, steps and slots."""
    process = started(num_envs=20_000)
    first = process.reset_at(ALL_ENVS, None, None)
    next_step = process.advance(None, None)
    next_episode = process.reset_at(ALL_ENVS, None, None)
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


def test_a_draw_depends_on_lane_episode_and_step_alone():
    """Lane 0 of many replays a single lane, whenever the others begin anew.

    One lane is hashed many steps ahead, a thousand are not: so this also holds the two
    ways of hashing against each other.
    """
    alone, crowd = started(1), started(1000)
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
            lane = np.array([0])
            one[lane] = alone.reset_at(lane, None, None)
            many[lane] = crowd.reset_at(lane, None, None)


def test_no_draw_comes_twice():
    process = started(num_envs=50)
    rows = [process.reset_at(ALL_ENVS, None, None)]
    for _ in range(40):
        rows += [process.advance(None, None) for _ in range(30)]
        rows.append(process.reset_at(ALL_ENVS, None, None))
    numbers = np.concatenate(rows).ravel()
    assert len(np.unique(numbers)) == len(numbers)


def test_a_seed_replays_and_another_does_not():
    first = started(5, seed=7).reset_at(ALL_ENVS, None, None)
    np.testing.assert_array_equal(
        first, started(5, seed=7).reset_at(ALL_ENVS, None, None)
    )
    assert not (first == started(5, seed=8).reset_at(ALL_ENVS, None, None)).any()
