"""Combinations of choices are numbered, and joint masks fit."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import sas_gym
from sas_gym import FlattenActions, MaskInObservation, StochasticActionSets


class Sea(gym.Env[Any, Any]):
    """Battleship: no field is shot at twice. The joint mask is in an own key."""

    metadata = {"render_modes": []}
    action_space: Any = spaces.MultiDiscrete([3, 4])
    key = "valid_mask"

    @property
    def observation_space(self) -> Any:  # type: ignore[override]  # by its key
        free = spaces.Box(0, 1, (3, 4), np.int8)
        return spaces.Dict({"shots": spaces.Discrete(13), self.key: free})

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.free = np.ones((3, 4), dtype=np.int8)
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        if not self.free[tuple(action)]:
            raise ValueError("shot at before")
        self.free[tuple(action)] = 0
        return self.observe(), float(action[1]), not self.free.any(), False, {}

    def observe(self) -> Any:
        return {"shots": np.int64(12 - self.free.sum()), self.key: self.free.copy()}


class UsualKey(Sea):
    key = "action_mask"


@pytest.mark.parametrize(("sea", "mask"), [(Sea, "valid_mask"), (UsualKey, None)])
def test_joint_mask_is_numbered_like_the_actions(sea, mask):
    env: Any = FlattenActions(sea(), mask=mask)
    assert env.action_space == spaces.Discrete(12)
    assert env.observation_space["action_mask"] == spaces.MultiBinary(12)
    obs, _ = env.reset(seed=0)
    taken: list[int] = []
    rng, terminated = np.random.default_rng(0), False
    while not terminated:
        assert env.observation_space.contains(obs)
        expected = np.isin(np.arange(12), taken, invert=True)
        np.testing.assert_array_equal(obs["action_mask"], expected)
        taken.append(rng.choice(np.flatnonzero(obs["action_mask"])))
        obs, reward, terminated, _, info = env.step(taken[-1])
        assert env.unwrapped.free[divmod(taken[-1], 4)] == 0
        assert reward == taken[-1] % 4
        np.testing.assert_array_equal(info["action_mask"], obs["action_mask"])
    assert sorted(taken) == list(range(12))


class Switches(gym.Env[Any, Any]):
    """Choices of three dimensions, with a mask per choice or none."""

    metadata = {"render_modes": []}
    observation_space = spaces.Discrete(1)

    def __init__(self, action_space: Any, mask: Any = None) -> None:
        self.action_space = action_space
        self.mask_of_choices = mask

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.int64(0), self.info()

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self.taken = action
        return np.int64(0), 0.0, False, True, self.info()

    def info(self) -> dict[str, Any]:
        mask = self.mask_of_choices
        return {} if mask is None else {"action_mask": np.array(mask, np.int8)}


def test_mask_per_choice_allows_what_all_choices_allow():
    mask = [1, 0, 1, 1, 1, 0, 1]
    env: Any = FlattenActions(Switches(spaces.MultiDiscrete([2, 3, 2]), mask))
    env.reset(seed=0)
    allowed = [
        bool(mask[i] and mask[2 + j] and mask[5 + k])
        for i in range(2)
        for j in range(3)
        for k in range(2)
    ]
    assert env.action_masks().tolist() == allowed


@pytest.mark.parametrize(
    ("space", "number", "expected"),
    [
        (spaces.MultiDiscrete([2, 3, 2]), 9, [1, 1, 1]),
        (spaces.MultiDiscrete([3, 4], start=[1, -2]), 6, [2, 0]),
        (spaces.MultiBinary(3), 6, [1, 1, 0]),
    ],
)
def test_numbers_reach_the_environment_as_choices(space, number, expected):
    env: Any = FlattenActions(Switches(space))
    env.reset(seed=0)
    assert env.action_masks().all()
    env.step(number)
    assert env.unwrapped.taken.tolist() == expected
    assert env.unwrapped.taken.dtype == space.dtype


@pytest.mark.parametrize("number", [-1, 12])
def test_number_out_of_range_is_an_error(number):
    env: Any = FlattenActions(Sea(), mask="valid_mask")
    env.reset(seed=0)
    with pytest.raises(ValueError, match="out of bounds"):
        env.step(number)


def test_stochastic_sets_over_combinations():
    env: Any = StochasticActionSets(FlattenActions(Sea(), mask="valid_mask"), 0.5)
    sas_gym.check_env(env, skip_render_check=True)


def test_checked_environment_passes():
    sas_gym.check_env(FlattenActions(Sea(), mask="valid_mask"), skip_render_check=True)


def test_joint_mask_without_numbers_names_the_wrapper():
    with pytest.raises(ValueError, match=r"joint mask of .*FlattenActions\(env\)"):
        MaskInObservation(Sea(), mask="valid_mask").reset()


def test_discrete_sets_over_choices_name_the_wrapper():
    with pytest.raises(ValueError, match=r"MultiDiscrete.*FlattenActions\(env\)"):
        StochasticActionSets(Sea(), 0.5)


def test_too_many_combinations_are_refused():
    with pytest.raises(ValueError, match=r"1,099,511,627,776 combinations.*MaskedPPO"):
        FlattenActions(Switches(spaces.MultiBinary(40)))


def test_ignored_name_is_warned_of():
    with pytest.warns(UserWarning, match="sound like a mask: 'valid_mask'"):
        FlattenActions(Sea()).reset(seed=0)
