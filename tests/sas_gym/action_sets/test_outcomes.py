"""Dice and chains of outcomes, and things that fail, draw what they state."""

import itertools
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit
from helpers.statistical import assert_frequencies

from sas_gym import Routing, SanFrancisco, SASEnv, SASVectorEnv, Task, ThetaTwoTheta
from sas_gym._types import ALL_ENVS
from sas_gym.action_sets import Independent, Markov, Outcomes, PerEpisode, Things
from sas_gym.action_sets._base import Sizes
from sas_gym.action_sets._sampler import ActionSetSampler

NUM_DRAWS = 100_000
P = np.array([0.5, 0.3, 0.2])
T = np.array([[0.7, 0.2, 0.1], [0.0, 0.6, 0.4], [0.1, 0.9, 0.0]])


def one_hot(_, outcome):
    return outcome[:, None] == np.arange(3)


def sampler(action_sets, num_actions, num_states=None):
    fitted = action_sets.fit(Sizes(num_actions, num_states))
    seeded = ActionSetSampler(fitted, num_actions, NUM_DRAWS)
    seeded.seed(0)
    return seeded


NOWHERE = np.zeros(NUM_DRAWS, int)


def test_outcomes_have_their_probabilities_at_every_step():
    sets = sampler(Outcomes(P, one_hot), 3)
    first = sets.reset_at(ALL_ENVS, NOWHERE, None).argmax(axis=1)
    second = sets.advance(NOWHERE, None).argmax(axis=1)
    joint = np.bincount(3 * first + second, minlength=9)
    assert_frequencies(joint, np.outer(P, P))


def test_outcomes_of_probability_0_never_come():
    die = Outcomes([0.0, 0.5, 0.0, 0.5, 0.0], lambda _, k: k[:, None] == np.arange(5))
    ends = np.array([[0.0], [0.5 - 2**-54], [0.5], [1 - 2**-53]])
    assert die.outcome(ends).tolist() == [1, 1, 3, 3]
    assert Outcomes([0.1] * 10, one_hot).outcome(ends[-1:]).tolist() == [9]


def test_chain_of_outcomes_has_its_transitions():
    """Of the second and the third step, too, at which the number has been reused."""
    sets = sampler(Outcomes(P, one_hot, T), 3)
    steps = [sets.reset_at(ALL_ENVS, NOWHERE, None).argmax(axis=1)]
    steps += [sets.advance(NOWHERE, None).argmax(axis=1) for _ in range(3)]
    assert_frequencies(np.bincount(steps[0], minlength=3), P)
    for before, after in itertools.pairwise(steps):
        for k in range(3):
            assert_frequencies(np.bincount(after[before == k], minlength=3), T[k])
    # Given the outcome before, the next one does not depend on the one before that.
    first, second, third, _ = steps
    come_from = (first == 0) & (second == 1)
    assert_frequencies(np.bincount(third[come_from], minlength=3), T[1])


def test_chain_of_outcomes_keeps_its_stationary_frequencies():
    transitions = 0.7 * np.eye(3) + 0.3 * P
    sets = sampler(Outcomes(P, one_hot, transitions), 3)
    before = sets.reset_at(ALL_ENVS, NOWHERE, None).argmax(axis=1)
    for _ in range(20):
        after = sets.advance(NOWHERE, None).argmax(axis=1)
        assert_frequencies(np.bincount(after, minlength=3), P)
        stay = 0.7 + 0.3 * (P**2).sum()
        assert_frequencies(np.bincount(after == before), [1 - stay, stay])
        before = after


