"""Masks from anywhere are put into the observations of a `VecEnv`."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from helpers.vec_envs import MaskInInfo, masks_of, play
from sb3_contrib.common.envs import InvalidActionEnvDiscrete
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    SubprocVecEnv,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
)

from sas_agents import VecMaskInObservation, make_vec_env

BARE = {"mask_in_observation": False}


class MaskInMethod(gym.Wrapper):
    """CartPole with the one action that its step number names, from a method."""

    def __init__(self):
        super().__init__(gym.make("CartPole-v1"))
        self.num_steps = 0

    def reset(self, **kwargs):
        self.num_steps = 0
        return self.env.reset(**kwargs)

    def step(self, action):
        self.num_steps += 1
        return self.env.step(action)

    def action_masks(self):
        return np.arange(2) == self.num_steps % 2


@pytest.mark.parametrize("make_env", [MaskInInfo, MaskInMethod])
@pytest.mark.parametrize("wrap", [lambda venv: venv, VecMonitor])
def test_masks_from_info_or_method(make_env, wrap):
    venv: Any = VecMaskInObservation(wrap(DummyVecEnv([make_env, make_env])))
    assert venv.observation_space["action_mask"] == gym.spaces.MultiBinary(2)
    venv.seed(0)
    obs, steps, ends = venv.reset(), np.zeros(2, dtype=int), 0
    for _ in range(150):
        assert obs in gym.vector.utils.batch_space(venv.observation_space, 2)
        np.testing.assert_array_equal(obs["action_mask"], np.eye(2)[steps % 2])
        obs, _, dones, infos = venv.step(obs["action_mask"].argmax(axis=1))
        steps += 1
        for index in np.flatnonzero(dones):
            # The environment is reset by then: the method has nothing on the end.
            last = np.eye(2)[steps[index] % 2] if make_env is MaskInInfo else [1, 1]
            terminal = infos[index]["terminal_observation"]
            np.testing.assert_array_equal(terminal["action_mask"], last)
            assert terminal in venv.observation_space
            ends += 1
        steps[dones] = 0
    assert ends > 2


def test_masks_from_info_cross_processes():
    venv: Any = VecMaskInObservation(SubprocVecEnv([MaskInInfo, MaskInInfo]))
    try:
        obs = venv.reset()
        np.testing.assert_array_equal(obs["action_mask"], [[1, 0], [1, 0]])
        obs, *_ = venv.step(np.array([0, 0]))
        np.testing.assert_array_equal(obs["action_mask"], [[0, 1], [0, 1]])
    finally:
        venv.close()


def test_empty_final_mask_becomes_full():
    venv: Any = VecMaskInObservation(DummyVecEnv([lambda: MaskInInfo(True)]))
    obs, done = venv.reset(), False
    while not done:
        obs, _, (done,), (info,) = venv.step(obs["action_mask"].argmax(axis=1))
    assert info["terminal_observation"]["action_mask"].tolist() == [1, 1]
    assert obs["action_mask"].tolist() == [[1, 0]]


@pytest.mark.parametrize("n_envs", [1, 3])
def test_wrapper_equals_mask_in_observation(n_envs):
    """Also in steps that end an episode in every environment at once."""
    options = {"max_episode_steps": 3}
    masked = make_vec_env("SAS/Maze-v0", n_envs, seed=0, env_kwargs=options)
    bare = make_vec_env("SAS/Maze-v0", n_envs, seed=0, env_kwargs=options | BARE)
    wrapped = VecMaskInObservation(bare)
    assert wrapped.observation_space == masked.observation_space
    for one, other in zip(play(wrapped, 30), play(masked, 30), strict=True):
        for infos in (one[3], other[3]):
            for info in infos:
                info.pop("episode", None)
        assert data_equivalence(one, other, exact=True)


def test_frames_are_stacked_below_masks():
    bare = make_vec_env("SAS/Maze-v0", 2, seed=0, env_kwargs=BARE)
    venv: Any = VecMaskInObservation(VecFrameStack(bare, n_stack=3))
    assert venv.observation_space["observation"].shape == (6,)
    history = [venv.reset()["observation"][:, -2:]]
    for obs, *_ in play(venv, 5):
        history.append(obs["observation"][:, -2:])
        np.testing.assert_array_equal(obs["action_mask"], masks_of(venv))
    np.testing.assert_array_equal(obs["observation"], np.hstack(history[-3:]))


def test_environment_without_masks():
    venv: Any = VecMaskInObservation(make_vec_env("CartPole-v1", 2))
    with pytest.raises(ValueError, match="provides no action mask: put it into the"):
        venv.reset()


def test_empty_mask_is_rejected():
    class Nothing(MaskInMethod):
        def action_masks(self):
            return np.zeros(2, dtype=bool)

    with pytest.raises(ValueError, match="offers no action"):
        VecMaskInObservation(DummyVecEnv([Nothing])).reset()


def test_mask_of_wrong_size_is_rejected():
    class TooLong(MaskInMethod):
        def action_masks(self):
            return np.ones(3, dtype=bool)

    with pytest.raises(
        ValueError, match=r"one entry per action, shape \(1, 2\); got shape \(1, 3"
    ):
        VecMaskInObservation(DummyVecEnv([TooLong])).reset()


def test_normalisation_below_masks_is_rejected():
    """Its original observations, which a replay buffer stores, would have no masks."""
    bare = make_vec_env("SAS/Maze-v0", 2, env_kwargs=BARE)
    with pytest.raises(ValueError, match=r"VecNormalize\(VecMaskInObservation\(venv"):
        VecMaskInObservation(VecNormalize(bare))


def test_continuous_actions_are_refused():
    with pytest.raises(ValueError, match="need a Discrete, a MultiDiscrete or"):
        VecMaskInObservation(make_vec_env("Pendulum-v1", 1))


def test_masks_as_lists():
    """sb3-contrib's own environments return lists."""
    venv: Any = VecMaskInObservation(
        DummyVecEnv([lambda: InvalidActionEnvDiscrete(dim=5, n_invalid_actions=3)])
    )
    assert venv.reset()["action_mask"].sum() == 2
