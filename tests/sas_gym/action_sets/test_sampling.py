"""The uniforms behind the sets are independent, and addressed by their place alone."""

import itertools

import numpy as np
import pytest
from helpers.statistical import ERROR_RATE, assert_frequencies
from scipy import stats

from sas_gym._types import ALL_ENVS
from sas_gym.action_sets import Independent, Markov, PerEpisode
from sas_gym.action_sets._base import Sizes
from sas_gym.action_sets._sampler import ActionSetSampler, hashed_uniforms

FIRST_STAYS = [0.0, 0.2, 0.2, 0.2, 0.2]


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


def test_hash_is_splitmix64():
    """Its first outputs from the state 1234567, as published with many generators."""
    outputs = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    steps = np.arange(1, 6, dtype=np.uint64)
    counters = np.uint64(1234567) + steps * np.uint64(0x9E3779B97F4A7C15)
    expected = [(output >> 12) / 2**52 for output in outputs]
    np.testing.assert_array_equal(hashed_uniforms(counters), expected)


def place(start, env, episode, step):
    """Return the uniforms that a place has, by the definition of the stream."""
    counters = (
        int(start[env])
        + episode * 0xAF251AF3B0F025B5
        + step * 0xD1342543DE82EF95
        + np.arange(3, dtype=object) * 0x9E3779B97F4A7C15
    )
    return hashed_uniforms((counters % 2**64).astype(np.uint64))


@pytest.mark.parametrize("num_envs", [1, 60, 1000, 6000])
def test_draw_is_the_hash_of_its_place(num_envs):
    """So a seed replays in any version; however many are hashed ahead or at once."""
    sequence = np.random.SeedSequence(7, spawn_key=(0x5E75,))
    start, envs = sequence.generate_state(num_envs, np.uint64), [0, num_envs - 1]
    draws = Draws(num_envs, seed=7)
    for episode in (1, 2):
        rows = draws.reset_at()
        for step in range(40):
            for env in envs:
                expected = place(start, env, episode, step)
                np.testing.assert_array_equal(rows[env], expected)
            rows = draws.advance()


@pytest.mark.parametrize("num_envs", [60, 1000])
def test_others_go_on_when_some_start_again(num_envs):
    sequence = np.random.SeedSequence(7, spawn_key=(0x5E75,))
    start = sequence.generate_state(num_envs, np.uint64)
    draws = Draws(num_envs, seed=7)
    rows, some = draws.reset_at(), np.arange(num_envs // 2)
    for step in range(50):
        np.testing.assert_array_equal(rows[-1], place(start, num_envs - 1, 1, step))
        np.testing.assert_array_equal(rows[0], place(start, 0, 1 + step // 3, step % 3))
        rows = draws.advance()
        if step % 3 == 2:
            rows[some] = draws.reset_at(some)[: len(some)]


def test_list_of_seeds_draws_as_each_alone():
    together = Draws(2, seed=[5, 7]).reset_at()
    alone = [Draws(1, seed=seed).reset_at()[0] for seed in (5, 7)]
    np.testing.assert_array_equal(together, alone)


def test_possible_actions_bound_what_is_drawn_ahead():
    """They may be given at one step and not at the next."""
    sets = ActionSetSampler(Independent(np.full(4, 0.9)), 4, num_envs=2)
    sets.seed(0)
    possible = np.array([[True, False, False, True], [False, True, True, False]])
    for _ in range(20):
        assert not (sets.reset_at(ALL_ENVS, None, possible) & ~possible).any()
        assert not (sets.advance(None, possible) & ~possible).any()
        assert (sets.advance(None, None) & ~possible).any()


@pytest.mark.parametrize("num_envs", [3, 1000])
@pytest.mark.parametrize(
    "action_sets",
    [Independent(0.5), Recorder(0.5), PerEpisode(0.5), Markov(0.3, FIRST_STAYS)],
    ids=lambda action_sets: type(action_sets).__name__,
)
def test_restarts_equal_resets_after_a_step(num_envs, action_sets):
    """Drawn together: the sets of running episodes, then the first of new ones."""
    rng = np.random.default_rng(0)
    fitted = action_sets.fit(Sizes(5))
    one, other = (ActionSetSampler(fitted, 5, num_envs) for _ in range(2))
    for sets in (one, other):
        sets.seed(3)
        sets.reset_at(ALL_ENVS, None, None)
    for _ in range(60):
        restarted = np.flatnonzero(rng.random(num_envs) < 0.3)
        together = one.advance(None, None, restarted)
        apart = other.advance(None, None), other.reset_at(restarted, None, None)
        np.testing.assert_array_equal(together, np.concatenate(apart))


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