def test_next_numbers_stay_in_the_share_of_their_outcome():
    """Whatever the rounding: the number says the outcome that the draw picked."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(7, 0.3)) + 1e-12
    transitions = rng.dirichlet(np.full(7, 0.3), 7)
    chain = Outcomes(shares / shares.sum(), one_hot, transitions)
    uniforms = rng.random((10_000, 1))
    fresh = rng.random((10_000, 1))
    fresh[:100] = 1 - 2.0**-53
    fresh[100:200] = 0.0
    current = chain.outcome(uniforms)
    ends = transitions.cumsum(axis=1)[current]
    expected = (fresh >= ends[:, :-1]).sum(axis=1)
    numbers = chain.next_uniforms(uniforms, fresh)
    assert ((numbers >= 0) & (numbers < 1)).all()
    reached = chain.outcome(numbers)
    assert (transitions[current, reached] > 0).all()
    assert (reached == expected).mean() > 0.9999


def test_outcomes_see_the_states_of_the_task():
    """States need no numbers: here they are pairs."""

    class Pairs(Task):
        num_actions = 3
        observation_space: Any = gym.spaces.Box(0, 9, (2,))
        action_sets = Outcomes(
            P, lambda state, k: np.arange(3) <= (state.sum(axis=1) + k)[:, None]
        )
        rules_decide = True

        def reset(self, num_envs, rng):
            return np.tile([[0.0, 1.0]], (num_envs, 1))

        def transition(self, state, action, rng):
            return state * [0, 1], np.zeros(len(state)), np.zeros(len(state), bool)

        def observe(self, state):
            return state.astype(np.float32)

    env = SASVectorEnv(Pairs(), NUM_DRAWS)
    _, infos = env.reset(seed=0)
    size = infos["action_mask"].sum(axis=1)
    assert_frequencies(np.bincount(size, minlength=4), [0, 0, P[0], P[1] + P[2]])
    with pytest.raises(ValueError, match="the rules of Pairs decide which actions are"):
        SASEnv(Pairs(), action_sets=0.5)


def test_outcome_that_leaves_nothing_is_named_when_made():
    class Die(ThetaTwoTheta):
        def __init__(self):
            super().__init__()
            self.action_sets = Outcomes(P, self.available)

        def available(self, state, outcome):
            fits = (outcome != 2) | (state == 0)
            return np.stack([fits, np.zeros(len(state), bool)], axis=1)

    message = r"outcome 2 leaves no action in state 1, .* such as to wait or to give up"
    for make in (SASEnv, SASVectorEnv):
        with pytest.raises(ValueError, match=message):
            make(Die())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Outcomes([0.5, 0.4], one_hot), r"sum to 1 .* sums \[0.9\]"),
        (lambda: Outcomes([[1.0]], one_hot), r"of shape \(K,\)"),
        (lambda: Outcomes(P, one_hot, T[:2]), r"one column for each of the 3 outcomes"),
        (lambda: Outcomes([1, 0], one_hot, np.eye(2)), "must be above 0 for outcomes"),
        (lambda: Things([-1, -1], 0.5), "at least one of them"),
        (lambda: Things([0, -2], 0.5), "thing_of must be numbers of things"),
        (lambda: Things([0.5], 0.5), "thing_of must be numbers of things"),
        (lambda: Things([0, 1], [0.5]), r"one per thing, shape \(2,\)"),
        (lambda: Things([0, 1], 0.5).fit(Sizes(3)), "one column per action, 3"),
        (lambda: Things([[0], [1]], 0.5).fit(Sizes(1, 3)), "each of the 3 states"),
        (lambda: PerEpisode().num_uniforms(1), "takes the task's own distribution"),
        (lambda: Markov(0.5, 0.5).things, "Markov needs a task"),
    ],
)
def test_invalid_outcomes_and_things_error(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def streets(size=6):
    """A ring of two-way streets, with waiting."""
    nodes = np.arange(size)
    after = (nodes + 1) % size
    tail, head = np.concatenate([nodes, after]), np.concatenate([after, nodes])
    return Routing(tail, head, -1.0, 0.4, num_nodes=size, goal=0, wait_cost=0.5)


def open_streets(env, state):
    """Draw the sets of an episode at a node: whether each street there is open."""
    return {
        frozenset((state, int(head))): bool(is_open)
        for head, is_open in zip(
            env.task.successor[state][:-1], env._batch.mask[0][:-1], strict=True
        )
    }


@pytest.mark.parametrize("sets", [PerEpisode(0.4), PerEpisode()])
def test_street_closed_for_an_episode_is_closed_from_both_ends(sets):
    """Wherever the driver is, and whenever: a street is open or closed."""
    env = SASEnv(streets(), action_sets=sets)
    counts = np.zeros(2)
    for episode in range(300):
        env.reset(seed=0 if episode == 0 else None)
        known: dict[Any, bool] = {}
        rng = np.random.default_rng(episode)
        for _ in range(30):
            state = int(env.state)
            for street, is_open in open_streets(env, state).items():
                assert known.setdefault(street, is_open) == is_open
            actions = np.flatnonzero(env.action_masks())
            if env.step(int(rng.choice(actions)))[2]:
                break
        counts += np.bincount(list(known.values()), minlength=2)
    # What is seen of a street does not depend on whether it is open, at the start.
    assert counts.min() > 100


def test_closures_of_an_episode_have_their_probability_and_are_independent():
    env = SASVectorEnv(streets(), NUM_DRAWS, action_sets=PerEpisode(0.3))
    _, infos = env.reset(seed=0)
    left, right = infos["action_mask"][:, 0], infos["action_mask"][:, 1]
    joint = np.bincount(2 * left + right, minlength=4)
    assert_frequencies(joint, [0.49, 0.21, 0.21, 0.09])
    assert infos["action_mask"][:, 2].all()


def test_markov_closures_stay_where_they_are():
    """The driver goes on; the street behind stays closed with its own chain."""
    task = streets()
    env = SASVectorEnv(task, NUM_DRAWS, action_sets=Markov(0.25, 0.25))
    env.reset(seed=0)
    start = env._batch.state.copy()
    before = env._batch.mask[:, 0]
    obs, *_, infos = env.step(np.where(before, 0, 2))
    moved = (
        before & (obs["observation"] != 0) & ~infos.get("_final_obs", before & False)
    )
    # The street that was just driven, seen from its other end.
    back = task.successor[obs["observation"]] == start[:, None]
    still_open = infos["action_mask"][moved][back[moved]]
    assert_frequencies(np.bincount(still_open), [0.25, 0.75])


def test_two_directions_agree_always():
    """With sets of an action's number they did in 53 % of the cases."""
    task = SanFrancisco(wait_cost=0.1)
    things = task.things
    roads = {
        (node, int(head)): int(things.thing_of[node, action])
        for node, heads in enumerate(task.successor)
        for action, head in enumerate(heads)
        if head not in (-1, node)
    }
    two_way = [pair for pair in roads if pair[::-1] in roads and 0 not in pair]
    assert len(two_way) > 60
    assert all(roads[u, v] == roads[v, u] for u, v in two_way)
    assert len({roads[pair] for pair in two_way}) == len(two_way) / 2


