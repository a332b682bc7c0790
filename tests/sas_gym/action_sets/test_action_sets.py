"""Distributions draw the sets that they state, and never an empty one."""

from functools import partial
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from helpers.brute_force import by_number, independent_set_probs, set_probs
from helpers.statistical import assert_frequencies, set_numbers
from hypothesis import given
from hypothesis import strategies as st

from sas_gym._types import ALL_ENVS
from sas_gym.action_sets import Explicit, Grouped, Independent, Markov, PerEpisode
from sas_gym.action_sets._base import Sizes
from sas_gym.action_sets._independent import first_member_probs
from sas_gym.action_sets._sampler import ActionSetSampler, hashed_uniforms
from sas_gym.action_sets._set_lists import subsets

NUM_DRAWS = 200_000
PAIRS = [[1, 1, 0], [0, 1, 1], [0, 0, 1]]


def draw(action_sets, num_actions, state=None, possible=None, num_states=None):
    """Draw many sets from fresh uniforms."""
    action_sets = action_sets.fit(Sizes(num_actions, num_states))
    shape = (NUM_DRAWS, action_sets.num_uniforms(num_actions))
    uniforms = np.random.default_rng(0).random(shape)
    states = None if state is None else np.full(NUM_DRAWS, state)
    if possible is not None:
        possible = np.tile(np.array(possible, bool), (NUM_DRAWS, 1))
    return action_sets.sets_from(uniforms, states, possible)


def counts(masks):
    return np.bincount(set_numbers(masks), minlength=1 << masks.shape[1])


@pytest.mark.parametrize(
    "p", [[0.2, 0.2], [0.8] * 4, [0.05, 0.5, 0.0, 1e-3], [1.0, 0.3]]
)
def test_independent_draws_conditioned_on_not_empty(p):
    assert_frequencies(counts(draw(Independent(p), len(p))), independent_set_probs(p))


def test_independent_scalar_is_for_every_action():
    assert_frequencies(
        counts(draw(Independent(0.3), 3)), independent_set_probs([0.3] * 3)
    )


@pytest.mark.parametrize("state", [0, 1])
def test_independent_by_state(state):
    table = [[0.1, 0.7, 0.2], [0.9, 0.0, 0.4]]
    masks = draw(Independent(table), 3, state=state, num_states=2)
    assert_frequencies(counts(masks), independent_set_probs(table[state]))


def test_independent_draws_within_possible():
    masks = draw(Independent([0.2, 0.9, 0.3]), 3, possible=[1, 0, 1])
    assert_frequencies(counts(masks), independent_set_probs([0.2, 0.0, 0.3]))


def test_independent_possible_changes_no_bit_where_table_is_zero():
    """A table that is 0 where an action is not possible draws the same sets anyway."""
    table = np.array([[0.3, 0.0, 0.6], [0.0, 0.9, 0.0]])
    action_sets, rng = Independent(table), np.random.default_rng(0)
    uniforms, state = rng.random((1000, 3)), rng.integers(2, size=1000)
    np.testing.assert_array_equal(
        action_sets.sets_from(uniforms, state, table[state] > 0),
        action_sets.sets_from(uniforms, state, None),
    )


def test_explicit_draws():
    expected = np.zeros(8)
    expected[set_numbers(np.array(PAIRS, bool))] = 0.5, 0.3, 0.2
    assert_frequencies(counts(draw(Explicit(PAIRS, [0.5, 0.3, 0.2]), 3)), expected)


def test_explicit_by_state():
    by_state = Explicit.from_states([{(0,): 1.0}, {(0, 1): 0.25, (1,): 0.75}], 2)
    assert_frequencies(counts(draw(by_state, 2, 0, num_states=2)), [0, 1, 0, 0])
    assert_frequencies(counts(draw(by_state, 2, 1, num_states=2)), [0, 0, 0.75, 0.25])


def test_explicit_draws_within_possible():
    """The third set would be empty: it is dropped."""
    masks = draw(Explicit(PAIRS, [0.5, 0.3, 0.2]), 3, possible=[1, 1, 0])
    expected = np.zeros(8)
    expected[0b11], expected[0b10] = 0.5 / 0.8, 0.3 / 0.8
    assert_frequencies(counts(masks), expected)


@pytest.mark.parametrize("possible", [[1, 1, 1, 1], [0, 1, 0, 1], [0, 0, 0, 1]])
def test_grouped_draws_within_possible(possible):
    groups = Grouped([0, 0, 1, 2], [[0.3, 0.6, 0.1]])
    masks = draw(groups, 4, state=0, possible=possible, num_states=1)
    expected = set_probs(groups, np.array(possible, bool), state=0)
    assert_frequencies(counts(masks), by_number(expected, 4))


