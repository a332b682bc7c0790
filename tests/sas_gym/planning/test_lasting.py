"""Where outcomes last, the planner plans over states and outcomes."""

import itertools
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers.statistical import assert_mean

from sas_gym import (
    RandomPolicy,
    Routing,
    SASEnv,
    SASVectorEnv,
    episode_returns,
    rules,
)
from sas_gym.action_sets import (
    Explicit,
    Independent,
    Markov,
    Outcomes,
    PerEpisode,
    Things,
)
from sas_gym.action_sets._base import OutcomeList
from sas_gym.planning import (
    TabularSASMDP,
    informed_return,
    optimal_return,
    policy_evaluation,
    policy_iteration,
    policy_return,
    random_return,
    sampled,
    solve,
)

P = np.array([0.5, 0.3, 0.2])
T = np.array([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.1, 0.1, 0.8]])
# Of three outcomes each shows a mask of its own; action 2 is always there.
SHOWN = np.array([[1, 1, 1], [0, 1, 1], [1, 0, 1]], dtype=bool)


def shown(_, outcome):
    return SHOWN[outcome]


def hidden(state, outcome):
    """In state 1 the first two outcomes look alike."""
    alike = (state == 1) & (outcome == 1)
    return SHOWN[np.where(alike, 0, outcome)]


def small_mdp(action_sets, seed=0, **options):
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.ones(4), (4, 3)) * 0.9
    transition[..., 3] += 0.1
    reward = rng.normal(size=(4, 3))
    return TabularSASMDP(
        transition, reward, action_sets, terminal_states=[3], **options
    )


def enumerated(mdp, masks, p, t, steps, choose=max):
    """Return the value of the start, pair by pair, in plain loops."""
    transition = mdp.transition_matrix.toarray().reshape(*mdp.reward.shape, -1)
    v = {pair: 0.0 for pair in itertools.product(range(mdp.num_states), range(len(p)))}
    for _ in range(steps):
        new = {}
        for s, k in v:
            if mdp.is_terminal[s]:
                new[s, k] = 0.0
                continue
            values = []
            for a in np.flatnonzero(masks(np.array([s]), np.array([k]))[0]):
                value = mdp.reward[s, a]
                for s2 in range(mdp.num_states):
                    for k2 in range(len(p)):
                        weight = transition[s, a, s2] * t[k][k2]
                        value += mdp.gamma * weight * v[s2, k2]
                values.append(value)
            new[s, k] = choose(values)
        v = new
    return sum(
        mdp.initial_distribution[s] * p[k] * value for (s, k), value in v.items()
    )


@pytest.mark.parametrize("horizon", [1, 4])
@pytest.mark.parametrize("masks", [shown, hidden])
def test_informed_return_equals_enumeration(horizon, masks):
    mdp = small_mdp(Outcomes(P, masks, T), horizon=horizon, gamma=0.9)
    expected = enumerated(mdp, masks, P, T, horizon)
    assert informed_return(mdp, gamma=0.9) == pytest.approx(expected, abs=1e-12)


def test_informed_return_without_horizon_equals_enumeration():
    mdp = small_mdp(Outcomes(P, shown, T))
    expected = enumerated(mdp, shown, P, T, 300)
    assert optimal_return(mdp) == pytest.approx(expected, abs=1e-9)


def test_random_play_equals_enumeration():
    mdp = small_mdp(Outcomes(P, hidden, T), horizon=5)
    expected = enumerated(mdp, hidden, P, T, 5, choose=np.mean)
    assert random_return(mdp) == pytest.approx(expected, abs=1e-12)
    assert policy_return(mdp, RandomPolicy()) == pytest.approx(expected, abs=1e-12)


def test_outcome_of_an_episode_is_a_chain_that_stays():
    stays = small_mdp(Outcomes(P, shown, np.eye(3)), horizon=6)
    per_episode = small_mdp(PerEpisode(Outcomes(P, shown)), horizon=6)
    expected = enumerated(stays, shown, P, np.eye(3), 6)
    for mdp in (stays, per_episode):
        assert optimal_return(mdp) == pytest.approx(expected, abs=1e-12)
    alone = [
        informed_return(small_mdp(Outcomes([1.0], at), horizon=6))
        for at in (lambda s, _, k=k: SHOWN[np.full(len(s), k)] for k in range(3))
    ]
    assert P @ alone == pytest.approx(expected, abs=1e-12)


