"""Masks are found under any name, and names that are ignored are told."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers.boards import NAMED, SIZE, Board, InKey, InList, from_list

from sas_gym import MaskInObservation, RepairAction, StochasticActionSets

named = pytest.mark.parametrize(("board", "mask"), NAMED)
FOUND = ["valid_mask", "valid_moves", "valid_action_mask", "get_available_actions"]
by_name = pytest.mark.parametrize(
    ("board", "name"),
    [(board, name) for (board, _), name in zip(NAMED, FOUND, strict=True)],
)


def played(env: Any, num_steps: int = 200) -> Any:
    """Yield the observation, the info and the inner environment of random play."""
    rng = np.random.default_rng(0)
    obs, info = env.reset(seed=0)
    yield obs, info, env.unwrapped
    for _ in range(num_steps):
        action = rng.choice(np.flatnonzero(env.action_masks()))
        obs, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            obs, info = env.reset()
        yield obs, info, env.unwrapped


@named
def test_named_mask_goes_to_the_three_places(board, mask):
    env: Any = MaskInObservation(board(), mask=mask)
    assert sorted(env.observation_space) == ["action_mask", "fields"]
    for obs, info, inner in played(env):
        assert env.observation_space.contains(obs)
        for found in (obs["action_mask"], info["action_mask"], env.action_masks()):
            np.testing.assert_array_equal(found, ~inner.full)


@named
def test_stochastic_sets_are_drawn_within_a_named_mask(board, mask):
    env: Any = StochasticActionSets(board(), 0.6, mask=mask)
    assert sorted(env.observation_space) == ["action_mask", "fields"]
    sizes = set()
    for obs, _, inner in played(env):
        assert sorted(obs) == ["action_mask", "fields"]
        drawn = obs["action_mask"].astype(bool)
        assert drawn.any()
        assert not (drawn & inner.full).any()
        sizes.add(drawn.sum() / (~inner.full).sum())
    assert min(sizes) < 0.5
    assert max(sizes) == 1


@named
def test_repair_takes_a_named_mask_and_leaves_the_observation(board, mask):
    env = RepairAction(board(), mask=mask)
    assert env.observation_space == board.observation_space
    env.reset(seed=0)
    total = 0.0
    for _ in range(SIZE):
        _, reward, terminated, _, _ = env.step(0)
        total += float(reward)
        if terminated:
            break
    assert terminated
    assert total >= SIZE - 1


@by_name
def test_ignored_names_are_warned_of(board, name):
    """The sets are drawn from all actions, illegal ones too: not silently."""
    env = StochasticActionSets(board(), 0.9)
    with pytest.warns(UserWarning, match=f"sound like a mask: '{name}'.*pass it"):
        env.reset(seed=0)
    env.reset(seed=0)  # once is enough: pytest turns warnings into errors


@by_name
def test_missing_mask_error_names_what_sounds_like_one(board, name):
    message = rf"no action mask: .*sound like a mask: '{name}'.*mask='{name}'"
    with pytest.raises(ValueError, match=message):
        MaskInObservation(board()).reset()


def test_environments_without_masks_are_not_warned_of():
    for env_id in ("CartPole-v1", "FrozenLake-v1", "CliffWalking-v1"):
        StochasticActionSets(gym.make(env_id), 0.9).reset(seed=0)
    StochasticActionSets(Board(), 0.9).reset(seed=0)


def test_names_that_are_no_masks_are_not_taken_for_one():
    class Helpful(Board):
        def is_valid_action(self, action):
            return not self.full[action]

        def num_available_actions(self):
            return 3

        def invalid_moves(self):
            return self.full

        def sample_valid_action(self):
            return 0

    StochasticActionSets(Helpful(), 0.9).reset(seed=0)


@pytest.mark.parametrize("wrapper", [MaskInObservation, StochasticActionSets])
def test_wrong_name_error_lists_what_there_is(wrapper):
    message = r"no mask 'legal_mask': .*\['fields', 'valid_mask'\].* no method legal_ma"
    with pytest.raises(ValueError, match=message):
        wrapper(InKey(), mask="legal_mask").reset()


def test_list_of_actions_error_shows_the_function_to_write():
    with pytest.raises(ValueError, match=r"numpy\.isin\(range\(4\), actions\)"):
        MaskInObservation(InList(), mask="get_available_actions").reset(seed=0)


def test_method_with_arguments_error_shows_the_function_to_write():
    class Asks(Board):
        def legal_moves(self, fields):
            return fields == 0

    with pytest.raises(ValueError, match=r"mask=lambda env: env.unwrapped.legal_moves"):
        MaskInObservation(Asks(), mask="legal_moves")
    function = MaskInObservation(
        Asks(), mask=lambda env: env.unwrapped.legal_moves(env.unwrapped.full)
    )
    assert function.reset(seed=0)[0]["action_mask"].sum() == SIZE - 1


def test_attribute_is_a_mask_too():
    class Keeps(Board):
        def info(self):
            self.legal_moves = self.legal()
            return {}

    env = MaskInObservation(Keeps(), mask="legal_moves")
    for obs, _, inner in played(env, 20):
        np.testing.assert_array_equal(obs["action_mask"], ~inner.full)


def test_usual_places_are_not_read_where_a_name_is_given():
    class Both(InKey):
        def info(self):
            return {"action_mask": np.ones(SIZE, np.int8)}

    env = MaskInObservation(Both(), mask="valid_mask")
    assert env.reset(seed=0)[1]["action_mask"].sum() == SIZE - 1


def test_spec_makes_the_wrapper_again():
    make: Any = InList
    gym.register("test_mask_names/Board-v0", make)
    env: Any = MaskInObservation(
        gym.make("test_mask_names/Board-v0", disable_env_checker=True), mask=from_list
    )
    again: Any = gym.make(env.spec, disable_env_checker=True)
    obs, _ = again.reset(seed=0)
    np.testing.assert_array_equal(obs["action_mask"], ~again.unwrapped.full)


def test_empty_final_mask_becomes_full():
    env = MaskInObservation(InKey(), mask="valid_mask")
    obs, _ = env.reset(seed=0)
    terminated = False
    while not terminated:
        obs, _, terminated, _, _ = env.step(obs["action_mask"].argmax())
    assert obs["action_mask"].tolist() == [1] * SIZE
