"""Rules and learned policies are evaluated exactly."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers import brute_force
from helpers.small_mdps import mdps
from helpers.statistical import assert_mean
from hypothesis import given
from hypothesis import strategies as st

from sas_gym import (
    RandomPolicy,
    SASEnv,
    SASVectorEnv,
    ThetaTwoTheta,
    episode_returns,
    rules,
)
from sas_gym.planning import optimal_return, policy_return, random_return, solve

MAP = "SAS/SanFrancisco-v0"


def table_policy(table):
    """Return a policy that draws actions by weights of each state."""

    def policy(observation, mask):
        weights = table[observation["observation"]] * mask
        return weights / weights.sum(axis=1, keepdims=True)

    return policy


@given(mdp=mdps, seed=st.integers(0, 999), horizon=st.integers(1, 6))
def test_policy_return_equals_enumeration(mdp, seed, horizon):
    """Set by set, with the values of the policy's own choice."""
    table = np.random.default_rng(seed).random(mdp.reward.shape) + 0.1
    v = np.zeros(mdp.num_states)
    transition = mdp.transition_matrix.toarray().reshape(*mdp.reward.shape, -1)
    distributions = brute_force.set_probs_by_state(mdp)
    for _ in range(horizon):
        q = mdp.reward + mdp.gamma * transition @ v
        for state, probs in enumerate(distributions):
            mean = 0.0
            for members, weight in probs.items():
                actions = list(members)
                pi = table[state, actions] / table[state, actions].sum()
                mean += weight * pi @ q[state, actions]
            v[state] = 0.0 if mdp.is_terminal[state] else mean
    found = policy_return(
        mdp.replace(horizon=horizon), table_policy(table), gamma=mdp.gamma
    )
    assert found == pytest.approx(mdp.initial_distribution @ v, abs=1e-10)


@pytest.mark.parametrize("env_id", [MAP, "SAS/BayArea-v0"])
def test_rule_has_its_exact_return_in_play(env_id):
    env: Any = gym.make_vec(env_id, 500)
    (rule,) = rules.rules_of(env.unwrapped.task)
    returns = episode_returns(env, rule, 10_000, seed=0)
    assert_mean(returns, policy_return(env, rule))


@pytest.mark.parametrize("mask_in_observation", [True, False])
def test_probabilities_and_actions_of_one_policy_have_one_return(mask_in_observation):
    env = gym.make(MAP, mask_in_observation=mask_in_observation)
    mdp = SASEnv("sas_gym:SanFrancisco").tabular()
    values = solve(mdp).q_values

    def greedy(observation, mask):
        number = observation["observation"] if mask_in_observation else observation
        return np.where(mask, values[number], -np.inf).argmax(axis=1)

    def probabilities(observation, mask):
        return np.eye(mask.shape[1], dtype=np.float32)[greedy(observation, mask)]

    found = policy_return(env, greedy)
    assert found == policy_return(env, probabilities)
    assert found == policy_return(env, solve(mdp).policy)
    # It plans without the time limit, and so falls short of the optimum by a little.
    assert optimal_return(env) - 0.01 < found < optimal_return(env)


def test_uniform_probabilities_are_random_play():
    def uniform(_, mask):
        return mask / mask.sum(axis=1, keepdims=True)

    for problem in (MAP, gym.make_vec("SAS/BayArea-v0", 2)):
        expected = random_return(problem)
        assert policy_return(problem, uniform) == pytest.approx(expected, rel=1e-12)
        assert policy_return(problem, RandomPolicy()) == expected


def test_observations_are_the_tasks_own():
    """The policy sees features, not the numbers of states."""
    seen = []

    def left(observation, mask):
        seen.append(observation["observation"])
        return mask.argmax(axis=1)

    problem = SASVectorEnv(ThetaTwoTheta(), 1, max_episode_steps=3)
    assert policy_return(problem, left) == 0
    assert set(np.concatenate(seen).ravel()) == {1.0, 2.0}
    assert seen[0].dtype == np.float32


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (lambda _, mask: mask.argmin(axis=1), r"take available actions only.*\[0\] "),
        (lambda _, mask: np.full(len(mask), -1), "available actions only"),
        (lambda _, mask: np.full(len(mask), 99), "available actions only"),
        (lambda _, mask: np.full(mask.shape, 0.2), "available actions only"),
        (lambda _, mask: np.full(mask.shape, np.nan), "available actions only"),
        (lambda _, mask: mask * 1.0, "with probabilities that sum to 1"),
        (lambda _, mask: mask.argmax(axis=1)[:3], "one action per row of masks"),
        (lambda _, mask: mask.argmax(axis=1) * 1.0, "got shape .* of float64"),
    ],
)
def test_wrong_answers_of_a_policy_are_named(policy, message):
    with pytest.raises(ValueError, match=message):
        policy_return(MAP, policy)


def test_too_many_pairs_or_no_arrays_are_refused():
    def first(_, mask):
        return mask.argmax(axis=1)

    with pytest.raises(
        ValueError, match="more pairs of a state and an action set than max_pairs"
    ):
        policy_return(MAP, first, max_pairs=10)
    with pytest.raises(ValueError, match="Maze has no tabular form: number its states"):
        policy_return("SAS/Maze-v0", first)
