"""The examples that are programs keep the promises of their texts."""

from importlib import import_module
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sas_gym

DISPATCH_ID = "examples.dispatch:sas_examples/Dispatch-v0"
dispatch: Any = import_module("examples.dispatch")


def test_dispatch_keeps_the_contract():
    sas_gym.check_env(gym.make(DISPATCH_ID))


def test_dispatch_rewards_near_drivers():
    """The rule of the nearest driver is far better than anyone who is free."""
    assert dispatch.play(None, 20).mean() < 0
    assert dispatch.play(dispatch.nearest_driver, 20).mean() > 85


def test_dispatch_waits_for_a_driver():
    """With one driver time passes until they are free, so that someone always is."""
    env = dispatch.Dispatch(num_drivers=1)
    env.reset(seed=0)
    for _ in range(10):
        _, _, _, _, info = env.step(0)
        assert info["action_mask"].tolist() == [1]


def test_dispatch_keeps_drivers_busy():
    """A driver is busy for as long as the two ways take, and refuses orders."""
    env = dispatch.Dispatch(num_drivers=3)
    env.reset(seed=0)
    way = np.linalg.norm(env.drivers[1] - env.pickup)
    trip = np.linalg.norm(env.destination - env.pickup)
    arrival = env.destination
    obs, reward, *_ = env.step(1)
    assert reward == pytest.approx(2 - 4.5 * way)
    assert env.hours_left[1] == pytest.approx(way + trip - 1 / 30)
    np.testing.assert_allclose(obs["drivers"].reshape(-1, 2)[1], arrival, rtol=1e-6)
    assert env.action_masks().tolist() == [True, False, True]
    with pytest.raises(ValueError, match="driver 1 is busy"):
        env.step(1)
