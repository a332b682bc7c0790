"""The planners agree with enumeration, with each other and with published numbers."""

from typing import Any

import gymnasium as gym
import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from helpers import brute_force, published
from helpers.small_mdps import mdps, random_mdp
from hypothesis import given, settings
from hypothesis import strategies as st

from sas_gym import BayArea, Maze, RandomPolicy, ThetaTwoTheta
from sas_gym.action_sets import ActionSets, Explicit, Independent, PerEpisode
from sas_gym.planning import (
    TabularSASMDP,
    backward_induction,
    best_action_probs,
    enumerate_sets,
    linear_program,
    mean_value,
    oblivious_policy,
    optimal_return,
    policy_evaluation,
    policy_iteration,
    random_return,
    uniform_action_probs,
    value_iteration,
)

AGREEMENT = 1e-8


@pytest.mark.parametrize(
    ("availability", "optimum"), published.SAN_FRANCISCO_OPTIMA.items()
)
def test_san_francisco_published_optimum(availability, optimum):
    env = gym.make("SAS/SanFrancisco-v0", availability=availability)
    random = published.SAN_FRANCISCO_RANDOM
    assert optimal_return(env) == pytest.approx(optimum, abs=5e-4)
    assert random_return(env) == pytest.approx(random, abs=5e-4)


@pytest.mark.parametrize(("bridge", "costs"), published.BAY_AREA_COSTS.items())
def test_bay_area_published_costs(bridge, costs):
    optimal, oblivious = costs
    start = published.BAY_AREA_START
    mdp = BayArea(0.5, bridge).tabular()
    ignoring = policy_evaluation(mdp, oblivious_policy(mdp))
    assert -ignoring.values[start] == pytest.approx(oblivious, abs=0.05)
    for method in (policy_iteration, value_iteration, linear_program):
        found = method(mdp).values
        assert -found[start] == pytest.approx(optimal, abs=0.05)
        swept = brute_force.values(mdp, 1, start=found)
        np.testing.assert_allclose(swept, found, rtol=0, atol=AGREEMENT)


@given(mdp=mdps)
def test_planners_equal_brute_force(mdp):
    exact = brute_force.values(mdp, 250)
    for method in (value_iteration, policy_iteration, linear_program):
        found = method(mdp)
        np.testing.assert_allclose(found.values, exact, rtol=0, atol=AGREEMENT)
        # The policy has the values that it was planned with.
        held = policy_evaluation(mdp, found.policy)
        np.testing.assert_allclose(held.values, exact, rtol=0, atol=AGREEMENT)


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(["independent", "grouped"]))
def test_planners_equal_brute_force_undiscounted(seed, kind):
    """Every step ends the episode with a probability of at least 0.1."""
    mdp = random_mdp(seed, 4, 3, kind, ends=True)
    exact = brute_force.values(mdp, 400)
    for method in (value_iteration, policy_iteration, linear_program):
        np.testing.assert_allclose(method(mdp).values, exact, rtol=0, atol=AGREEMENT)


@given(mdp=mdps, horizon=st.integers(1, 8))
def test_backward_induction_equals_brute_force(mdp, horizon):
    mdp = mdp.replace(gamma=1.0, horizon=horizon)
    found = backward_induction(mdp)
    assert len(found.values) == horizon + 1
    assert len(found.q_values) == horizon
    for left in range(horizon + 1):
        exact = brute_force.values(mdp, left)
        np.testing.assert_allclose(found.values[horizon - left], exact, atol=1e-12)
    held = policy_evaluation(mdp, found.policy)
    np.testing.assert_allclose(held.values, found.values, atol=1e-12)


@given(mdp=mdps, horizon=st.integers(1, 5))
def test_random_policy_equals_brute_force(mdp, horizon):
    mean = brute_force.values(mdp, horizon, choose=np.mean)
    found = policy_evaluation(mdp.replace(horizon=horizon), RandomPolicy())
    np.testing.assert_allclose(found.values[0], mean, atol=1e-12)
    mean = brute_force.values(mdp, 250, choose=np.mean)
    found = policy_evaluation(mdp, RandomPolicy())
    np.testing.assert_allclose(found.values, mean, rtol=0, atol=AGREEMENT)


@given(mdp=mdps, seed=st.integers(0, 999))
def test_action_probs_equal_enumeration(mdp, seed):
    """With ties: of equally preferred actions the lower number is taken."""
    rng = np.random.default_rng(seed)
    preferences = rng.integers(0, 3, mdp.reward.shape).astype(float)
    best, uniform = np.zeros_like(preferences), np.zeros_like(preferences)
    for state, probs in enumerate(brute_force.set_probs_by_state(mdp)):
        for members, weight in probs.items():
            actions = np.array(members)
            best[state, actions[preferences[state, actions].argmax()]] += weight
            uniform[state, actions] += weight / len(actions)
    action_sets, possible = mdp.action_sets, mdp.possible_actions
    np.testing.assert_allclose(
        best_action_probs(action_sets, preferences, possible), best, atol=1e-14
    )
    np.testing.assert_allclose(
        uniform_action_probs(action_sets, possible), uniform, atol=1e-14
    )


@given(mdp=mdps)
def test_enumerate_sets_equals_brute_force(mdp):
    _, listed = enumerate_sets(mdp.action_sets, mdp.possible_actions)
    for state, probs in enumerate(brute_force.set_probs_by_state(mdp)):
        exact = brute_force.by_number(probs, mdp.num_actions)
        assert listed[state] == pytest.approx(exact[1:])


