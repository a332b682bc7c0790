"""The optimal and the random return of every environment."""

import json

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit
from helpers.playing import available_by
from helpers.statistical import assert_mean

from sas_gym import (
    SPECS,
    Maze,
    RandomPolicy,
    SanFrancisco,
    SASEnv,
    SASVectorEnv,
    episode_returns,
)
from sas_gym.action_sets import Grouped
from sas_gym.planning import (
    TabularSASMDP,
    normalized_score,
    optimal_return,
    random_return,
    reference_return,
)
from sas_gym.planning._returns import PATH
from sas_gym.planning.approximations.__main__ import AVAILABILITIES


def test_returns_depend_on_time_limit_and_discount():
    single = gym.make("SAS/SanFrancisco-v0", availability=0.4)
    vector = gym.make_vec("SAS/SanFrancisco-v0", 3, availability=0.4)
    assert optimal_return(single) == optimal_return(vector)
    assert optimal_return(single, gamma=0.9) < optimal_return(single)
    short = gym.make("SAS/SanFrancisco-v0", availability=0.4, max_episode_steps=5)
    wrapped = TimeLimit(SASEnv(SanFrancisco(0.4)), 5)
    assert optimal_return(short) == optimal_return(wrapped) < optimal_return(single)
    # Without a limit it is worth more still, as the goal is always reached.
    assert optimal_return(SASEnv(SanFrancisco(0.4))) > optimal_return(single)
    assert optimal_return(gym.make("SAS/ThetaTwoTheta-v0")) == 0


def test_normalized_score_is_0_for_random_and_1_for_optimal():
    env = gym.make("SAS/SanFrancisco-v0")
    returns = [random_return(env), optimal_return(env), 0.0]
    np.testing.assert_allclose(normalized_score(env, returns)[:2], [0, 1], atol=1e-12)
    with pytest.raises(
        ValueError, match="the random policy is optimal in this environment"
    ):
        normalized_score(gym.make("SAS/ThetaTwoTheta-v0"), [0.0])


@pytest.mark.parametrize("availability", AVAILABILITIES)
@pytest.mark.parametrize("env_id", [spec.id for spec in SPECS])
def test_every_id_has_returns_at_every_availability(env_id, availability):
    options = available_by(env_id, availability)
    env = gym.make(env_id, **options)
    best, random = optimal_return(env), random_return(env)
    assert np.isfinite([best, random]).all()
    assert best >= random
    assert best == optimal_return(gym.make_vec(env_id, 2, **options))


@pytest.mark.parametrize("env_id", ["SAS/Maze-v0", "SAS/Recommender-v0"])
def test_reference_optimum_grows_with_availability(env_id):
    optima = []
    for availability in AVAILABILITIES:
        env = gym.make(env_id, availability=availability)
        known = reference_return(env)
        assert known.optimal_error < 0.01 * (known.optimal - known.random)
        assert known.random_error < 0.01 * (known.optimal - known.random)
        optima.append(known.optimal)
    assert optima == sorted(optima)


@pytest.mark.parametrize("env_id", ["SAS/Maze-v0", "SAS/Recommender-v0"])
def test_random_policy_has_its_reference_return(env_id):
    env = gym.make_vec(env_id, 1000, availability=0.4)
    returns = episode_returns(env, RandomPolicy(seed=1), 2000, seed=1)
    assert_mean(returns, random_return(env))


def test_unknown_settings_error_names_the_command():
    how = "python -m sas_gym.planning.approximations"
    for env in (
        gym.make("SAS/Maze-v0", availability=0.3),
        gym.make("SAS/Maze-v0", noise=0.1),
        gym.make("SAS/Maze-v0", max_episode_steps=20),
        gym.make("SAS/Maze-v0", action_sets=Grouped([0, 1] * 8, 0.8)),
        gym.make("SAS/Maze-v0", availability=[0.2, 0.8] * 8),
        gym.make("SAS/Recommender-v0", catalogue_seed=1),
        SASEnv(Maze()),
    ):
        with pytest.raises(ValueError, match=how):
            optimal_return(env)
    with pytest.raises(ValueError, match="known undiscounted"):
        optimal_return(gym.make("SAS/Maze-v0"), gamma=0.9)


def test_unknown_task_error():
    class Mine(Maze):
        pass

    env = SASVectorEnv(Mine(), 1, max_episode_steps=80)
    for known in (optimal_return, random_return):
        with pytest.raises(ValueError, match="the returns of Mine are not known"):
            known(env)


def test_optimal_return_builds_the_arrays_once(monkeypatch):
    built = []
    build = TabularSASMDP.__init__

    def counting(self, *args, **kwargs):
        built.append(self)
        build(self, *args, **kwargs)

    env = gym.make("SAS/SanFrancisco-v0", availability=0.2)
    monkeypatch.setattr(TabularSASMDP, "__init__", counting)
    optimal_return(env, gamma=0.9)
    assert len(built) == 1


def test_reference_data_have_settings():
    for table in json.loads(PATH.read_text()).values():
        arguments = [row["arguments"] for row in table["rows"]]
        assert arguments == [{"availability": p} for p in AVAILABILITIES]
        assert table["settings"]
