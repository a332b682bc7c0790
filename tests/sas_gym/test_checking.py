"""The checker finds each fault, and its message says how to fix it."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from sb3_contrib.common.envs import InvalidActionEnvDiscrete

import sas_gym

SIZE = 3


class Sound(gym.Env):
    """A user's environment that keeps the contract; each subclass breaks one part."""

    action_space = gym.spaces.Discrete(SIZE)
    observation_space: gym.Space[Any] = gym.spaces.Dict(
        observation=gym.spaces.Discrete(5), action_mask=gym.spaces.MultiBinary(SIZE)
    )
    metadata = {"render_modes": []}

    def draw_mask(self):
        mask = (self.np_random.random(SIZE) < 0.5).astype(np.int8)
        mask[0] = 1
        return mask

    def final_mask(self):
        return self.draw_mask()

    def observe(self):
        obs = {"observation": np.int64(self.place), "action_mask": self.mask.copy()}
        return obs, {"action_mask": self.mask.copy()}

    def action_masks(self):
        return self.mask.astype(bool)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        self.mask = self.draw_mask()
        return self.observe()

    def refuse(self, action):
        if not self.mask[action]:
            raise ValueError("unavailable")

    def step(self, action):
        self.refuse(action)
        self.place = (self.place + action + 1) % 5
        ended = bool(self.place == 4)
        self.mask = self.final_mask() if ended else self.draw_mask()
        obs, info = self.observe()
        return obs, 1.0, ended, False, info


class DrawsOnRead(Sound):
    def action_masks(self):
        return self.draw_mask().astype(bool)


class OffersNothing(Sound):
    def draw_mask(self):
        return (self.np_random.random(SIZE) < 0.3).astype(np.int8)


class OffersNothingAtTheEnd(Sound):
    def final_mask(self):
        return np.zeros(SIZE, np.int8)


class ReturnsTwoSets(Sound):
    def observe(self):
        obs, info = super().observe()
        info["action_mask"][0] = 0
        info["action_mask"][1] = 1
        return obs, info


class WrongShape(Sound):
    def observe(self):
        obs, info = super().observe()
        return obs, {"action_mask": info["action_mask"][:2]}


class BoolMask(Sound):
    """Allowed: masks are of any type."""

    dtype: Any = bool

    def observe(self):
        obs, info = super().observe()
        return obs, {"action_mask": info["action_mask"].astype(self.dtype)}


class FloatMask(BoolMask):
    dtype = np.float64


class WrongValues(Sound):
    def observe(self):
        obs, info = super().observe()
        return obs, {"action_mask": info["action_mask"] * 2}


class AcceptsAnything(Sound):
    def refuse(self, action):
        pass


class IsUnseeded(Sound):
    def draw_mask(self):
        mask = (np.random.default_rng().random(SIZE) < 0.5).astype(np.int8)
        mask[0] = 1
        return mask


class HidesItsMask(gym.Wrapper):
    """Removes the mask from every channel."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gym.spaces.Discrete(5)

    def reset(self, **kwargs):
        return self.env.reset(**kwargs)[0]["observation"], {}

    def step(self, action):
        obs, reward, terminated, truncated, _ = self.env.step(action)
        return obs["observation"], reward, terminated, truncated, {}

    def has_wrapper_attr(self, name):
        return name != "action_masks" and super().has_wrapper_attr(name)


class OnlyHasMethod(Sound):
    """Allowed: the mask is in one channel only."""

    observation_space = gym.spaces.Discrete(5)

    def observe(self):
        return np.int64(self.place), {}


class MaskIsABox(Sound):
    observation_space = gym.spaces.Dict(
        observation=gym.spaces.Discrete(5),
        action_mask=gym.spaces.Box(0, 1, (SIZE,), np.int8),
    )


class RefusesQuietly(Sound):
    """Allowed: an unavailable action leaves everything as it is."""

    def step(self, action):
        if not self.mask[action]:
            obs, info = self.observe()
            return obs, 0.0, False, False, info
        return super().step(action)


def check(env, **options):
    sas_gym.check_env(env, skip_render_check=True, **options)


@pytest.mark.parametrize(
    "env_class",
    [Sound, RefusesQuietly, BoolMask, FloatMask, OffersNothingAtTheEnd],
)
def test_sound_environment_passes(env_class):
    check(env_class())


@pytest.mark.parametrize(
    ("env_class", "message"),
    [
        (DrawsOnRead, r"(differ|two different sets).*: draw the set once"),
        (OffersNothing, "offers no action: draw the set again"),
        (
            ReturnsTwoSets,
            r"observation\['action_mask'\] and info\['action_mask'\] differ",
        ),
        (
            WrongShape,
            r"info\['action_mask'\] must have one .* \(3,\); got shape \(2,\)",
        ),
        (WrongValues, "must be 1 where an action is available and 0 elsewhere"),
        (AcceptsAnything, "was unavailable, but step.. carried it out: raise a"),
        (IsUnseeded, "differs after reset.*draw everything, the action sets too"),
        (
            lambda: HidesItsMask(Sound()),
            r"after reset\(\): .*no action mask: .*return info",
        ),
    ],
)
def test_each_fault_is_found(env_class, message):
    with pytest.raises(AssertionError, match=message):
        check(env_class())


def test_must_refuse_false_skips_refusal():
    check(AcceptsAnything(), must_refuse=False)


def test_mask_from_method_alone_passes():
    check(OnlyHasMethod())


def test_sb3_contribs_environment_is_unseeded():
    """The environment of sb3-contrib's own tests draws from the global generator."""
    with pytest.raises(AssertionError, match="draw everything"):
        check(InvalidActionEnvDiscrete(dim=6, n_invalid_actions=3), must_refuse=False)


def test_gymnasiums_faults_are_found():
    class WrongObservation(Sound):
        def observe(self):
            obs, info = super().observe()
            return {**obs, "observation": np.int64(99)}, info

    with pytest.raises(
        AssertionError, match=r"observation'\] after .* not in its space Disc"
    ):
        check(WrongObservation())


def test_continuous_actions_error():
    with pytest.raises(AssertionError, match="need a Discrete, a MultiDiscrete or"):
        check(gym.make("Pendulum-v1"))