@given(
    p=hnp.arrays(float, 6, elements=st.sampled_from([0.0, 1e-300, 1e-9, 0.3, 1.0])),
)
def test_action_probs_of_tiny_availabilities(p):
    """They are right where a set is almost always empty before conditioning."""
    if not p.any():
        p[0] = 1e-12
    possible = np.ones((1, 6), bool)
    best = best_action_probs(Independent(p), np.arange(6.0)[None], possible)
    uniform = uniform_action_probs(Independent(p), possible)
    assert best.sum() == pytest.approx(1, abs=1e-14)
    assert uniform.sum() == pytest.approx(1, abs=1e-12)
    if p.max() < 1e-8:
        np.testing.assert_allclose(best[0], p / p.sum(), atol=1e-7)
        np.testing.assert_allclose(uniform[0], p / p.sum(), atol=1e-7)


def test_action_probs_of_a_hundred_actions():
    action_sets, possible = Independent(0.8), np.ones((1, 100), bool)
    best = best_action_probs(action_sets, -np.arange(100.0)[None], possible)
    np.testing.assert_allclose(best[0, :3], [0.8, 0.16, 0.032])
    np.testing.assert_allclose(uniform_action_probs(action_sets, possible), 0.01)


def test_values_of_actions_never_taken_do_not_count():
    probs, q = np.array([[0.5, 0.5, 0.0]]), np.array([[1.0, 3.0, -np.inf]])
    assert mean_value(probs, q).tolist() == [2.0]


@pytest.mark.parametrize("of", [uniform_action_probs, best_action_probs])
def test_probabilities_of_states_without_a_set(of):
    """Their action sets would all be empty."""
    possible = np.array([[True, True], [False, True]])
    preferences = [np.zeros((2, 2))] if of is best_action_probs else []
    with pytest.raises(ValueError, match=r"ever available in states \[1\], but an"):
        of(Explicit([[1, 0]], [1.0]), *preferences, possible)


def test_value_iteration_keeps_its_tolerance():
    """Of 1 for ever, discounted by 0.99: after a change of 0.1 there is 10 to come."""
    loop = TabularSASMDP(np.ones((1, 1, 1)), [[1.0]], 0.5, gamma=0.99)
    assert value_iteration(loop, 0.1).values[0] == pytest.approx(100.0, abs=0.1)


@pytest.mark.parametrize("method", [value_iteration, linear_program])
def test_planning_without_tolerance(method):
    """Where the values are reached exactly, no error need be allowed."""
    transition = np.array([[[0.0, 1.0]], [[0.0, 1.0]]])
    step = TabularSASMDP(transition, [[-3.0], [0.0]], 0.5, terminal_states=[1])
    for gamma in (1.0, 0.5):
        values = method(step.replace(gamma=gamma), tolerance=0.0).values
        assert values.tolist() == [-3.0, 0.0]


@given(mdp=mdps, seed=st.integers(0, 99))
def test_action_probs_by_listing_all_sets(mdp, seed):
    """What serves a distribution of a user's, whose sets can only be listed."""
    given_by = mdp.action_sets, mdp.possible_actions
    listed = uniform_action_probs.dispatch(ActionSets)(*given_by)
    np.testing.assert_allclose(listed, uniform_action_probs(*given_by), atol=1e-12)
    preferences = np.random.default_rng(seed).random(mdp.reward.shape)
    sets, possible = given_by
    listed = best_action_probs.dispatch(ActionSets)(sets, preferences, possible)
    expected = best_action_probs(sets, preferences, possible)
    np.testing.assert_allclose(listed, expected, atol=1e-12)


@given(mdp=mdps)
def test_impossible_actions_have_no_value(mdp):
    q_values = policy_iteration(mdp).q_values
    assert (q_values[~mdp.possible_actions] == -np.inf).all()
    assert np.isfinite(q_values[mdp.possible_actions]).all()


def test_unplannable_errors():
    with pytest.raises(ValueError, match=r"53 things have .* lists at most 4096"):
        optimal_return(gym.make("SAS/BayArea-v0", action_sets=PerEpisode(0.5)))
    wrong: list[Any] = [gym.make("CartPole-v1"), "CartPole-v1", Maze, None]
    for env in wrong:
        with pytest.raises(ValueError, match="expected a task of sas_gym, an env"):
            optimal_return(env)
    with pytest.raises(ValueError, match="returns of Maze are known undiscounted"):
        optimal_return(Maze())
    endless = ThetaTwoTheta().tabular()
    with pytest.raises(ValueError, match="under any policy no terminal state"):
        policy_iteration(endless)
    with pytest.raises(ValueError, match="under any policy no terminal state"):
        value_iteration(endless)
    with pytest.raises(ValueError, match=r"under this policy .* states \[0, 1\]"):
        policy_evaluation(endless, RandomPolicy())
    with pytest.raises(ValueError, match="the MDP has no horizon"):
        backward_induction(endless)
    cut = endless.replace(horizon=3)
    for method in (value_iteration, policy_iteration, linear_program):
        with pytest.raises(ValueError, match="horizon"):
            method(cut)
    with pytest.raises(ValueError, match="rankings for each step"):
        policy_evaluation(endless, backward_induction(cut).policy)
    with pytest.raises(RuntimeError, match="not converged"):
        value_iteration(
            endless.replace(gamma=0.9, reward=np.ones((2, 2))), max_sweeps=3
        )
    with pytest.raises(ValueError, match=r"17 actions have 2\^17 subsets"):
        enumerate_sets(Independent(0.5), np.ones((1, 17), bool))
    assert len(enumerate_sets(Independent(0.5), np.ones((1, 16), bool))[0]) == 2**16 - 1