def sampler(action_sets, num_actions, num_states=None):
    fitted = action_sets.fit(Sizes(num_actions, num_states))
    seeded = ActionSetSampler(fitted, num_actions, NUM_DRAWS)
    seeded.seed(0)
    return seeded


def test_per_episode_sets_stay():
    sets = sampler(PerEpisode(0.3), 3)
    first = sets.reset_at(ALL_ENVS, None, None)
    assert_frequencies(counts(first), independent_set_probs([0.3] * 3))
    for _ in range(3):
        np.testing.assert_array_equal(sets.advance(None, None), first)
    again = set_numbers(sets.reset_at(ALL_ENVS, None, None))
    same = np.sum(independent_set_probs([0.3] * 3) ** 2)
    agree = np.bincount((again == set_numbers(first)).astype(int))
    assert_frequencies(agree, [1 - same, same])


def test_per_episode_states_are_independent_and_recur():
    sets = sampler(PerEpisode(0.4), 2, num_states=5)
    here, there = np.zeros(NUM_DRAWS, int), np.full(NUM_DRAWS, 4)
    first = sets.reset_at(ALL_ENVS, here, None)
    second = sets.advance(there, None)
    probs = independent_set_probs([0.4] * 2)
    joint = np.bincount(4 * set_numbers(first) + set_numbers(second), minlength=16)
    assert_frequencies(joint, np.outer(probs, probs))
    np.testing.assert_array_equal(sets.advance(here, None), first)


def test_markov_starts_and_stays_in_equilibrium():
    turn_on, turn_off = np.array([0.1, 0.5, 1.0]), np.array([0.3, 0.2, 0.0])
    sets = sampler(Markov(turn_on, turn_off), 3)
    expected = independent_set_probs(turn_on / (turn_on + turn_off))
    assert_frequencies(counts(sets.reset_at(ALL_ENVS, None, None)), expected)
    for _ in range(3):
        masks = sets.advance(None, None)
    assert_frequencies(counts(masks), expected)


def test_markov_numbers_by_hand():
    """Below 1/2 an action is on. It stays so with 3/4, and turns on with 1/4."""
    chain = Markov(0.25, 0.25).fit(Sizes(1))
    last = np.array([[0.1], [0.1], [0.5], [0.5], [0.9]])
    fresh = np.array([[0.6], [0.9], [0.2], [0.5], [0.25]])
    expected = [[0.4], [0.8], [0.4], [2 / 3], [0.5]]
    numbers = chain.next_uniforms(last, fresh)
    np.testing.assert_allclose(numbers, expected, rtol=1e-15)


def test_per_episode_hashes_the_state():
    """So a seed replays in any version: the episode's number and a stride per state."""
    sets = PerEpisode(Explicit(np.eye(64), np.full(64, 1 / 64))).fit(Sizes(64, 10))
    uniforms = np.random.default_rng(0).random((10, 1))
    bits = (uniforms * 2.0**53).astype(np.uint64)
    strides = np.arange(10, dtype=np.uint64) * np.uint64(0xD1342543DE82EF95)
    expected = (64 * hashed_uniforms(bits[:, 0] + strides)).astype(int)
    drawn = sets.sets_from(uniforms, np.arange(10), None)
    np.testing.assert_array_equal(drawn.argmax(axis=1), expected)


def test_markov_transition_probabilities():
    # Action 0 is always on: no set is empty, and the other chain is seen as it is.
    sets = sampler(Markov([1.0, 0.2], [0.0, 0.6]), 2)
    before = sets.reset_at(ALL_ENVS, None, None)[:, 1]
    after = sets.advance(None, None)[:, 1]
    assert_frequencies(np.bincount(after[before]), [0.6, 0.4])
    assert_frequencies(np.bincount(after[~before]), [0.8, 0.2])


@pytest.mark.parametrize(
    ("action_sets", "is_sas_mdp"),
    [
        (Independent(0.5), True),
        (Explicit(PAIRS, [0.5, 0.3, 0.2]), True),
        (Grouped([0, 0, 1], 0.5), True),
        (PerEpisode(0.5), False),
        (Markov(0.5, 0.5), False),
    ],
)
def test_is_sas_mdp(action_sets, is_sas_mdp):
    assert action_sets.is_sas_mdp is is_sas_mdp


# Tiny and extreme probabilities too; at least one must be positive.
probabilities = st.lists(
    st.one_of(st.just(0.0), st.just(1.0), st.floats(1e-300, 1.0)),
    min_size=1,
    max_size=6,
).filter(any)
extreme_uniforms = st.one_of(
    st.just(0.0), st.just(1 - 2.0**-53), st.floats(0, 1, exclude_max=True)
)


