"""The program that compares agents on masked problems."""

from dataclasses import asdict, replace

import gymnasium as gym
import numpy as np
import pytest
from contest import runs
from contest.entries import (
    ENTRIES,
    NINE,
    OWN,
    our_env,
    peer_env,
    reference_return,
)
from contest.runs import AGENTS, Row, Run, Store, execute
from contest.tables import differences, holm_levels, interval, shares
from scipy import stats

from sas_gym.masks import MASK_KEY

pytestmark = pytest.mark.slow


def row(seed, greedy, label="old", problem="towing", agent="SASPG", sampled=0.0):
    run = Run(problem, agent, "default", 100, seed, label)
    return Row(**asdict(run), greedy=greedy, sampled=sampled)


def references(low, high, problem="towing"):
    return [
        Row(**asdict(Run(problem, name)), sampled=value, greedy=value)
        for name, value in (("random", low), ("rule", high))
    ]


def test_share_is_0_for_random_play_and_1_for_the_rule():
    rows = [*references(-10.0, 30.0), row(0, 30.0, sampled=-10.0), row(1, 10.0)]
    key = "old", "towing", "SASPG", "default", "100"
    assert shares(rows)[*key, "greedy"] == {0: 1.0, 1: 0.5}
    assert shares(rows)[*key, "sampled"] == {0: 0.0, 1: 0.25}


def test_a_problem_without_its_rule_says_how_to_get_it():
    with pytest.raises(ValueError, match="no row of 'rule' for 'towing': run the"):
        shares([references(0.0, 1.0)[0], row(0, 0.5)])


def test_interval_is_that_of_scipys_test_of_one_mean():
    values = np.array([1.0, 2.0, 4.0, 4.5])
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.99)
    assert np.allclose(interval(values, 0.01), expected)


def test_holm_levels_reject_what_holms_procedure_rejects():
    p_values = np.array([0.02, 0.001, 0.04, 0.03])
    # 0.001 <= 0.05 / 4 is rejected; 0.02 > 0.05 / 3 is not, and no later one is.
    assert (p_values <= holm_levels(p_values)).tolist() == [False, True, False, False]
    assert np.allclose(
        holm_levels(np.array([0.01, 0.02, 0.03])), 0.05 / np.arange(3, 0, -1)
    )


def test_differences_are_paired_by_seed():
    rng = np.random.default_rng(0)
    old, new = rng.normal(size=(2, 6))
    rows = references(0.0, 1.0)
    rows += [row(seed, value, "old") for seed, value in enumerate(old)]
    rows += [row(seed, value, "new") for seed, value in reversed(list(enumerate(new)))]
    found = {
        entry.name.split(", ")[-1]: entry for entry in differences(rows, "old", "new")
    }
    test = stats.ttest_rel(new, old)
    assert np.isclose(found["greedy"].mean, np.mean(new - old))
    assert np.isclose(found["greedy"].p_value, test.pvalue)
    assert (found["sampled"].low, found["sampled"].high) == (0.0, 0.0)


def test_runs_that_the_file_has_are_not_repeated(tmp_path):
    store = Store(tmp_path / "folder" / "runs.csv")
    asked = [Run("towing", "SASPG", seed=seed) for seed in range(3)]
    assert store.missing(asked) == asked
    store.add(Row(**asdict(asked[1]), greedy=0.1, cpu_seconds=1.5))
    again = Store(store.path)
    assert again.rows == store.rows
    assert again.missing(asked) == [asked[0], asked[2]]


def test_a_variant_with_other_arguments_needs_another_name(tmp_path):
    store, run = Store(tmp_path / "runs.csv"), Run("towing", "SASPG", "long")
    store.add(Row(**asdict(run)))
    with pytest.raises(ValueError, match="choose another name with --variant"):
        store.missing([replace(run, arguments='{"gae_lambda": 0.5}')])


def seeds_of_training(seed):
    arguments = '{"n_steps": 8, "batch_size": 64}'
    run = Run("loading", "MaskablePPO", num_steps=64, seed=seed, arguments=arguments)
    model, _ = runs.trained(run, ENTRIES[run.problem])
    return set(model.get_env().get_attr("np_random_seed"))


def test_no_two_runs_learn_in_environments_of_one_seed():
    seeds = seeds_of_training(1), seeds_of_training(2)
    assert len(seeds[0]) == len(seeds[1]) == ENTRIES["loading"].num_envs
    assert not seeds[0] & seeds[1]


@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_runs_on_a_problem(agent, monkeypatch):
    monkeypatch.setattr(runs, "NUM_EPISODES", 4)
    run = Run("loading", agent, num_steps=2048, seed=1)
    first, again = execute(run), execute(run)
    assert -12_000 < first.greedy < -5000
    assert first.cpu_seconds > 0
    # One seed is one training and one evaluation.
    assert replace(first, cpu_seconds=0.0) == replace(again, cpu_seconds=0.0)


def test_arguments_and_rows_of_features_reach_agent_and_environment(monkeypatch):
    monkeypatch.setattr(runs, "NUM_EPISODES", 4)
    run = Run(
        "towing",
        "MaskablePPO",
        "rows",
        arguments='{"n_steps": 16, "batch_size": 128}',
        environment='{"action_features": true}',
    )
    model, _ = runs.trained(run, ENTRIES["towing"])
    assert model.n_steps == 16
    assert model.observation_space["action_features"].shape == (41, 5)


@pytest.mark.parametrize("name", ENTRIES)
def test_ours_see_the_mask_in_the_observation_and_peers_do_not(name):
    entry = ENTRIES[name]
    ours, peers = our_env(entry, {}), peer_env(entry, {})
    observation, info = ours.reset(seed=0)
    assert (observation[MASK_KEY] == info[MASK_KEY]).all()
    observation, info = peers.reset(seed=0)
    assert not isinstance(observation, dict) or MASK_KEY not in observation
    assert peers.observation_space.contains(observation)
    assert (peers.get_wrapper_attr("action_masks")() == info[MASK_KEY]).all()


def test_the_rule_of_an_entry_earns_what_it_earns_in_single_episodes():
    env, returns = gym.make("benchmarks/Loading-v0"), []
    for seed in range(50):
        (observation, info), ended, total = env.reset(seed=seed), False, 0.0
        while not ended:
            action = env.get_wrapper_attr("rule")(observation, info[MASK_KEY])
            observation, reward, _, ended, info = env.step(action)
            total += float(reward)
        returns.append(total)
    # The same 50 first episodes, side by side.
    assert reference_return(ENTRIES["loading"], 50, seed=0) == np.mean(returns)


def test_the_optimum_of_taxi_is_the_published_one():
    assert np.isclose(reference_return(ENTRIES["taxi"], 1, 0), 7.93, atol=0.01)


def test_entries_are_own_problems_the_nine_and_the_maze_with_networks():
    assert {*OWN, *NINE, "maze, networks"} == set(ENTRIES)
    assert len(NINE) == 9
