"""Decision lists have their planned values in play, and act like agents."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers.small_mdps import mdps, random_mdp
from helpers.statistical import assert_mean
from hypothesis import given, settings
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from sas_gym import (
    BayArea,
    RandomPolicy,
    SanFrancisco,
    SASVectorEnv,
    ShutTheBox,
    episode_returns,
)
from sas_gym.planning import (
    DecisionListPolicy,
    backward_induction,
    oblivious_policy,
    optimal_return,
    policy_evaluation,
    policy_iteration,
    solve,
)


def play(env, policy, num_episodes, seed):
    """Return the episodes' returns of `predict`, with its memory passed on."""
    obs, _ = env.reset(seed=seed)
    start, memory = np.ones(env.num_envs, bool), None
    running = np.zeros(env.num_envs)
    finished: list[list[float]] = [[] for _ in range(env.num_envs)]
    share = -(-num_episodes // env.num_envs)
    while min(map(len, finished)) < share:
        action, memory = policy.predict(obs, memory, start)
        obs, reward, terminated, truncated, _ = env.step(action)
        running += reward
        start = terminated | truncated
        for env_index in np.flatnonzero(start):
            finished[env_index].append(running[env_index])
        running[start] = 0.0
    return np.array([returns[:share] for returns in finished]).ravel()


@pytest.mark.parametrize("availability", [0.2, 0.8])
def test_optimal_return_in_play_on_the_map(availability):
    """Rankings that differ by step, counted in the memory that `predict` returns."""
    env = gym.make_vec("SAS/SanFrancisco-v0", 1000, availability=availability)
    mdp = SanFrancisco(availability).tabular()
    plan = backward_induction(mdp.replace(horizon=30))
    assert plan.mean_return == optimal_return(env)
    assert_mean(play(env, plan.policy, 20_000, seed=0), plan.mean_return)


@pytest.mark.parametrize("make", [oblivious_policy, lambda mdp: solve(mdp).policy])
def test_values_in_play_in_the_bay_area(make):
    env = gym.make_vec("SAS/BayArea-v0", 500, availability=0.5, bridge_availability=0.1)
    mdp = BayArea(0.5, 0.1).tabular()
    policy = make(mdp)
    exact = policy_evaluation(mdp.replace(horizon=200), policy)
    assert_mean(episode_returns(env, policy, 5000, seed=0), exact.mean_return)


@settings(max_examples=8)
@given(mdp=mdps)
def test_values_in_play_in_any_mdp(mdp):
    mdp = mdp.replace(gamma=1.0, horizon=6)
    plan = backward_induction(mdp)
    env = SASVectorEnv(mdp, 500, max_episode_steps=6)
    returns = play(env, plan.policy, 2000, seed=0)
    if returns.std() > 0:
        assert_mean(returns, plan.mean_return)
    else:
        assert returns[0] == pytest.approx(plan.mean_return)


def test_oblivious_policy_is_optimal_only_if_all_is_available():
    for availability in (0.3, 1.0):
        mdp = SanFrancisco(availability).tabular().replace(horizon=30)
        best = solve(mdp).mean_return
        ignoring = policy_evaluation(mdp, oblivious_policy(mdp)).mean_return
        random = policy_evaluation(mdp, RandomPolicy()).mean_return
        assert random < ignoring < best or (ignoring == best and availability == 1)


def test_ranking_is_readable():
    """What to do at the San Francisco end of the bridge, as it fails more and more."""
    marin, peninsula, bridge, wait = 0, 1, 2, 4
    often, rarely = (BayArea(0.5, p).tabular() for p in (0.5, 0.05))
    for mdp in (often, rarely):
        ignoring = oblivious_policy(mdp)
        assert ignoring.ranking(9) == [bridge, wait, marin, peninsula]
    assert solve(often).policy.ranking(9) == [bridge, wait, marin, peninsula]
    assert solve(rarely).policy.ranking(9) == [bridge, marin, wait, peninsula]
    by_step = DecisionListPolicy([[[0, 1]], [[1, 0]]])
    assert [by_step.ranking(0), by_step.ranking(0, step=1)] == [[0, 1], [1, 0]]


def test_rankings_of_steps_are_taken_in_turn():
    """Each environment counts its own steps; after the last, its ranking stays."""
    policy = DecisionListPolicy([[[0, 1, 2]], [[1, 2, 0]], [[2, 0, 1]]])
    obs = {"observation": np.zeros(2, int), "action_mask": np.ones((2, 3))}
    memory, taken = None, []
    for second_starts in (True, False, True, False, False):
        start = np.array([memory is None, second_starts])
        actions, memory = policy.predict(obs, memory, start)
        taken.append(actions.tolist())
    assert taken == [[0, 0], [1, 1], [2, 0], [2, 1], [2, 2]]


def test_actions_of_no_ranking_come_last():
    policy = DecisionListPolicy([[1, -1, -1]])
    masks = np.array([[1, 1, 1], [1, 0, 1], [0, 0, 1]])
    assert policy(np.zeros(3, int), masks).tolist() == [1, 0, 2]


def test_policy_predicts_like_stable_baselines3():
    env = gym.make("SAS/SanFrancisco-v0", availability=0.4)
    mdp = SanFrancisco(0.4).tabular()
    policy = policy_iteration(mdp).policy
    obs, info = env.reset(seed=0)
    action, memory = policy.predict(obs)
    assert info["action_mask"][action] == 1
    assert memory is None
    assert env.action_space.contains(action)
    assert policy(obs["observation"][None], info["action_mask"][None]) == [action]
    agents: list[Any] = [RandomPolicy(0), policy]
    agents.append(solve(mdp.replace(horizon=30)).policy)
    random, best, planned = (
        np.mean(evaluate_policy(agent, Monitor(env), 50)[0]) for agent in agents
    )
    # Exact: 0.34 for the random policy, 7.6 for the two others.
    assert random < 4 < min(best, planned)


def test_from_preferences_ranks_possible_actions_only():
    possible = np.array([[True, False, True], [True, True, True]])
    preferences = np.array([[1.0, 9.0, 2.0], [1.0, 1.0, 5.0]])
    policy = DecisionListPolicy.from_preferences(preferences, possible)
    assert [policy.ranking(0), policy.ranking(1)] == [[2, 0], [2, 0, 1]]


def test_save_and_load(tmp_path):
    for mdp in (random_mdp(0, gamma=0.9), random_mdp(0, horizon=4)):
        policy = solve(mdp).policy
        policy.save(tmp_path / "policy.npz")
        loaded = DecisionListPolicy.load(tmp_path / "policy.npz")
        np.testing.assert_array_equal(loaded.rankings, policy.rankings)


@pytest.mark.parametrize(
    ("rankings", "message"),
    [
        ([0, 1], r"numbers of actions, of shape \(S, A\)"),
        ([[0.0, 1.0]], "numbers of actions"),
        ([[0, 0]], r"different actions of 0 to 1, best first, .* got \[0, 0\]"),
        ([[0, 2]], r"got \[0, 2\]"),
        ([[-1, -1]], r"got \[-1, -1\]"),
        ([[0, 1, 2], [0, 1, 1]], r"got \[0, 1, 1\]"),
        (np.zeros((0, 2), int), r"numbers of actions, .* got shape \(0, 2\)"),
    ],
)
def test_invalid_rankings_error(rankings, message):
    with pytest.raises(ValueError, match=message):
        DecisionListPolicy(rankings)


def test_ranking_of_one_action():
    assert DecisionListPolicy([[0]]).ranking(0) == [0]


def test_invalid_observation_error():
    policy = DecisionListPolicy([[0, 1], [1, 0]])
    for number in (0.5, -1, 2):
        with pytest.raises(ValueError, match="the number of a state, 0 to 1"):
            policy.predict({"observation": number, "action_mask": [1, 1]})
    with pytest.raises(
        ValueError, match=r"no action is available in environments \[1\]"
    ):
        policy(np.array([0, 1]), np.array([[1, 0], [0, 0]]))
    with pytest.raises(ValueError, match="its own rankings for each step"):
        DecisionListPolicy([[[0, 1]]])(np.array([0]), np.ones((1, 2)))


def test_policy_prints_names_of_states_and_actions():
    task = SanFrancisco(wait_cost=0.2)
    policy: Any = solve(task).policy
    lines = str(policy).splitlines()
    assert lines[1] == "at 1: to 0, else wait, else to 2, else 3"
    assert len(lines) == 28
    assert policy.line(26).startswith("at 26: to 27, else wait, else to 23")


def test_policy_prints_numbers_without_a_task():
    policy = DecisionListPolicy([[1, 0, 2], [0, 2, -1]])
    assert str(policy) == "state 0: 1, else 0, else 2\nstate 1: 0, else 2"
    many = DecisionListPolicy(np.zeros((2, 100, 1), int))
    assert str(many).splitlines()[-2:] == [
        "... and 70 more states",
        "(at the first of 2 steps)",
    ]


def test_policy_prints_moves_of_a_game():
    policy: Any = solve(ShutTheBox(3)).policy
    assert policy.line(0b111).startswith("open: 1 2 3: shut 1 + 2 + 3, else ")
    assert policy.line(0b010) == "open: 2: shut 2, else give up"