def test_outcomes_that_do_not_last_have_one_optimum_in_every_way():
    rows = np.tile(P, (3, 1))
    fresh = small_mdp(Outcomes(P, shown), horizon=5)
    chain = small_mdp(Outcomes(P, shown, rows), horizon=5)
    explicit = small_mdp(Explicit(SHOWN, P), horizon=5)
    expected = optimal_return(explicit)
    for mdp in (fresh, chain):
        assert optimal_return(mdp) == pytest.approx(expected, abs=1e-12)
        assert informed_return(mdp) == pytest.approx(expected, abs=1e-12)
        assert random_return(mdp) == pytest.approx(random_return(explicit), abs=1e-12)


@pytest.mark.parametrize("horizon", [None, 6])
def test_optimal_policy_has_the_optimum_in_play(horizon):
    mdp = small_mdp(Outcomes(P, shown, T), horizon=horizon)
    policy: Any = solve(mdp).policy
    env = SASVectorEnv(mdp, 2000, max_episode_steps=horizon or 1000)
    if horizon is None:
        assert policy_return(mdp, policy) == pytest.approx(optimal_return(mdp))
        assert_mean(episode_returns(env, policy, 20_000, seed=0), optimal_return(mdp))
        return
    obs, _ = env.reset(seed=0)
    total, memory, running = np.zeros(2000), None, np.ones(2000, bool)
    for _ in range(horizon):
        actions, memory = policy.predict(obs, memory)
        obs, reward, terminated, truncated, _ = env.step(actions)
        total += reward * running
        running &= ~(terminated | truncated)
    assert_mean(total, optimal_return(mdp))


def test_optimum_is_refused_where_a_mask_hides_its_outcome():
    mdp = small_mdp(Outcomes(P, hidden, T), horizon=5)
    for compute in (optimal_return, solve):
        with pytest.raises(ValueError, match=r"show the same mask.*informed_return is"):
            compute(mdp)
    assert informed_return(mdp) > random_return(mdp)


def test_planners_of_states_refuse_sets_that_last():
    mdp = small_mdp(Outcomes(P, shown, T))
    calls: list[Any] = [
        policy_iteration,
        lambda m: policy_evaluation(m, RandomPolicy()),
    ]
    for call in (*calls, lambda m: sampled(m, 10)):
        with pytest.raises(ValueError, match=r"sets of Outcomes last.*informed_return"):
            call(mdp)


def triangle(**options):
    """Three junctions, all two-way; waiting costs .3."""
    tail, head = [0, 1, 1, 2, 0, 2], [1, 0, 2, 1, 2, 0]
    return Routing(
        tail, head, [-1.0, -1.0, -1.0, -1.0, -3.0, -3.0], 0.5, num_nodes=3, goal=2,
        wait_cost=0.3, start=0, **options,
    )  # fmt: skip


def roads_open(bits):
    """Return which streets are open, by their two ends."""
    pairs = [(0, 1), (0, 2), (1, 2)]
    return {pair for pair, is_open in zip(pairs, bits, strict=True) if is_open}


def street_masks(state, outcome):
    """The action sets of the triangle, from the list of its roads."""
    out = {0: [1, 2], 1: [0, 2], 2: [1, 0]}
    masks = np.zeros((len(state), 3), bool)
    masks[:, 2] = True
    for row, (s, k) in enumerate(zip(state, outcome, strict=True)):
        open_now = roads_open([k >> 2 & 1, k >> 1 & 1, k & 1])
        for a, head in enumerate(out[int(s)]):
            masks[row, a] = s == 2 or tuple(sorted((int(s), head))) in open_now
    return masks


@pytest.mark.parametrize("lasting", ["episode", "chain"])
def test_closed_streets_equal_enumeration(lasting):
    """Both directions of a street close together, wherever the driver is."""
    task = triangle()
    p = np.full(8, 1 / 8)
    on, off = 0.2, 0.2
    one = np.array([[1 - on, on], [off, 1 - off]])
    t = np.eye(8) if lasting == "episode" else np.kron(one, np.kron(one, one))
    sets = PerEpisode(0.5) if lasting == "episode" else Markov(on, off)
    env = gym.wrappers.TimeLimit(SASEnv(task, action_sets=sets), 8)
    mdp = task.tabular()
    expected = enumerated(mdp, street_masks, p, t, 8)
    assert informed_return(env) == pytest.approx(expected, abs=1e-12)
    mean = enumerated(mdp, street_masks, p, t, 8, choose=np.mean)
    assert random_return(env) == pytest.approx(mean, abs=1e-12)
    # At node 0 the mask does not show whether the street between 1 and 2 is open.
    with pytest.raises(ValueError, match="informed_return"):
        optimal_return(env)
    vector = SASVectorEnv(task, 1000, action_sets=sets, max_episode_steps=8)
    assert_mean(episode_returns(vector, RandomPolicy(), 20_000, seed=0), mean)
    rule = rules.shortest_path(task)
    exact = policy_return(vector, rule)
    assert mean < exact < expected
    assert_mean(episode_returns(vector, rule, 20_000, seed=1), exact)