@given(data=st.data(), p=probabilities)
def test_independent_extreme_probabilities(data, p):
    """No set is empty or holds what has probability 0 or is not possible."""
    shape = (4, len(p))
    uniforms = data.draw(hnp.arrays(float, shape, elements=extreme_uniforms))
    possible = data.draw(hnp.arrays(bool, shape))
    possible[:, np.argmax(p)] = True
    for allowed in (None, possible):
        mask = Independent(p).sets_from(uniforms, None, allowed)
        assert mask.any(axis=1).all()
        assert not mask[:, np.array(p) == 0].any()
        assert mask[:, np.array(p) == 1].all() or allowed is not None
        assert allowed is None or not (mask & ~allowed).any()


@given(data=st.data(), num_actions=st.integers(1, 5))
def test_correlated_sets_are_never_empty(data, num_actions):
    possible = data.draw(hnp.arrays(bool, (3, num_actions)))
    possible[~possible.any(axis=1), 0] = True
    masks = subsets(num_actions)[1:]
    explicit = Explicit(masks, np.full(len(masks), 1 / len(masks)))
    groups = np.arange(num_actions) // 2
    for correlated in (explicit, Grouped(groups, 1e-9), Grouped(groups, 0.5)):
        action_sets = correlated.fit(Sizes(num_actions))
        shape = (3, action_sets.num_uniforms(num_actions))
        uniforms = data.draw(hnp.arrays(float, shape, elements=extreme_uniforms))
        mask = action_sets.sets_from(uniforms, None, possible)
        assert mask.any(axis=1).all()
        assert not (mask & ~possible).any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Independent(1.2),
            r"availability must be probabilities in \[0, 1\]; got \[1.2\]",
        ),
        (lambda: Independent([0.5, np.nan]), "availability must be probabilities"),
        (lambda: Independent("often"), "availability must be probabilities .* 'often'"),
        (lambda: Independent(np.ones((2, 2, 2))), r"got shape \(2, 2, 2\)"),
        (lambda: Independent([[0.5], [0.0]]), r"0 for every action in states \[1\]"),
        (lambda: Independent(0.0), "availability is 0 for every action, but"),
        (lambda: Independent([0.5, 0.5]).fit(Sizes(3)), r"must have 3 columns.*\(2,\)"),
        (lambda: Independent(np.ones((4, 2))).fit(Sizes(2, 5)), "each of the 5 states"),
        (lambda: Independent(np.ones((4, 2))).fit(Sizes(2)), "are not numbered"),
        (lambda: Explicit([[0, 0], [1, 1]], [0.5, 0.5]), r"sets \[0\] are empty"),
        (lambda: Explicit([[2, 1]], [1.0]), "masks of 0 and 1"),
        (
            lambda: Explicit([[1, 1]], [0.5, 0.5]),
            "one entry per set in the last axis, 1",
        ),
        (lambda: Explicit([[1, 0], [0, 1]], [0.5, 0.4]), "must sum to 1"),
        (lambda: Explicit([[1, 0]], [1.0]).fit(Sizes(3)), "one column per action, 3"),
        (lambda: Grouped([0, 2], 0.5), r"without gaps; missing \[1\]"),
        (lambda: Grouped([0.5], 0.5), "group number of each action"),
        (lambda: Grouped([0, 1], 0.5).fit(Sizes(3)), "one entry per action, 3; got 2"),
        (lambda: Markov(0.0, 0.5), "turn_on must be above 0"),
        (lambda: Markov(0.5, 1.0), "turn_off must be below 1"),
        (
            lambda: Markov([0.5, 0.5], 0.5).fit(Sizes(3)),
            r"turn_on must be one number or one per action, shape \(3,\)",
        ),
        (lambda: PerEpisode(Markov(0.5, 0.5)), "current state alone, got Markov"),
    ],
)
def test_invalid_distribution_error(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "action_sets",
    [Independent([1.0, 0.0]), Explicit([[1, 0]], [1.0]), Grouped([0, 1], [1.0, 0.0])],
)
def test_infeasible_state_error(action_sets):
    """It names the states in which no possible action is ever available."""
    possible = np.array([[True, True], [False, True]])
    uniforms = np.zeros((2, action_sets.num_uniforms(2)))
    for state, where in ((None, "available, but"), (np.array([3, 7]), r"states \[7\]")):
        with pytest.raises(ValueError, match=f"no possible action is ever .*{where}"):
            action_sets.sets_from(uniforms, state, possible)


def test_errors_name_at_most_five_culprits():
    five, six = np.ones((5, 2)), np.ones((6, 2))
    with pytest.raises(ValueError, match=r"states \[0, 1, 2, 3, 4\], but"):
        Independent(0 * five)
    with pytest.raises(ValueError, match=r"states \[0, 1, 2, 3, 4\] and 1 more, but"):
        Independent(0 * six)
    with pytest.raises(ValueError, match=r"got \[2.0, 3.0, 4.0, 5.0, 6.0\]$"):
        Independent(np.arange(2, 9))


