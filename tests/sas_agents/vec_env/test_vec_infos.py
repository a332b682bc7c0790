"""Infos and episode statistics are made where they are read, and right."""

import copy
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from helpers.agents import make_agent
from helpers.vec_envs import masks_of, play
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecMonitor

from sas_agents import SASPG, VectorEnvAdapter, make_vec_env
from sas_agents.vec_env._infos import EpisodeMonitor, truncated_envs
from sas_gym import SPECS

every_id = pytest.mark.parametrize("env_id", [spec.id for spec in SPECS])


@every_id
def test_episode_statistics_are_sums_of_rewards(env_id):
    venv = make_vec_env(env_id, n_envs=3, seed=0)
    totals, lengths, count = np.zeros(3), np.zeros(3, dtype=int), 0
    for _, rewards, dones, infos in play(venv, 250):
        totals += rewards
        lengths += 1
        for index in np.flatnonzero(dones):
            episode = infos[index]["episode"]
            assert episode["r"] == pytest.approx(totals[index], rel=1e-4, abs=1e-4)
            assert episode["l"] == lengths[index]
            count += 1
        assert all("episode" not in infos[index] for index in np.flatnonzero(~dones))
        totals[dones], lengths[dones] = 0.0, 0
    assert count > 0


def some_infos(num_envs=4):
    """Return the infos of a step in which every episode ends, and of one without."""
    options = {"max_episode_steps": 2}
    venv = make_vec_env("SAS/Maze-v0", num_envs, seed=0, env_kwargs=options)
    venv.reset()
    steps: list[Any] = [venv.step(masks_of(venv).argmax(axis=1)) for _ in range(2)]
    return steps[1][3], steps[0][3]


def test_infos_are_read_as_a_list():
    for infos in some_infos():
        assert len(infos) == 4
        assert infos[-1] is infos[3] is infos[np.int64(3)] is list(infos)[3]
        assert [id(info) for info in infos[1:3]] == [id(infos[1]), id(infos[2])]
        assert next(reversed(infos)) is infos[3]
        assert repr(infos) == repr(list(infos))
        for wrong in (4, -5):
            with pytest.raises(IndexError):
                infos[wrong]


def test_changes_of_infos_stay():
    for infos in some_infos():
        infos[1]["note"] = "changed"
        infos[2] = {"note": "new"}
        notes = [info.get("note") for info in infos]
        assert notes == [None, "changed", "new", None]


def test_truncated_environments_are_those_that_the_infos_name():
    """The same of ours and of a list, and also after a wrapper has changed an info."""
    ended, running = some_infos()
    assert truncated_envs(ended, np.ones(4, dtype=bool)) == [0, 1, 2, 3]
    ended[2]["TimeLimit.truncated"] = False
    assert truncated_envs(ended, np.ones(4, dtype=bool)) == [0, 1, 3]
    as_list = list(ended)
    assert truncated_envs(as_list, np.ones(4, dtype=bool)) == [0, 1, 3]
    assert truncated_envs(as_list, np.array([False, True, True, False])) == [1]
    assert truncated_envs(running, np.zeros(4, dtype=bool)) == []


def test_infos_survive_pickle_and_copy():
    for infos in some_infos():
        infos[0]["note"] = "kept"
        for twin in (pickle.loads(pickle.dumps(infos)), copy.deepcopy(infos)):
            assert data_equivalence(list(twin), list(infos), exact=True)
            twin[0]["note"] = "other"
            assert infos[0]["note"] == "kept"


def test_infos_are_made_when_read():
    """Nobody reads them here, but of ended episodes the statistics are added."""
    ended, running = some_infos()
    assert sorted(ended.made) == [0, 1, 2, 3]
    assert not running.made
    assert running[2]["TimeLimit.truncated"] is False
    assert list(running.made) == [2]


def test_monitor_equals_vec_monitor():
    """The statistics are SB3's, but for the time; so are the keywords' entries."""
    keywords = ("TimeLimit.truncated",)
    episodes = []
    for monitor in (EpisodeMonitor, VecMonitor):
        venv = VectorEnvAdapter(gym.make_vec("SAS/SanFrancisco-v0", num_envs=5))
        venv.seed(0)
        infos = [
            info
            for step in play(monitor(venv, info_keywords=keywords), 200)
            for info in step[3]
        ]
        found = [info["episode"] for info in infos if "episode" in info]
        episodes.append([{**episode, "t": 0} for episode in found])
    assert len(episodes[0]) > 20
    assert data_equivalence(episodes[0], episodes[1], exact=True)


def test_infos_of_resets_keep_no_batch_alive():
    """A mask that is kept for an episode is its own, not a row of all of them."""
    venv = make_vec_env("SAS/Maze-v0", 3, seed=0, env_kwargs={"max_episode_steps": 2})
    obs: Any = venv.reset()
    for _ in range(2):
        obs, _, dones, _ = venv.step(obs["action_mask"].argmax(axis=1))
    assert dones.all()
    assert all(info["action_mask"].base is None for info in venv.unwrapped.reset_infos)


@pytest.mark.parametrize("as_list", [False, True])
def test_statistics_keep_the_last_episodes(as_list):
    """As Stable-Baselines3 does, of more episodes than its window has places."""
    model = make_agent(SASPG, make_vec_env("SAS/Maze-v0", 4), stats_window_size=3)
    model._setup_learn(1)
    ended, running = some_infos()
    for env, info in enumerate(ended):
        info["episode"] = {"r": env, "l": 1, "t": 0.0}
    for infos, dones in (ended, np.ones(4, bool)), (running, np.zeros(4, bool)):
        given = list(infos) if as_list else infos
        model._update_info_buffer(given, dones)
    assert [episode["r"] for episode in model.ep_info_buffer] == [1, 2, 3]
    model._update_info_buffer(ended, np.array([True, False, False, False]))
    assert [episode["r"] for episode in model.ep_info_buffer] == [2, 3, 0]


def test_statistics_are_those_of_stable_baselines3():
    """Of the episodes that have ended, with and without statistics and success."""
    ours, theirs = (make_agent(SASPG, make_vec_env("SAS/Maze-v0", 5)) for _ in range(2))
    infos: list[dict[str, Any]] = [
        {"episode": {"r": 1.0, "l": 2, "t": 0.0}, "is_success": False},
        {"is_success": True},
        {},
        {"episode": None, "is_success": None},
        {"episode": {"r": 3.0, "l": 4, "t": 0.0}},
    ]
    for model in (ours, theirs):
        model._setup_learn(1)
    ours._update_info_buffer(infos, np.ones(5, bool))
    BaseAlgorithm._update_info_buffer(theirs, infos, np.ones(5, bool))
    assert list(ours.ep_info_buffer) == list(theirs.ep_info_buffer)
    assert list(ours.ep_success_buffer) == list(theirs.ep_success_buffer)
    assert len(ours.ep_info_buffer) == len(ours.ep_success_buffer) == 2
    ours._update_info_buffer(infos)
    BaseAlgorithm._update_info_buffer(theirs, infos)
    assert list(ours.ep_success_buffer) == list(theirs.ep_success_buffer)