def test_parallel_roads_and_different_probabilities_are_different_things():
    tail, head = [0, 0, 1, 1, 1, 2], [1, 1, 0, 0, 2, 1]
    p = [0.5, 0.5, 0.5, 0.5, 0.9, 0.1]
    task = Routing(tail, head, -1.0, p, num_nodes=3, goal=2, wait_cost=1.0)
    thing_of = task.things.thing_of
    assert thing_of[0, 0] == thing_of[1, 0] != thing_of[0, 1] == thing_of[1, 1]
    assert thing_of[:, -1].tolist() == [-1] * 3
    # The road back from the goal is of no matter.
    np.testing.assert_allclose(sorted(task.things.availability), [0.5, 0.5, 0.9])


def test_sets_that_last_need_an_action_that_is_always_there():
    message = r"no action is left in states \[1, 2, 3, 4, 5\] and 22 more.*wait_cost="
    for sets in (PerEpisode(0.5), Markov(0.5, 0.5)):
        with pytest.raises(ValueError, match=message):
            SASEnv(SanFrancisco(), action_sets=sets)
        SASEnv(SanFrancisco(wait_cost=0.1), action_sets=sets).reset(seed=0)
    with pytest.raises(ValueError, match="no action is left"):
        SASEnv("sas_gym:ThetaTwoTheta", action_sets=Markov(0.5, 0.5))
    SASEnv("sas_gym:ThetaTwoTheta", action_sets=Markov([1.0, 0.5], [0.0, 0.5]))


def test_network_of_many_roads_draws_only_its_local_ones():
    """100,000 roads, one number per episode; Markov draws them all, and says so."""
    size = 50_000
    nodes = np.arange(size)
    after = (nodes + 1) % size
    tail, head = np.concatenate([nodes, after]), np.concatenate([after, nodes])
    task = Routing(tail, head, -1.0, 0.5, num_nodes=size, goal=0, wait_cost=0.1)
    env = SASVectorEnv(task, 3, action_sets=PerEpisode())
    assert env.action_sets.num_uniforms(task.num_actions) == 1
    env.reset(seed=0)
    env.step(np.full(3, 2))
    with pytest.warns(UserWarning, match="Markov draws each of 50000 things at every"):
        SASVectorEnv(task, 1, action_sets=Markov(0.5, 0.5))


def test_time_limit_of_lasting_sets_ends_episodes():
    env = TimeLimit(SASEnv(streets(), action_sets=PerEpisode(1e-9)), 4)
    env.reset(seed=0)
    assert [env.step(2)[3] for _ in range(4)] == [False, False, False, True]


def test_share_that_exceeds_1_by_rounding_is_1():
    assert Independent(1.0000000000000002).availability == 1.0
    with pytest.raises(ValueError, match=r"got \[1\.0001\]"):
        Independent(1.0001)
