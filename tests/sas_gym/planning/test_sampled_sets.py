"""Planning with sampled sets, where a distribution has no formula."""

import numpy as np
import pytest
from helpers.small_mdps import KINDS, random_mdp

from sas_gym import RandomPolicy, SASEnv
from sas_gym.action_sets import ActionSets
from sas_gym.planning import (
    TabularSASMDP,
    best_action_probs,
    policy_evaluation,
    policy_iteration,
    sampled,
    sampling_error,
    solve,
    uniform_action_probs,
)
from sas_gym.planning._sampled_sets import SampledSets


class Window(ActionSets):
    """A user's own distribution: a window of two neighbouring actions, anywhere."""

    def num_uniforms(self, num_actions):
        return 1

    def fit(self, task):
        return self

    def sets_from(self, uniforms, state, possible):
        first = (uniforms * 3).astype(int)
        return (np.arange(4) - first >= 0) & (np.arange(4) - first <= 1)


def test_sampled_sets_plan_without_a_formula():
    transition = np.full((3, 4, 3), 1 / 3)
    reward = np.array([[0, 1, 2, 3], [3, 0, 0, 1], [1, 2, 5, 2]], dtype=float)
    mdp = TabularSASMDP(transition, reward, Window(), gamma=0.8)
    with pytest.raises(ValueError, match=r"no formula for Window .*planning.sampled"):
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


@pytest.mark.parametrize("kind", KINDS)
def test_sampling_error_equals_spread(kind):
    """Over many samples the errors have the spread that each sample estimates."""
    mdp = random_mdp(5, 4, 4, kind, gamma=0.8)
    exact = policy_iteration(mdp).values
    samples = [sampled(mdp, 500, seed) for seed in range(60)]
    found = [policy_iteration(sample) for sample in samples]
    estimated = [
        sampling_error(sample, plan).values
        for sample, plan in zip(samples, found, strict=True)
    ]
    errors = np.array([plan.values - exact for plan in found])
    np.testing.assert_allclose(
        np.sqrt((errors**2).mean(axis=0)), np.mean(estimated, axis=0), rtol=0.4
    )
    random = policy_evaluation(samples[0], RandomPolicy()).values
    truth = policy_evaluation(mdp, RandomPolicy()).values
    np.testing.assert_allclose(random, truth, atol=0.5)


def test_sampled_sets_within_possible():
    """A set of which nothing is possible is not picked."""
    sets = SampledSets(np.array([[[1, 1], [0, 1], [1, 0]]], bool))
    uniforms, state = np.linspace(0, 0.99, 50)[:, None], np.zeros(50, int)
    mask = sets.sets_from(uniforms, state, np.tile([True, False], (50, 1)))
    np.testing.assert_array_equal(mask, np.tile([True, False], (50, 1)))


def test_sampling_errors():
    mdp = random_mdp(0, gamma=0.9)
    with pytest.raises(ValueError, match="num_sets must be at least 2"):
        sampled(mdp, 1)
    two = sampled(mdp, 2)
    assert np.isfinite(sampling_error(two, solve(two)).values).all()
    with pytest.raises(ValueError, match="the action sets are not sampled"):
        sampling_error(mdp, policy_iteration(mdp))
    with pytest.raises(ValueError, match="drawn for 4 states and 3 actions"):
        random_mdp(0, 5, 2).replace(action_sets=SampledSets(np.ones((4, 9, 3), bool)))


def test_action_probs_of_sampled_sets():
    """By hand, for sets of one, two and no possible actions, which do not count."""
    masks = np.array([[[1, 0, 0], [1, 1, 1], [0, 0, 1]]], bool)
    sets, possible = SampledSets(masks), np.array([[True, True, False]])
    uniform = uniform_action_probs(sets, possible)
    np.testing.assert_allclose(uniform, [[3 / 4, 1 / 4, 0]])
    best = best_action_probs(sets, np.array([[0.0, 1.0, 2.0]]), possible)
    np.testing.assert_allclose(best, [[1 / 2, 1 / 2, 0]])


def test_sampling_error_of_the_start():
    """An episode that starts in one state has that state's error."""
    mdp = random_mdp(3, gamma=0.8, initial_distribution=[0, 0, 1, 0])
    sample = sampled(mdp, 50)
    error = sampling_error(sample, solve(sample))
    assert error.mean_return == pytest.approx(error.values[2])
    assert error.mean_return > 0


def test_sampled_sets_replay_from_their_seed():
    """By default from seed 0."""
    mdp = random_mdp(3, gamma=0.8)
    first, again, other = (
        policy_iteration(sampled(mdp, 9, *seed)).values for seed in ((), (0,), (1,))
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
