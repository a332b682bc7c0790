"""The planners agree with enumeration, with each other and with print."""

import gymnasium as gym
import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from helpers.small_mdps import brute_force_laws, brute_force_values, mdps, random_mdp
from hypothesis import given, settings
from hypothesis import strategies as st

from sas_gym import BayArea, RandomPolicy, SASEnv, ThetaTwoTheta
from sas_gym.action_sets import ActionSets, Independent, PerEpisode
from sas_gym.planning import (
    backward_induction,
    best_action_probs,
    enumerate_sets,
    linear_program,
    oblivious_policy,
    optimal_return,
    policy_evaluation,
    policy_iteration,
    random_return,
    sampled,
    sampling_error,
    uniform_action_probs,
    value_iteration,
)
from sas_gym.planning._sampled_sets import SampledSets
from sas_gym.planning._tabular import TabularSASMDP

AGREEMENT = 1e-8


@pytest.mark.parametrize(
    ("availability", "optimum"),
    [(0.2, 3.967), (0.4, 7.567), (0.6, 9.047), (0.8, 9.432), (1.0, 9.596)],
)
def test_san_francisco_has_its_published_optimum(availability, optimum):
    env = gym.make("SAS/SanFrancisco-v0", availability=availability)
    assert optimal_return(env) == pytest.approx(optimum, abs=5e-4)
    assert random_return(env) == pytest.approx(0.341, abs=5e-4)


@pytest.mark.parametrize(
    ("bridge", "optimal", "oblivious"),
    [
        (1, 11.3, 11.3),
        (0.8, 12.5, 12.5),
        (0.4, 18.8, 18.8),
        (0.2, 31.3, 31.3),
        (0.1, 56.3, 56.3),
        (0.05, 68.8, 106.3),
        (0.02, 72.8, 256.3),
        (0.01, 74.1, 506.3),
    ],
)
def test_the_bay_area_has_its_published_costs(bridge, optimal, oblivious):
    mdp = BayArea(0.5, bridge).tabular()
    ignoring = policy_evaluation(mdp, oblivious_policy(mdp))
    for method in (policy_iteration, value_iteration, linear_program):
        assert -method(mdp).values[9] == pytest.approx(optimal, abs=0.05)
    assert -ignoring.values[9] == pytest.approx(oblivious, abs=0.05)


@given(mdp=mdps)
def test_all_planners_agree_with_brute_force(mdp):
    exact = brute_force_values(mdp, 250)
    for method in (value_iteration, policy_iteration, linear_program):
        found = method(mdp)
        np.testing.assert_allclose(found.values, exact, rtol=0, atol=AGREEMENT)
        # What the policy promises, it holds.
        held = policy_evaluation(mdp, found.policy)
        np.testing.assert_allclose(held.values, exact, rtol=0, atol=AGREEMENT)


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(["independent", "grouped"]))
def test_all_planners_agree_without_a_discount(seed, kind):
    """Every step ends the episode by a chance of at least 0.1."""
    mdp = random_mdp(seed, 4, 3, kind, ends=True)
    exact = brute_force_values(mdp, 400)
    for method in (value_iteration, policy_iteration, linear_program):
        np.testing.assert_allclose(method(mdp).values, exact, rtol=0, atol=AGREEMENT)


@given(mdp=mdps, horizon=st.integers(1, 8))
def test_backward_induction_equals_brute_force(mdp, horizon):
    mdp = mdp.replace(gamma=1.0, horizon=horizon)
    found = backward_induction(mdp)
    for left in range(horizon + 1):
        exact = brute_force_values(mdp, left)
        np.testing.assert_allclose(found.values[horizon - left], exact, atol=1e-12)
    held = policy_evaluation(mdp, found.policy)
    np.testing.assert_allclose(held.values, found.values, atol=1e-12)


@given(mdp=mdps, horizon=st.integers(1, 5))
def test_the_random_policy_has_its_brute_force_value(mdp, horizon):
    mean = brute_force_values(mdp, horizon, choose=np.mean)
    found = policy_evaluation(mdp.replace(horizon=horizon), RandomPolicy())
    np.testing.assert_allclose(found.values[0], mean, atol=1e-12)
    mean = brute_force_values(mdp, 250, choose=np.mean)
    found = policy_evaluation(mdp, RandomPolicy())
    np.testing.assert_allclose(found.values, mean, rtol=0, atol=AGREEMENT)


@given(mdp=mdps, seed=st.integers(0, 999))
def test_choices_equal_enumeration(mdp, seed):
    """With ties: of equally good actions the lower number is taken."""
    scores = np.random.default_rng(seed).integers(0, 3, mdp.reward.shape).astype(float)
    best, uniform = np.zeros_like(scores), np.zeros_like(scores)
    for state, law in enumerate(brute_force_laws(mdp)):
        for actions, chance in law.items():
            actions = np.array(actions)
            best[state, actions[scores[state, actions].argmax()]] += chance
            uniform[state, actions] += chance / len(actions)
    lacking = np.where(mdp.possible_actions, scores, -np.inf)
    law = mdp.action_sets
    np.testing.assert_allclose(best_action_probs(law, lacking), best, atol=1e-14)
    np.testing.assert_allclose(
        uniform_action_probs(law, mdp.possible_actions), uniform, atol=1e-14
    )
    sets, chances = enumerate_sets(law, mdp.possible_actions)
    for state, exact in enumerate(brute_force_laws(mdp)):
        listed = {
            tuple(np.flatnonzero(mask)): chance
            for mask, chance in zip(sets, chances[state], strict=True)
            if chance
        }
        assert listed == pytest.approx(exact)


