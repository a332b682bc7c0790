"""Shut the Box: its moves, and values that are worked out tile by tile."""

import itertools
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers.statistical import assert_frequencies, assert_mean

from sas_gym import RandomPolicy, SASEnv, ShutTheBox, episode_returns, rules
from sas_gym.planning import (
    informed_return,
    optimal_return,
    policy_return,
    random_return,
    rule_score,
    solve,
)
from sas_gym.tasks._shut_the_box import bits

TWO = [a + b for a, b in itertools.product(range(1, 7), repeat=2)]
ONE = list(range(1, 7))

# Optimum and random play to six digits, by the arguments.
VALUES: list[tuple[dict[str, Any], float, float]] = [
    ({}, 0.071432, 0.020393),
    ({"one_die": True}, 0.097614, 0.020610),
    ({"objective": "score"}, -11.157508, -20.418812),
    ({"num_tiles": 10}, 0.040438, 0.007139),
    ({"num_tiles": 10, "objective": "score"}, -16.645721, -28.397445),
    ({"num_tiles": 12}, 0.003622, 0.000247),
]


@pytest.mark.parametrize(("arguments", "optimum", "random"), VALUES)
def test_known_values(arguments, optimum, random):
    task = ShutTheBox(**arguments)
    assert optimal_return(task) == pytest.approx(optimum, abs=5e-7)
    assert random_return(task) == pytest.approx(random, abs=5e-7)


def test_known_score_with_one_die():
    task = ShutTheBox(objective="score", one_die=True)
    assert optimal_return(task) == pytest.approx(-11.009209, abs=5e-7)


@pytest.mark.parametrize(
    ("make", "win", "score"),
    [
        (rules.most_tiles, 0.010223, -24.228167),
        (rules.fewest_tiles, 0.060693, -12.205873),
        (rules.highest_tile, 0.065614, -11.836747),
    ],
)
def test_known_values_of_the_rules(make, win, score):
    for task, value in ((ShutTheBox(), win), (ShutTheBox(objective="score"), score)):
        assert policy_return(task, make(task)) == pytest.approx(value, abs=5e-7)


def test_rules_choose_one_die_where_they_can():
    task = ShutTheBox(one_die=True)
    for rule in rules.rules_of(task):
        mask = task.available(np.array([0b111111]), np.array([0]))
        assert task.action_names[rule(np.zeros(1), mask)[0]] == "one die"
    assert rule_score("SAS/ShutTheBox-v0", 0.071432) == pytest.approx(1, abs=1e-3)


def fits(tiles, total):
    """All subsets of the open tiles that add up to a throw, by going through all."""
    return [
        kept
        for size in range(1, len(tiles) + 1)
        for kept in itertools.combinations(sorted(tiles), size)
        if sum(kept) == total
    ]


def worked_out(num_tiles, objective, one_die, choose):
    """Return the value of a game by its rules alone, in plain recursion."""

    @cache
    def of_throws(tiles, throws):
        total = 0.0
        for throw in throws:
            moves = fits(tiles, throw)
            if not moves:
                total += -sum(tiles) if objective == "score" else 0.0
                continue
            total += choose([of_tiles(tiles - set(move)) for move in moves])
        return total / len(throws)

    @cache
    def of_tiles(tiles):
        if not tiles:
            return 0.0 if objective == "score" else 1.0
        if one_die and max(tiles) <= 6:
            return choose([of_throws(tiles, throws) for throws in (tuple(ONE), TWO36)])
        return of_throws(tiles, TWO36)

    return of_tiles(frozenset(range(1, num_tiles + 1)))


TWO36 = tuple(TWO)


@pytest.mark.parametrize("num_tiles", [1, 3, 6, 8])
@pytest.mark.parametrize("objective", ["win", "score"])
@pytest.mark.parametrize("one_die", [False, True])
def test_values_equal_recursion_over_the_rules_of_the_game(
    num_tiles, objective, one_die
):
    task = ShutTheBox(num_tiles, objective=objective, one_die=one_die)
    for compute, choose in ((optimal_return, max), (random_return, np.mean)):
        expected = worked_out(num_tiles, objective, one_die, choose)
        assert compute(task) == pytest.approx(expected, abs=1e-12)
    assert informed_return(task) == optimal_return(task)


@pytest.mark.parametrize("one_die", [False, True])
@pytest.mark.parametrize("objective", ["win", "score"])
def test_play_has_the_computed_mean(one_die, objective):
    options: dict[str, Any] = {"one_die": one_die, "objective": objective}
    env: Any = gym.make_vec("SAS/ShutTheBox-v0", 2000, **options)
    task = env.unwrapped.task
    best: Any = solve(task).policy
    for policy in (RandomPolicy(1), rules.fewest_tiles(task), best):
        returns = episode_returns(env, policy, 40_000, seed=0)
        assert_mean(returns, policy_return(task, policy))


