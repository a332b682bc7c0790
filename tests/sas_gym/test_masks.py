"""One rule for masks from outside: right shape, ones and zeros, never empty."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from sas_gym import SASEnv, SASVectorEnv, Task
from sas_gym.action_sets import Independent
from sas_gym.masks import (
    MASK_KEY,
    check_masks,
    discrete_actions,
    each_with_mask,
    mask_sizes,
)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64, np.float32])
@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 4, 3)])
def test_check_masks_returns_new_booleans(dtype, shape):
    expected = np.resize([True, False, True], shape)
    masks = expected.astype(dtype)
    checked = check_masks(masks, 3, batch_shape=shape[:-1])
    np.testing.assert_array_equal(checked, expected)
    assert checked.dtype == np.bool_
    checked[...] = False
    np.testing.assert_array_equal(masks.astype(bool), expected)


@pytest.mark.parametrize("value", [0.5, np.nan, np.inf, 256, 2, -1, "1", None])
def test_check_masks_values_error(value):
    message = "obs must be 1 where an action is available and 0 elsewhere; got"
    for masks in ([value, 1, 0], [[1, 1, 1], [value, 1, 0]]):
        with pytest.raises(ValueError, match=message):
            check_masks(masks, 3, "obs")


@pytest.mark.parametrize(
    ("shape", "batch_shape", "expected"),
    [
        ((4,), None, r"\(\.\.\., 3\)"),
        ((), None, r"\(\.\.\., 3\)"),
        ((1, 3), (), r"\(3,\)"),
        ((3,), (1,), r"\(1, 3\)"),
        ((2, 3), (4,), r"\(4, 3\)"),
    ],
)
def test_check_masks_shape_error(shape, batch_shape, expected):
    with pytest.raises(ValueError, match=f"one entry per action, shape {expected}; g"):
        check_masks(np.ones(shape), 3, batch_shape=batch_shape)


@pytest.mark.parametrize("masks", [[0, 0, 0], [[1, 0, 0], [0, 0, 0]]])
def test_check_masks_empty_error(masks):
    with pytest.raises(ValueError, match="the action mask offers no action: draw the"):
        check_masks(masks, 3)


def test_check_masks_fills_empty_final_masks():
    checked = check_masks([[0, 0, 0], [0, 1, 0]], 3, final=True)
    np.testing.assert_array_equal(checked, [[1, 1, 1], [0, 1, 0]])


@pytest.mark.parametrize(
    ("space", "sizes"),
    [
        (spaces.Discrete(3), [3]),
        (spaces.MultiDiscrete([2, 3]), [2, 3]),
        (spaces.MultiBinary(2), [2, 2]),
    ],
)
def test_mask_sizes_by_dimension(space, sizes):
    assert mask_sizes(space) == sizes


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 1, (2,)),
        spaces.MultiDiscrete(np.full((2, 2), 3)),
        spaces.MultiBinary((2, 2)),
    ],
)
def test_mask_sizes_error(space):
    with pytest.raises(ValueError, match="of one axis, got"):
        mask_sizes(space)


def test_check_masks_by_dimension():
    """Each of several dimensions needs a value, and gets all if it is final."""
    masks = np.array([[1, 0, 0, 1, 0], [1, 1, 0, 0, 0]])
    with pytest.raises(ValueError, match="offers no action"):
        check_masks(masks, [2, 3])
    np.testing.assert_array_equal(
        check_masks(masks, [2, 3], final=True), [[1, 0, 0, 1, 0], [1, 1, 1, 1, 1]]
    )


def test_discrete_actions_error():
    with pytest.raises(ValueError, match=r"Discrete action space, got MultiDiscrete"):
        discrete_actions(gym.spaces.MultiDiscrete([2, 2]))


class DictObservations(Task):
    """A task whose observations are dicts: a place and a speed."""

    num_actions = 2
    observation_space = gym.spaces.Dict(
        place=gym.spaces.Discrete(9), speed=gym.spaces.Box(0, 1, (2,), np.float32)
    )
    action_sets = Independent(0.8)

    def reset(self, num_envs, rng):
        return np.zeros(num_envs, np.int64)

    def transition(self, state, action, rng):
        return state + 1, np.zeros(len(state)), state == 7

    def observe(self, state):
        return {"place": state, "speed": np.zeros((len(state), 2), np.float32)}


@pytest.mark.parametrize("mask_in_observation", [True, False])
def test_dict_observations_keep_keys(mask_in_observation):
    """The mask goes beside the keys, in the single and in the vector environment."""
    options = {"mask_in_observation": mask_in_observation, "on_unavailable": "repair"}
    env = SASEnv(DictObservations(), **options)
    vector_env = SASVectorEnv(DictObservations(), 1, **options)
    obs, _ = env.reset(seed=0)
    batch, _ = vector_env.reset(seed=0)
    assert (MASK_KEY in obs) == mask_in_observation
    terminated = False
    while not terminated:
        assert obs in env.observation_space
        assert batch in vector_env.observation_space
        obs, _, terminated, _, _ = env.step(0)
        batch, *_, infos = vector_env.step([0])
    final = infos["final_obs"][0]
    assert final in env.observation_space
    assert final["place"] == obs["place"] == 8


@pytest.mark.parametrize("observations", [np.zeros(3), {"x": np.zeros(3)}])
def test_each_with_mask_pairs_one_to_one(observations):
    masks = np.eye(3, dtype=bool)
    rows = each_with_mask(observations, masks)
    assert [row[MASK_KEY].argmax() for row in rows] == [0, 1, 2]
    with pytest.raises(ValueError, match=r"is (shorter|longer) than"):
        each_with_mask(observations, masks[:2])