@given(
    p=hnp.arrays(float, 6, elements=st.sampled_from([0.0, 1e-300, 1e-9, 0.3, 1.0])),
)
def test_choices_are_right_where_a_set_is_hardly_ever_not_empty(p):
    if not p.any():
        p[0] = 1e-12
    choice = best_action_probs(Independent(p), np.arange(6.0)[None])
    uniform = uniform_action_probs(Independent(p), np.ones((1, 6), bool))
    assert choice.sum() == pytest.approx(1, abs=1e-14)
    assert uniform.sum() == pytest.approx(1, abs=1e-12)
    if p.max() < 1e-8:
        np.testing.assert_allclose(choice[0], p / p.sum(), atol=1e-7)
        np.testing.assert_allclose(uniform[0], p / p.sum(), atol=1e-7)


def test_a_hundred_actions_are_sorted_and_shared_exactly():
    p = np.full(100, 0.8)
    choice = best_action_probs(Independent(p), -np.arange(100.0)[None])
    np.testing.assert_allclose(choice[0, :3], [0.8, 0.16, 0.032])
    np.testing.assert_allclose(uniform_action_probs(Independent(p), p[None] > 0), 0.01)


class Window(ActionSets):
    """A law of the user's own: a window of two neighbouring actions, anywhere."""

    def num_uniforms(self, num_actions):
        return 1

    def fit(self, num_actions, num_states):
        return self

    def sets_from(self, row, state, possible=None):
        first = (row * 3).astype(int)
        return (np.arange(4) - first >= 0) & (np.arange(4) - first <= 1)


def test_a_law_without_a_formula_is_planned_by_sampled_sets():
    transition = np.full((3, 4, 3), 1 / 3)
    reward = np.array([[0, 1, 2, 3], [3, 0, 0, 1], [1, 2, 5, 2]], dtype=float)
    mdp = TabularSASMDP(transition, reward, Window(), gamma=0.8)
    with pytest.raises(ValueError, match=r"no formula .* law Window.*planning.sampled"):
        policy_iteration(mdp)
    with pytest.raises(ValueError, match="no formula"):
        policy_evaluation(mdp, RandomPolicy())
    exact = np.array([2.0, 4 / 3, 4.0])
    exact = exact + 0.8 * exact.mean() / 0.2
    stand_in = sampled(mdp, 4000)
    found = policy_iteration(stand_in)
    error = sampling_error(stand_in, found)
    assert (np.abs(found.values - exact) < 5 * error.values).all()
    assert abs(found.mean_return - exact.mean()) < 5 * error.mean_return
    assert error.values.max() < 0.1
    played = SASEnv(stand_in)
    _, info = played.reset(seed=0)
    assert info["action_mask"].sum() == 2


@pytest.mark.parametrize("kind", ["independent", "grouped", "explicit"])
def test_the_stated_error_of_sampled_sets_is_right(kind):
    """Over many samples the errors have the spread that each sample states."""
    mdp = random_mdp(5, 4, 4, kind, gamma=0.8)
    exact = policy_iteration(mdp).values
    samples = [sampled(mdp, 500, seed) for seed in range(60)]
    found = [policy_iteration(sample) for sample in samples]
    stated = [
        sampling_error(sample, plan).values
        for sample, plan in zip(samples, found, strict=True)
    ]
    errors = np.array([plan.values - exact for plan in found])
    np.testing.assert_allclose(
        np.sqrt((errors**2).mean(axis=0)), np.mean(stated, axis=0), rtol=0.4
    )
    random = policy_evaluation(samples[0], RandomPolicy()).values
    truth = policy_evaluation(mdp, RandomPolicy()).values
    np.testing.assert_allclose(random, truth, atol=0.5)


def test_sampling_is_checked():
    mdp = random_mdp(0, gamma=0.9)
    with pytest.raises(ValueError, match="num_sets must be at least 2"):
        sampled(mdp, 1)
    with pytest.raises(ValueError, match="the sets are not sampled"):
        sampling_error(mdp, policy_iteration(mdp))
    with pytest.raises(ValueError, match="drawn for a task of another size"):
        random_mdp(0, 5, 2).replace(action_sets=SampledSets(np.ones((4, 9, 3), bool)))


def test_what_cannot_be_planned_says_why():
    with pytest.raises(ValueError, match="PerEpisode is outside the SAS-MDP model"):
        optimal_return(gym.make("SAS/BayArea-v0", action_sets=PerEpisode(0.5)))
    with pytest.raises(ValueError, match="environments of sas_gym only"):
        optimal_return(gym.make("CartPole-v1"))
    endless = ThetaTwoTheta().tabular()
    for method in (value_iteration, policy_iteration):
        with pytest.raises(ValueError, match="whatever one does, no terminal state"):
            method(endless)
    with pytest.raises(ValueError, match=r"under this policy .* states \[0, 1\]"):
        policy_evaluation(endless, RandomPolicy())
    with pytest.raises(ValueError, match="the MDP has no horizon"):
        backward_induction(endless)
    cut = endless.replace(horizon=3)
    for method in (value_iteration, policy_iteration, linear_program):
        with pytest.raises(ValueError, match="horizon"):
            method(cut)
    with pytest.raises(ValueError, match="lists for each step"):
        policy_evaluation(endless, backward_induction(cut).policy)
    with pytest.raises(RuntimeError, match="not converged"):
        value_iteration(
            endless.replace(gamma=0.9, reward=np.ones((2, 2))), max_sweeps=3
        )
    with pytest.raises(ValueError, match=r"2\^17 sets: too many to list"):
        enumerate_sets(Independent(0.5), np.ones((1, 17), bool))
