"""Rollouts of whole episodes need an end: a missing time limit is said at once."""

import re
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from helpers.agents import Masked, all_agents, episodic_agents, make_agent, make_maze
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from sas_agents import SASPG, VectorEnvAdapter, make_vec_env
from sas_agents.base import _checks
from sas_gym import Maze, Recommender, SASEnv, StochasticActionSets, check_env

NO_LIMIT = "no time limit was found, and a rollout of whole episodes"


def endless() -> Any:
    return Masked(spaces.Box(0, 1, (2,)))


def limited() -> Any:
    return TimeLimit(endless(), 20)


def limited_recommender() -> Any:
    return TimeLimit(SASEnv(Recommender()), 3)


def masked_cart_pole() -> Any:
    return StochasticActionSets(gym.make("CartPole-v1"), 0.7)


def adapted(kind: Any, *make: Callable[[], Any]) -> Any:
    # A fork would warn, from Python 3.12 on, where an earlier test has left a thread.
    options = {"context": "forkserver"} if kind is AsyncVectorEnv else {}
    mode = AutoresetMode.SAME_STEP
    return VectorEnvAdapter(kind(make, autoreset_mode=mode, **options))


@pytest.mark.parametrize(
    "make_env",
    [
        endless,
        lambda: DummyVecEnv([limited, endless]),
        lambda: SubprocVecEnv([endless]),
        lambda: SASEnv(Maze()),
        lambda: make_vec_env(Maze(), 2),
        lambda: make_vec_env(Maze(), 2, vec_env_cls=DummyVecEnv),
        lambda: adapted(SyncVectorEnv, limited, endless),
        lambda: adapted(AsyncVectorEnv, endless, endless),
    ],
    ids=["own", "dummy", "processes", "task", "vector", "tasks", "sync", "async"],
)
def test_missing_time_limit_warns(make_env):
    env = make_env()
    with pytest.warns(UserWarning, match=NO_LIMIT):
        model = make_agent(SASPG, env, whole_episodes=True)
    model.env.close()


@pytest.mark.parametrize(
    "make_env",
    [
        limited,
        lambda: "SAS/Maze-v0",
        lambda: "SAS/Recommender-v0",
        lambda: DummyVecEnv([limited, limited]),
        lambda: SubprocVecEnv([limited]),
        lambda: SubprocVecEnv([lambda: SASEnv(Recommender())]),
        lambda: make_vec_env(Recommender(), 2),
        lambda: make_maze(max_episode_steps=9),
        lambda: adapted(SyncVectorEnv, limited, limited),
        lambda: adapted(SyncVectorEnv, lambda: SASEnv(Recommender())),
        lambda: DummyVecEnv([lambda: SASEnv(Recommender()), limited_recommender]),
        lambda: adapted(AsyncVectorEnv, masked_cart_pole, masked_cart_pole),
    ],
)
def test_no_alarm_where_episodes_end(make_env):
    """By a limit, or as the task says that they do; warnings are errors here."""
    model = make_agent(SASPG, make_env(), whole_episodes=True)
    assert model.num_timesteps == 0
    model.env.close()


@episodic_agents
def test_missing_time_limit_warns_of_whole_episodes_alone(agent, tmp_path):
    make_agent(agent, endless(), whole_episodes=False)
    with pytest.warns(UserWarning, match=NO_LIMIT):
        model = make_agent(agent, endless(), whole_episodes=True)
    model.save(tmp_path / "model")
    with pytest.warns(UserWarning, match=NO_LIMIT):
        loaded = agent.load(tmp_path / "model", env=endless())
    assert loaded.whole_episodes


class Endless(Masked):
    """Its episodes end after as many steps as it is told."""

    def __init__(self, last: int) -> None:
        super().__init__(spaces.Box(0, 1, (2,)))
        self.last = last

    def step(self, action: Any) -> Any:
        self.num_steps += 1
        info = {"action_mask": self.action_masks()}
        ended = self.num_steps == self.last
        return self.observation_space.sample(), float(action), ended, False, info


def warnings_of(agent: Any, env: Any, num_steps: int) -> list[Any]:
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        make_agent(agent, env).learn(num_steps)
    return [one for one in given if "no episode has ended in" in str(one.message)]


@all_agents
def test_episodes_that_do_not_end_are_warned_of_once(agent, monkeypatch):
    monkeypatch.setattr(_checks, "LONG_EPISODE", 40)
    env = DummyVecEnv([lambda: Endless(10_000)] * 2)
    (given,) = warnings_of(agent, env, 400)
    assert given.filename == __file__  # the line that called `learn`
    (num_steps,) = re.findall(r"last (\d+) steps", str(given.message))
    assert 80 <= int(num_steps) < 150


@all_agents
def test_episodes_that_end_are_not_warned_of(agent, monkeypatch):
    """By themselves in less time, or some time by a limit that is known."""
    monkeypatch.setattr(_checks, "LONG_EPISODE", 40)
    for env in (Endless(20), TimeLimit(Endless(10_000), 5_000)):
        assert warnings_of(agent, env, 200) == []


class Patient(Maze):
    """A maze that says of itself that it ends."""

    always_ends = True


def test_check_env_believes_a_task_that_always_ends():
    goal = (0.9, 0.95, 0.9, 0.95)
    with pytest.warns(UserWarning, match="no time limit was found, and an episode"):
        check_env(SASEnv(Maze(goal=goal)), skip_render_check=True)
    check_env(SASEnv(Patient(goal=goal)), skip_render_check=True)
