"""The laws of the action set give the sets that they state, and never an empty one."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from helpers.statistical import (
    all_masks,
    assert_frequencies,
    independent_law,
    set_numbers,
)
from hypothesis import given
from hypothesis import strategies as st

from sas_gym.action_sets import Explicit, Grouped, Independent, Markov, PerEpisode
from sas_gym.action_sets._sampler import ALL_ENVS, ActionSetSampler

NUM_DRAWS = 200_000
PAIRS = [[1, 1, 0], [0, 1, 1], [0, 0, 1]]


def draw(law, num_actions, state=None, possible=None, num_states=None, seed=0):
    """Draw many sets from fresh uniforms."""
    law = law.fit(num_actions, num_states)
    rows = np.random.default_rng(seed).random(
        (NUM_DRAWS, law.num_uniforms(num_actions))
    )
    states = None if state is None else np.full(NUM_DRAWS, state)
    possible = (
        None if possible is None else np.tile(np.array(possible, bool), (NUM_DRAWS, 1))
    )
    return law.sets_from(rows, states, possible)


def counts(masks):
    return np.bincount(set_numbers(masks), minlength=1 << masks.shape[1])


@pytest.mark.parametrize(
    "p", [[0.2, 0.2], [0.8] * 4, [0.05, 0.5, 0.0, 1e-3], [1.0, 0.3]]
)
def test_independent_sets_have_the_product_law_given_that_they_are_not_empty(p):
    assert_frequencies(counts(draw(Independent(p), len(p))), independent_law(p))


def test_one_probability_stands_for_every_action():
    assert_frequencies(counts(draw(Independent(0.3), 3)), independent_law([0.3] * 3))


@pytest.mark.parametrize("state", [0, 1])
def test_independent_probabilities_may_differ_by_state(state):
    table = [[0.1, 0.7, 0.2], [0.9, 0.0, 0.4]]
    masks = draw(Independent(table), 3, state=state, num_states=2)
    assert_frequencies(counts(masks), independent_law(table[state]))


def test_independent_sets_within_the_possible_have_the_law_given_not_empty():
    masks = draw(Independent([0.2, 0.9, 0.3]), 3, possible=[1, 0, 1])
    assert_frequencies(counts(masks), independent_law([0.2, 0.0, 0.3]))


def test_explicit_sets_have_their_stated_probabilities():
    law = np.zeros(8)
    law[set_numbers(np.array(PAIRS, bool))] = 0.5, 0.3, 0.2
    assert_frequencies(counts(draw(Explicit(PAIRS, [0.5, 0.3, 0.2]), 3)), law)


def test_explicit_probabilities_may_differ_by_state():
    by_state = Explicit.from_states([{(0,): 1.0}, {(0, 1): 0.25, (1,): 0.75}], 2)
    assert_frequencies(counts(draw(by_state, 2, 0, num_states=2)), [0, 1, 0, 0])
    assert_frequencies(counts(draw(by_state, 2, 1, num_states=2)), [0, 0, 0.75, 0.25])


def test_explicit_sets_within_the_possible_drop_what_would_be_empty():
    masks = draw(Explicit(PAIRS, [0.5, 0.3, 0.2]), 3, possible=[1, 1, 0])
    law = np.zeros(8)
    law[0b11], law[0b10] = 0.5 / 0.8, 0.3 / 0.8
    assert_frequencies(counts(masks), law)


def grouped_law(groups, p, possible):
    """Enumerate the groups, given that something possible is in one that is open."""
    law = np.zeros(1 << len(groups))
    for is_open in all_masks(len(p)):
        mask = is_open[groups] & np.array(possible, bool)
        chance = np.where(is_open, p, 1 - np.asarray(p)).prod()
        law[set_numbers(mask[None])] += chance
    law[0] = 0.0
    return law / law.sum()


@pytest.mark.parametrize("possible", [[1, 1, 1, 1], [0, 1, 0, 1], [0, 0, 0, 1]])
def test_groups_come_and_go_together(possible):
    groups, p = np.array([0, 0, 1, 2]), [0.3, 0.6, 0.1]
    masks = draw(Grouped(groups, p), 4, possible=possible)
    assert_frequencies(counts(masks), grouped_law(groups, p, possible))


def process(law, num_actions, num_envs, num_states=None):
    started = ActionSetSampler(law.fit(num_actions, num_states), num_actions, num_envs)
    started.seed(0)
    return started


def test_per_episode_sets_have_the_inner_law_and_stay():
    sets = process(PerEpisode(0.3), 3, NUM_DRAWS)
    first = sets.reset_at(ALL_ENVS, None, None)
    assert_frequencies(counts(first), independent_law([0.3] * 3))
    for _ in range(3):
        np.testing.assert_array_equal(sets.advance(None, None), first)
    again = set_numbers(sets.reset_at(ALL_ENVS, None, None))
    same = np.sum(independent_law([0.3] * 3) ** 2)
    agree = np.bincount((again == set_numbers(first)).astype(int))
    assert_frequencies(agree, [1 - same, same])


def test_per_episode_sets_of_two_states_are_independent_and_recur():
    sets = process(PerEpisode(0.4), 2, NUM_DRAWS, num_states=5)
    here, there = np.zeros(NUM_DRAWS, int), np.full(NUM_DRAWS, 4)
    first = sets.reset_at(ALL_ENVS, here, None)
    second = sets.advance(there, None)
    law = independent_law([0.4] * 2)
    joint = np.bincount(4 * set_numbers(first) + set_numbers(second), minlength=16)
    assert_frequencies(joint, np.outer(law, law))
    np.testing.assert_array_equal(sets.advance(here, None), first)


def test_markov_sets_have_the_law_of_their_equilibrium_at_every_step():
    turn_on, turn_off = np.array([0.1, 0.5, 0.9]), np.array([0.3, 0.2, 0.8])
    sets = process(Markov(turn_on, turn_off), 3, NUM_DRAWS)
    law = independent_law(turn_on / (turn_on + turn_off))
    assert_frequencies(counts(sets.reset_at(ALL_ENVS, None, None)), law)
    for _ in range(3):
        masks = sets.advance(None, None)
    assert_frequencies(counts(masks), law)


def test_markov_actions_turn_on_and_off_by_their_chances():
    # Action 0 never goes, so no set is ever empty and the other chain is seen as it is.
    sets = process(Markov([1.0, 0.2], [0.0, 0.6]), 2, NUM_DRAWS)
    before = sets.reset_at(ALL_ENVS, None, None)[:, 1]
    after = sets.advance(None, None)[:, 1]
    assert_frequencies(np.bincount(after[before]), [0.6, 0.4])
    assert_frequencies(np.bincount(after[~before]), [0.8, 0.2])


@pytest.mark.parametrize(
    ("law", "is_sas_mdp"),
    [
        (Independent(0.5), True),
        (Explicit(PAIRS, [0.5, 0.3, 0.2]), True),
        (Grouped([0, 0, 1], 0.5), True),
        (PerEpisode(0.5), False),
        (Markov(0.5, 0.5), False),
    ],
)
def test_a_law_says_whether_it_is_one_of_a_sas_mdp(law, is_sas_mdp):
    assert law.is_sas_mdp is is_sas_mdp


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
def test_no_independent_set_is_empty_or_holds_what_has_no_chance(data, p):
    shape = (4, len(p))
    row = data.draw(hnp.arrays(float, shape, elements=extreme_uniforms))
    possible = data.draw(hnp.arrays(bool, shape))
    possible[:, np.argmax(p)] = True
    for allowed in (None, possible):
        mask = Independent(p).sets_from(row, None, allowed)
        assert mask.any(axis=1).all()
        assert not mask[:, np.array(p) == 0].any()
        assert mask[:, np.array(p) == 1].all() or allowed is not None
        assert allowed is None or not (mask & ~allowed).any()


@given(data=st.data(), num_actions=st.integers(1, 5))
def test_no_explicit_or_grouped_set_within_the_possible_is_empty(data, num_actions):
    possible = data.draw(hnp.arrays(bool, (3, num_actions)))
    possible[~possible.any(axis=1), 0] = True
    masks = all_masks(num_actions)[1:]
    explicit = Explicit(masks, np.full(len(masks), 1 / len(masks)))
    groups = np.arange(num_actions) // 2
    for law in (explicit, Grouped(groups, 1e-9), Grouped(groups, 0.5)):
        shape = (3, law.num_uniforms(num_actions))
        row = data.draw(hnp.arrays(float, shape, elements=extreme_uniforms))
        mask = law.sets_from(row, None, possible)
        assert mask.any(axis=1).all()
        assert not (mask & ~possible).any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Independent(1.2),
            r"availability must be numbers in \[0, 1\]; got \[1.2\]",
        ),
        (lambda: Independent([0.5, np.nan]), "availability must be numbers"),
        (lambda: Independent("often"), "availability must be numbers .* 'often'"),
        (lambda: Independent(np.ones((2, 2, 2))), r"got shape \(2, 2, 2\)"),
        (lambda: Independent([[0.5], [0.0]]), r"0 for every action in states \[1\]"),
        (lambda: Independent(0.0), "availability is 0 for every action, but"),
        (lambda: Independent([0.5, 0.5]).fit(3, None), r"must have 3 columns.*\(2,\)"),
        (lambda: Independent(np.ones((4, 2))).fit(2, 5), "each of the 5 states"),
        (lambda: Independent(np.ones((4, 2))).fit(2, None), "are not numbered"),
        (lambda: Explicit([[0, 0], [1, 1]], [0.5, 0.5]), r"sets \[0\] are empty"),
        (lambda: Explicit([[2, 1]], [1.0]), "masks of 0 and 1"),
        (lambda: Explicit([[1, 1]], [0.5, 0.5]), "one number a set, 1"),
        (lambda: Explicit([[1, 0], [0, 1]], [0.5, 0.4]), "must sum to 1"),
        (lambda: Explicit([[1, 0]], [1.0]).fit(3, None), "one column an action, 3"),
        (lambda: Grouped([0, 2], 0.5), r"without gaps; missing \[1\]"),
        (lambda: Grouped([0.5], 0.5), "number of each action's group"),
        (lambda: Grouped([0, 1], 0.5).fit(3, None), "each of the 3 actions; got 2"),
        (lambda: Markov(0.0, 0.5), "turn_on must be above 0"),
        (lambda: Markov(0.5, 1.0), "turn_off must be below 1"),
        (lambda: Markov([0.5, 0.5], 0.5).fit(3, None), "turn_on must have 3 columns"),
        (lambda: PerEpisode(Markov(0.5, 0.5)), "law that forgets, got Markov"),
    ],
)
def test_a_law_that_makes_no_sense_names_the_culprit(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_state_in_which_nothing_possible_is_ever_available_is_an_error():
    possible = np.array([[False, True]])
    with pytest.raises(ValueError, match="both possible in this state and ever"):
        Independent([1.0, 0.0]).sets_from(np.zeros((1, 2)), None, possible)
    with pytest.raises(ValueError, match="no set of the law contains"):
        Explicit([[1, 0]], [1.0]).sets_from(np.zeros((1, 1)), None, possible)