def test_sets_of_the_state_within_the_possible():
    """Nothing is drawn ahead of a state, or without regard to it."""
    only = Explicit([[1, 0], [0, 1], [1, 1]], [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    fitted = only.fit(Sizes(2, 2))
    assert not fitted.stays_within(np.array([[True, True], [True, False]]))
    sets = ActionSetSampler(fitted, 2, num_envs=3)
    sets.seed(0)
    first = np.array([[True, False]])
    draws: list[Any] = [partial(sets.reset_at, ALL_ENVS), *[sets.advance] * 20]
    for draw_sets in draws:
        drawn = draw_sets(np.array([0, 1, 1]), None)
        np.testing.assert_array_equal(drawn[:1], first)
        assert drawn[1:, 1].all()
        possible = np.array([[True, True], [True, False], [True, False]])
        drawn = sets.advance(np.array([0, 1, 1]), possible)
        np.testing.assert_array_equal(drawn, first.repeat(3, axis=0))


class Alternating(Independent):
    """A distribution of a user's, which looks at the state in its own way."""

    def sets_from(self, uniforms, state, possible):
        return np.stack([state % 2 == 0, state % 2 == 1], axis=1)


def test_only_what_ignores_the_state_is_drawn_ahead():
    assert Independent([0.5, 0.5]).is_same_in_every_state
    assert not Independent([[0.5, 0.5]]).is_same_in_every_state
    sets = ActionSetSampler(Alternating([0.5, 0.5]), 2, num_envs=1)
    sets.seed(0)
    sets.reset_at(ALL_ENVS, np.array([0]), None)
    for step in range(5):
        drawn = sets.advance(np.array([step]), None)
        assert drawn.tolist() == [[step % 2 == 0, step % 2 == 1]]


def test_independent_stays_within_where_it_is_0_outside():
    table = Independent([[1.0, 0.0], [0.2, 0.5]])
    assert table.stays_within(np.array([[True, False], [True, True]]))
    assert not table.stays_within(np.array([[True, False], [True, False]]))


@given(
    seed=st.integers(0, 10_000),
    num_actions=st.sampled_from([1, 3, 60, 100]),
    availability=st.sampled_from([0.02, 0.3, 0.8, 1.0]),
    level=st.sampled_from([0.0, 0.5, 0.999]),
    num_sets=st.sampled_from([1, 20]),
)
def test_independent_draws_by_definition(
    seed, num_actions, availability, level, num_sets
):
    """The first member by its own probabilities, the others by theirs.

    With many actions the leading ones need no condition; at a high level of the
    uniforms few of them are in, or none.
    """
    rng = np.random.default_rng(seed)
    p = np.full(num_actions, availability)
    p[rng.random(num_actions) < 0.1] = 0.0
    p[-1] = availability
    uniforms = level + (1 - level) * rng.random((num_sets, num_actions))
    expected = uniforms < p
    first = (uniforms < first_member_probs(p)).argmax(axis=1)
    expected[np.arange(num_sets), first] = True
    for table in (p, np.stack([p, np.ones(num_actions)])):
        masks = Independent(table).sets_from(uniforms, np.zeros(num_sets, int), None)
        np.testing.assert_array_equal(masks, expected)


@pytest.mark.parametrize(
    "table", [[0.3] * 3, [[0.3] * 3, [1.0] * 3], [[1.0] * 3, [1.0] * 3, [0.3] * 3]]
)
def test_first_member_may_come_before_those_that_are_in(table):
    """Of three at 0.3 the first is in with probability 0.3 / 0.657 = 0.457.

    Also beside states in which everything is available.
    """
    states = np.full(2, table.index([0.3] * 3) if [0.3] * 3 in table else 0)
    masks = Independent(table).sets_from(
        np.array([[0.4, 0.1, 0.9], [0.5, 0.1, 0.9]]), states, None
    )
    assert masks.tolist() == [[True, True, False], [False, True, False]]


def test_first_member_among_the_last_of_many():
    """Where 98 of 100 at 0.8 are out, the 99th is in with 0.8 / 0.96 = 0.833."""
    uniforms = np.full((1, 100), 0.99)
    uniforms[0, 98:] = 0.82, 0.5
    masks = Independent([0.8] * 100).sets_from(uniforms, None, None)
    assert masks[0].nonzero()[0].tolist() == [98, 99]


def test_first_member_probs_by_hand():
    """Of 1/2, 1/2 and 0: 1/2 of the 3/4 that are not empty, then certainly the next."""
    table = np.array([[0.5, 0.5, 0.0], [0.0, 0.25, 1.0]])
    probs = first_member_probs(table)
    np.testing.assert_allclose(probs[0, :2], [2 / 3, 1.0], rtol=1e-15)
    np.testing.assert_allclose(probs[1], [0.0, 0.25, 1.0], rtol=1e-15)
