"""Returns are those of the stated episodes, and the random policy is uniform."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit
from helpers.statistical import assert_frequencies, assert_mean

from sas_gym import (
    RandomPolicy,
    SanFrancisco,
    SASEnv,
    SASVectorEnv,
    Task,
    episode_returns,
)
from sas_gym.action_sets import Independent


class Countdown(Task):
    """An episode lasts 1 to 5 steps, each rewarded by 1."""

    num_states, num_actions = 6, 2
    observation_space = gym.spaces.Discrete(6)
    action_sets = Independent([1.0, 0.5])

    def reset(self, num_envs, rng):
        return 1 + (rng.random(num_envs) * 5).astype(np.int64)

    def transition(self, state, action, rng):
        return state - 1, np.ones(len(state)), state == 1


def returns_by_hand(env, num_steps, seed):
    """Return the returns of every environment's episodes, in order."""
    finished: list[list[float]] = [[] for _ in range(env.num_envs)]
    running = [0.0] * env.num_envs
    env.reset(seed=seed)
    for _ in range(num_steps):
        _, reward, terminated, _, _ = env.step(np.zeros(env.num_envs, np.int64))
        for i in range(env.num_envs):
            running[i] += reward[i]
            if terminated[i]:
                finished[i].append(running[i])
                running[i] = 0.0
    return finished


@pytest.mark.parametrize(("num_episodes", "each"), [(1, 1), (4, 1), (5, 2), (40, 10)])
def test_episode_returns_are_first_episodes_of_each_environment(num_episodes, each):
    """All of them, as counted by hand, none twice; rounded up to whole environments."""
    env = SASVectorEnv(Countdown(), 4)
    returns = episode_returns(
        env, lambda *_: np.zeros(4, np.int64), num_episodes, seed=3
    )
    by_hand = returns_by_hand(env, num_steps=100, seed=3)
    expected = np.concatenate([episodes[:each] for episodes in by_hand])
    assert len(returns) == 4 * each
    np.testing.assert_array_equal(np.sort(returns), np.sort(expected))


def test_episode_returns_do_not_favour_short_episodes():
    """The first 1000 episodes to end would have a mean below 2 instead of 3."""
    env = SASVectorEnv(Countdown(), 1000)
    assert_mean(episode_returns(env, RandomPolicy(), 1000, seed=0), 3.0)


def test_episode_returns_replay_with_seed():
    env = gym.make_vec("SAS/Recommender-v0", num_envs=8)
    first, second, other = (
        episode_returns(env, RandomPolicy(seed=0), 40, seed) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


def test_random_policy_is_uniform_over_available_actions():
    mask = np.tile(np.array([1, 0, 1, 1], np.int8), (20_000, 1))
    actions = RandomPolicy(seed=0)(None, mask)
    counts = np.bincount(actions, minlength=4)
    assert_frequencies(counts, np.array([1, 0, 1, 1]) / 3)


def test_random_policy_predicts_one_action_or_a_batch():
    env = SASEnv(Countdown(), action_sets=[1.0, 0.0])
    obs, _ = env.reset(seed=0)
    action, state = RandomPolicy().predict(obs)
    assert action == 0
    assert state is None
    env.step(action)
    batch, _ = SASVectorEnv(Countdown(), 3, action_sets=[0.0, 1.0]).reset(seed=0)
    np.testing.assert_array_equal(RandomPolicy().predict(batch)[0], [1, 1, 1])


def test_episodes_of_an_id_a_task_and_an_environment():
    """All are the episodes of one vector environment of 100 copies."""
    map_id = "SAS/SanFrancisco-v0"
    expected = episode_returns(gym.make_vec(map_id, 100), RandomPolicy(), 300, seed=5)
    task = SanFrancisco()
    limited = TimeLimit(SASEnv(task), 30)
    for problem in (
        map_id,
        gym.make(map_id),
        limited,
        task.tabular().replace(horizon=30),
    ):
        returns = episode_returns(problem, RandomPolicy(), 300, seed=5)
        assert len(returns) == 300
        if not isinstance(problem, Task):
            np.testing.assert_array_equal(returns, expected)
    assert len(episode_returns(map_id, RandomPolicy(), 7, seed=5)) == 7


def test_settings_of_an_environment_are_kept_in_copies():
    env = gym.make(
        "SAS/SanFrancisco-v0",
        availability=0.2,
        mask_in_observation=False,
        on_unavailable="repair",
        unavailable_penalty=100.0,
    )

    def blind(observation, mask):
        assert observation.shape == (len(mask),)
        return np.zeros(len(mask), int)

    assert episode_returns(env, blind, 100, seed=0).mean() < -300
    game = gym.make("SAS/ShutTheBox-v0", objective="score")
    assert episode_returns(game, RandomPolicy(), 100, seed=0).mean() < -10


def test_what_cannot_be_played_in_copies_is_named():
    with pytest.raises(ValueError, match=r"Countdown might never end: write SASVector"):
        episode_returns(Countdown(), RandomPolicy(), 10, seed=0)
    scaled = gym.wrappers.TransformReward(
        gym.make("SAS/Maze-v0"), lambda r: 2 * float(r)
    )
    with pytest.raises(ValueError, match="TransformReward wraps a single environment"):
        episode_returns(scaled, RandomPolicy(), 10, seed=0)
    wrong: list[Any] = [gym.make("CartPole-v1"), "CartPole-v1", None]
    for env in wrong:
        with pytest.raises(ValueError, match="expected a vector environment, an id of"):
            episode_returns(env, RandomPolicy(), 10, seed=0)