def test_drawn_streets_follow_their_own_chains_in_play():
    """The informed value of an outcome's chain is met by the sampler's."""
    task = triangle()
    sets = Markov([0.1, 0.5, 0.9], [0.3, 0.5, 0.2])
    vector = SASVectorEnv(task, 2000, action_sets=sets, max_episode_steps=6)
    returns = episode_returns(vector, RandomPolicy(), 40_000, seed=0)
    assert_mean(returns, random_return(vector))


def test_things_that_do_not_last_are_independent_actions_of_a_state():
    """At one node every street has one end: there is nothing else to know."""
    task = triangle()
    own = gym.wrappers.TimeLimit(SASEnv(task), 9)
    things = gym.wrappers.TimeLimit(SASEnv(task, action_sets=task.things), 9)
    for compute in (optimal_return, random_return, informed_return):
        assert compute(things) == pytest.approx(compute(own), abs=1e-12)


def test_dead_ends_need_a_time_limit():
    with pytest.raises(ValueError, match="with some outcome no terminal state can be"):
        informed_return(SASEnv(triangle(), action_sets=PerEpisode(0.5)))
    assert informed_return(SASEnv(triangle(), action_sets=Markov(0.5, 0.5))) > -10


def ring(num_streets):
    nodes = np.arange(num_streets)
    tail = np.concatenate([nodes, (nodes + 1) % num_streets])
    head = np.concatenate([(nodes + 1) % num_streets, nodes])
    return Routing(tail, head, -1.0, 0.5, num_nodes=num_streets, goal=0, wait_cost=0.5)


def test_4096_outcomes_are_planned_and_more_are_refused():
    def limited(size, sets):
        return gym.wrappers.TimeLimit(SASEnv(ring(size), action_sets=sets), 5)

    # The two streets at the goal end at it, and so do all twelve.
    values = [
        informed_return(limited(12, sets))
        for sets in (PerEpisode(0.5), Markov(0.5, 0.5))
    ]
    assert -2.5 < values[0] < values[1] < 0
    with pytest.raises(ValueError, match=r"13 things have 8192 outcomes.*at most 4096"):
        informed_return(limited(13, PerEpisode(0.5)))
    p = np.full(5000, 1 / 5000)
    with pytest.raises(ValueError, match="Outcomes has 5000 outcomes"):
        informed_return(small_mdp(Outcomes(p, lambda _, k: SHOWN[k % 3]), horizon=2))


def test_states_with_sets_of_their_own_are_not_listed():
    env = SASEnv("sas_gym:ThetaTwoTheta", action_sets=PerEpisode(0.5))
    with pytest.raises(ValueError, match="PerEpisode cannot be listed, as each state"):
        informed_return(env, gamma=0.9)


def test_mean_over_the_next_outcome_is_that_of_the_product_of_chains():
    rng = np.random.default_rng(0)
    chains = [rng.dirichlet(np.ones(n), n) for n in (2, 3, 2)]
    product = np.kron(chains[0], np.kron(chains[1], chains[2]))
    values = rng.normal(size=(4, 5, 12))
    p = np.full(12, 1 / 12)
    np.testing.assert_allclose(
        OutcomeList(p, chains).mean_next(values), values @ product.T, atol=1e-14
    )
    np.testing.assert_array_equal(OutcomeList(p, ()).mean_next(values), values)
    mean = OutcomeList(p).mean_next(values)
    np.testing.assert_allclose(mean, np.repeat(values.mean(-1)[..., None], 12, -1))


def test_listed_outcomes_have_the_probabilities_of_the_things():
    things = Things([0, 1, 1, -1], [0.2, 0.7])
    listed = things.listed()
    np.testing.assert_allclose(listed.probabilities, [0.24, 0.56, 0.06, 0.14])
    masks = things.sets_of(np.arange(4), np.zeros(4, int), None)
    assert masks.astype(int).tolist() == [
        [0, 0, 0, 1], [0, 1, 1, 1], [1, 0, 0, 1], [1, 1, 1, 1],
    ]  # fmt: skip
    assert Independent(0.5).listed() is None