@pytest.mark.parametrize(("num_tiles", "num_sets"), [(9, 63), (10, 66), (12, 69)])
def test_actions_are_the_sets_of_sum_at_most_12_in_the_order_of_their_bits(
    num_tiles, num_sets
):
    task = ShutTheBox(num_tiles)
    expected = [number for number in range(1, 2**num_tiles) if sum(bits(number)) <= 12]
    assert task.tile_sets.tolist() == expected
    assert len(expected) == num_sets
    assert task.num_actions == num_sets + 1
    assert ShutTheBox(num_tiles, one_die=True).num_actions == num_sets + 3


def test_throws_decide_the_moves():
    """Every open state, every throw of two dice, against the list of combinations."""
    task = ShutTheBox(7)
    names = list(task.action_names)
    for state in range(1, 2**7):
        masks = task.available(np.full(36, state), np.arange(36))
        for throw, mask in zip(TWO, masks, strict=True):
            moves = fits(bits(state), throw)
            shut = ["shut " + " + ".join(map(str, move)) for move in moves]
            assert [names[a] for a in np.flatnonzero(mask)] == sorted(
                shut or ["give up"], key=names.index
            )


def test_moves_shut_tiles_and_end_the_game():
    task = ShutTheBox()
    rng = np.random.default_rng(0)
    names = list(task.action_names)
    actions = [names.index(name) for name in ("shut 4 + 5", "shut 9", "give up")]
    states = np.array([0b1_1111_1111, 0b1_0000_0000, 0b1_0000_1000])
    state, reward, terminated = task.transition(states, np.array(actions), rng)
    assert state.tolist() == [0b1_1110_0111, 0, 0b1_0000_1000]
    assert reward.tolist() == [0.0, 1.0, 0.0]
    assert terminated.tolist() == [False, True, True]
    score = ShutTheBox(objective="score")
    _, reward, _ = score.transition(states, np.array(actions), rng)
    assert reward.tolist() == [0.0, 0.0, -13.0]


def test_one_die_may_be_chosen_whenever_every_tile_from_7_up_is_shut():
    task = ShutTheBox(one_die=True)
    rng = np.random.default_rng(0)
    names = list(task.action_names)
    size = 2**9
    last_high = np.array([2 * size + 0b1_0000_0111])
    state, *_ = task.transition(last_high, np.array([names.index("shut 9")]), rng)
    assert state.tolist() == [0b111]
    mask = task.available(state, np.array([35]))
    assert [names[a] for a in np.flatnonzero(mask[0])] == ["one die", "two dice"]
    one, two = (
        task.transition(state, np.array([names.index(dice)]), rng)
        for dice in ("one die", "two dice")
    )
    assert (one[0].tolist(), two[0].tolist()) == ([size + 0b111], [2 * size + 0b111])
    for _, reward, terminated in (one, two):
        assert (reward.tolist(), terminated.tolist()) == ([0.0], [False])
    # A throw of 3 with the first die, of 3 + 3 with both.
    throw = np.array([2 * 6 + 2])
    moves = [
        [names[a] for a in np.flatnonzero(task.available(s, throw)[0])]
        for s, *_ in (one, two)
    ]
    assert moves == [["shut 1 + 2", "shut 3"], ["shut 1 + 2 + 3"]]
    # The next throw is chosen anew, and at the start, too, where no tile is high.
    state, *_ = task.transition(one[0], np.array([names.index("shut 3")]), rng)
    assert state.tolist() == [0b011]
    assert ShutTheBox(6, one_die=True).reset(1, rng).tolist() == [0b111111]
    assert task.reset(1, rng).tolist() == [2 * size + size - 1]
    assert task.describe(state[0]) == "open: 1 2, choosing the dice"


def test_masks_of_play_have_the_frequencies_of_the_dice():
    env: Any = gym.make_vec("SAS/ShutTheBox-v0", 50_000)
    _, infos = env.reset(seed=0)
    names = list(env.unwrapped.task.action_names)
    # At the start some tiles fit every throw, and their sum is the throw.
    first = infos["action_mask"].argmax(axis=1)
    throw = env.unwrapped.task.sums[first]
    assert_frequencies(
        np.bincount(throw, minlength=13)[2:], np.bincount(TWO, minlength=13)[2:] / 36
    )
    assert names[63] == "give up"


def test_twelve_tiles_hold_no_dense_table():
    env = SASEnv(ShutTheBox(12))
    env.reset(seed=0)
    arrays = [v for v in vars(env.task).values() if isinstance(v, np.ndarray)]
    arrays += [v for v in vars(env.action_sets).values() if isinstance(v, np.ndarray)]
    assert sum(array.size for array in arrays) < 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_tiles": 0}, "num_tiles must be an integer of at least 1"),
        ({"num_tiles": 21}, "num_tiles must be at most 20"),
        ({"objective": "points"}, "objective must be 'win' or 'score', got 'points'"),
        (
            {"action_sets": 0.5},
            "rules of ShutTheBox decide which actions are available",
        ),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        gym.make("SAS/ShutTheBox-v0", **arguments)
