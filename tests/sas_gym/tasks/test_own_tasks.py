"""A task that a user writes: what may vary, and mistakes that are named at once."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import sas_gym
from sas_gym import SASEnv, SASVectorEnv, Task
from sas_gym.action_sets import Independent
from sas_gym.planning import optimal_return, random_return


class Walk(Task):
    """A sound task; each subclass breaks one part."""

    num_actions = 2
    observation_space: gym.Space[Any] = spaces.Box(-9, 9, (1,), np.float32)
    action_sets = Independent([1.0, 0.5])

    def reset(self, num_envs, rng):
        return np.zeros((num_envs, 1))

    def transition(self, state, action, rng):
        state = state + 2 * action[:, None] - 1
        return state, np.ones(len(state)), np.abs(state[:, 0]) > 5

    def observe(self, state):
        return state.astype(np.float32)


class DictWalk(Walk):
    """Allowed: observations with keys of their own."""

    observation_space = spaces.Dict(
        place=spaces.Box(-9, 9, (1,), np.float32), side=spaces.Discrete(2)
    )

    def observe(self, state):
        place = state.astype(np.float32)
        return {"place": place, "side": (state[:, 0] > 0).astype(np.int64)}


class HasNoSets(Walk):
    action_sets: Any = None

    def __getattribute__(self, name):
        if name == "action_sets":
            raise AttributeError(name)
        return super().__getattribute__(name)


class SeesDoubles(Walk):
    def observe(self, state):
        return state


class ReturnsTwo(Walk):
    def transition(self, state, action, rng):
        return super().transition(state, action, rng)[:2]


class RewardsOne(Walk):
    def transition(self, state, action, rng):
        state, _, terminated = super().transition(state, action, rng)
        return state, 1.0, terminated


class RewardsIntegers(Walk):
    def transition(self, state, action, rng):
        state, _, terminated = super().transition(state, action, rng)
        return state, np.ones(len(state), int), terminated


class EndsAsOne(Walk):
    def transition(self, state, action, rng):
        state, reward, terminated = super().transition(state, action, rng)
        return state, reward, terminated.astype(int)


class StartsAsOne(Walk):
    def reset(self, num_envs, rng):
        return np.zeros(1)


class CountsWrongly(Walk):
    num_actions: Any = 2.0


class HasNoSpace(Walk):
    observation_space: Any = (1,)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (
            HasNoSets,
            "HasNoSets has no action_sets: set it in the class .* or pass acti",
        ),
        (SeesDoubles, r"observe\(\) returns .* float64, .* with \.astype\(np\.float32"),
        (
            ReturnsTwo,
            r"transition\(\) must return a tuple of three .* got a tuple of 2",
        ),
        (RewardsOne, r"the rewards of .* one row per environment, got the float 1\.0"),
        (
            RewardsIntegers,
            r"the rewards of .* must be one float per environment.* int64",
        ),
        (EndsAsOne, r"the terminations of .* must be one bool per environment.* int64"),
        (StartsAsOne, r"reset\(\) must be an array with one row per environment"),
        (CountsWrongly, r"num_actions must be an integer of at least 1, got 2\.0"),
        (HasNoSpace, r"observation_space must be a gymnasium\.spaces\.Space, got \(1,"),
    ],
)
@pytest.mark.parametrize("make", [SASEnv, SASVectorEnv])
def test_mistake_is_named_when_made(task, message, make):
    with pytest.raises((TypeError, ValueError), match=message):
        make(task())


def test_missing_sets_can_be_passed():
    assert SASEnv(HasNoSets(), action_sets=0.5).reset(seed=0)[0]["action_mask"].any()


def play(env: Any, num_steps: int) -> list[Any]:
    returned = [env.reset(seed=0)]
    for _ in range(num_steps):
        action = returned[-1][-1]["action_mask"].argmax(axis=1)
        returned.append(env.step(action))
    return returned


@pytest.mark.parametrize("mask_in_observation", [True, False])
def test_dict_observations_keep_their_keys(mask_in_observation):
    options: Any = {"mask_in_observation": mask_in_observation}
    single = SASEnv(DictWalk(), **options)
    keys = {"place", "side"} | ({"action_mask"} if mask_in_observation else set())
    obs, _ = single.reset(seed=0)
    assert obs.keys() == keys
    assert obs in single.observation_space
    native = SASVectorEnv(DictWalk(), 1, **options)
    sync = SyncVectorEnv(
        [lambda: SASEnv(DictWalk(), **options)], autoreset_mode=AutoresetMode.SAME_STEP
    )
    assert native.observation_space == sync.observation_space
    assert data_equivalence(play(native, 100), play(sync, 100), exact=True)
    many = SASVectorEnv(DictWalk(), 4, **options)
    obs, _ = many.reset(seed=0)
    assert obs in many.observation_space


def check(env: Any, **options: Any) -> None:
    sas_gym.check_env(env, skip_render_check=True, **options)


def test_checker_passes_dict_observations():
    check(gym.wrappers.TimeLimit(SASEnv(DictWalk()), 50))


def test_returns_of_own_task_name_the_cure():
    env = SASEnv(Walk())
    for compute in (optimal_return, random_return):
        with pytest.raises(
            ValueError, match=r"returns of Walk are not known: .*tabular"
        ):
            compute(env)


def test_checker_warns_of_endless_episodes():
    class Endless(Walk):
        def transition(self, state, action, rng):
            state, reward, _ = super().transition(state, action, rng)
            return np.clip(state, -5, 5), reward, np.zeros(len(state), bool)

    with pytest.warns(
        UserWarning, match="no time limit was found, and an episode went"
    ):
        check(SASEnv(Endless()), num_steps=50)
    check(gym.wrappers.TimeLimit(SASEnv(Endless()), 200), num_steps=50)
