"""The vector environment against SyncVectorEnv, in every mode of autoreset."""

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import (
    FilterObservation,
    NormalizeReward,
    RecordEpisodeStatistics,
)

from sas_gym import SPECS, SanFrancisco, SASVectorEnv
from sas_gym.action_sets import Markov, PerEpisode
from sas_gym.masks import sample_actions

pytestmark = pytest.mark.slow

SEEDS = [11, 5, 5, 2**40, 0]
WITH_WAITING: dict[str, Any] = {"start": 9, "wait_cost": 0.1}
# Neither start nor dynamics are random here, so that the sets are all that is drawn.
ONLY_SETS_ARE_RANDOM: list[tuple[str, dict[str, Any]]] = [
    ("SAS/SanFrancisco-v0", {"start": 9, "availability": 0.5}),
    ("SAS/SanFrancisco-v0", WITH_WAITING | {"action_sets": PerEpisode(0.7)}),
    ("SAS/SanFrancisco-v0", WITH_WAITING | {"action_sets": Markov(0.5, 0.2)}),
    ("SAS/BayArea-v0", {"start": 9}),
    ("SAS/ThetaTwoTheta-v0", {"availability": 0.6}),
]

every_mode = pytest.mark.parametrize("mode", list(AutoresetMode))


def make_both(env_id, num_envs, mode, **options):
    native = gym.make_vec(env_id, num_envs, autoreset_mode=mode.value, **options)
    sync = gym.make_vec(
        env_id,
        num_envs,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": mode},
        **options,
    )
    return native, sync


def play(env, num_steps, seed):
    """Return all that an environment returns, and how many episodes have ended."""
    rng, num_ended = np.random.default_rng(0), 0
    obs, infos = env.reset(seed=seed)
    returned: list[Any] = [(obs, infos)]
    for _ in range(num_steps):
        returned.append(env.step(sample_actions(obs["action_mask"], rng)))
        obs, _, terminated, truncated, _ = returned[-1]
        done = terminated | truncated
        num_ended += done.sum()
        if done.any() and env.metadata["autoreset_mode"] is AutoresetMode.DISABLED:
            obs, _ = env.reset(options={"reset_mask": done})
            returned.append(obs)
    return returned, num_ended


@every_mode
@pytest.mark.parametrize("env_id", [spec.id for spec in SPECS])
def test_environment_of_one_replays_sync_vector_env(env_id, mode):
    native, sync = make_both(env_id, 1, mode)
    assert native.metadata["autoreset_mode"] is mode
    returned, num_ended = play(native, 300, seed=3)
    assert num_ended >= 1
    assert data_equivalence(returned, play(sync, 300, seed=3)[0], exact=True)


@every_mode
@pytest.mark.parametrize(("env_id", "options"), ONLY_SETS_ARE_RANDOM)
@pytest.mark.parametrize("size", ["few", "many"])
def test_seeded_environments_replay_sync_vector_env(env_id, options, size, mode):
    """Few environments are hashed steps ahead, many are not."""
    # The fewer actions, the more environments are hashed ahead.
    many = list(range(130 if "ThetaTwoTheta" in env_id else 60))
    seeds = SEEDS if size == "few" else many
    native, sync = make_both(env_id, len(seeds), mode, **options)
    num_steps = 100 if len(seeds) == len(SEEDS) else 25
    returned, num_ended = play(native, num_steps, seeds)
    assert num_ended >= 3
    assert data_equivalence(returned, play(sync, num_steps, seeds)[0], exact=True)


@pytest.mark.parametrize("env_id", [spec.id for spec in SPECS])
def test_observations_are_copies(env_id):
    """Neither later resets nor a user who writes into them change anything."""
    env: Any
    twin: Any
    env, twin = (gym.make_vec(env_id, 3) for _ in range(2))
    for made in (env, twin):
        made.reset(seed=0)
    obs, *_ = env.step(env.unwrapped.action_masks().argmax(axis=1))
    kept = copy.deepcopy(obs)
    env.reset(options={"reset_mask": np.array([True, True, False])})
    assert data_equivalence(obs, kept, exact=True)
    obs, _ = env.reset(seed=0)
    for values in obs.values():
        values[:] = 0
    twin.reset(seed=0)
    actions = twin.unwrapped.action_masks().argmax(axis=1)
    assert data_equivalence(env.step(actions), twin.step(actions), exact=True)


class ObservedAsItIs(SanFrancisco):
    """A task that returns its very states as observations."""

    def observe(self, state):
        return state


def test_observations_stay_where_tasks_return_their_states():
    env: Any = SASVectorEnv(
        ObservedAsItIs(), 4, max_episode_steps=3, autoreset_mode="NextStep"
    )
    obs, _ = env.reset(seed=0)
    for step in range(30):
        kept = copy.deepcopy(obs)
        following, *_ = env.step(obs["action_mask"].argmax(axis=1))
        assert data_equivalence(obs, kept, exact=True)
        if step % 7 == 0:
            obs, kept = following, copy.deepcopy(following)
            some = np.array([True, False, True, False])
            following, _ = env.reset(options={"reset_mask": some})
            assert data_equivalence(obs, kept, exact=True)
        obs = following


def test_list_of_seeds_replays_dynamics():
    env: Any = gym.make_vec("SAS/Maze-v0", 5)
    first, second, other = (
        play(env, 50, seeds)[0] for seeds in (SEEDS, SEEDS, [11, 5, 5, 2**40, 1])
    )
    assert data_equivalence(first, second, exact=True)
    assert not data_equivalence(first, other, exact=True)


def test_list_of_one_seed_is_that_seed():
    env: Any = gym.make_vec("SAS/Maze-v0", 1)
    of_list, of_number = (play(env, 100, seed)[0] for seed in ([7], 7))
    assert data_equivalence(of_list, of_number, exact=True)


def test_unavailable_actions_of_ended_environments_are_ignored():
    """In the step that only restarts them, as with SyncVectorEnv."""
    env: Any = gym.make_vec(
        "SAS/ThetaTwoTheta-v0",
        2,
        max_episode_steps=1,
        action_sets=[1.0, 0.0],
        autoreset_mode=AutoresetMode.NEXT_STEP,
    )
    env.reset(seed=0)
    assert env.step([0, 0])[3].all()
    _, reward, terminated, truncated, _ = env.step([1, 1])
    assert not np.stack([reward, terminated, truncated]).any()
    env.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(ValueError, match=r"in environments \[0, 1\]: 1 is not in"):
        env.step([1, 1])


def test_some_ended_others_unavailable_are_named():
    env: Any = gym.make_vec(
        "SAS/ThetaTwoTheta-v0",
        3,
        max_episode_steps=2,
        action_sets=[1.0, 0.0],
        autoreset_mode=AutoresetMode.NEXT_STEP,
    )
    env.reset(seed=0)
    env.step([0, 0, 0])
    env.reset(options={"reset_mask": np.array([False, True, True])})
    _, _, _, truncated, _ = env.step([0, 0, 0])
    assert truncated.tolist() == [True, False, False]
    with pytest.raises(ValueError, match=r"in environments \[2\]: 1 is not in"):
        env.step([1, 0, 1])


def test_disabled_autoreset_asks_for_reset():
    env: Any = gym.make_vec(
        "SAS/ThetaTwoTheta-v0",
        3,
        max_episode_steps=2,
        action_sets=1.0,
        autoreset_mode=AutoresetMode.DISABLED,
    )
    env.reset(seed=0)
    env.step([0, 0, 0])
    env.reset(options={"reset_mask": np.array([False, True, False])})
    assert env.step([0, 0, 0])[3].tolist() == [True, False, True]
    with pytest.raises(gym.error.ResetNeeded, match=r"environments \[0, 2\] have end"):
        env.step([0, 0, 0])
    env.reset(options={"reset_mask": np.array([True, False, False])})
    with pytest.raises(gym.error.ResetNeeded, match=r"environments \[2\] have ended"):
        env.step([0, 0, 0])
    env.reset(options={"reset_mask": np.array([False, False, True])})
    assert env.step([0, 0, 0])[3].tolist() == [False, True, False]


def test_gymnasium_vector_wrappers_take_next_step():
    env: Any = gym.make_vec(
        "SAS/Maze-v0", 3, max_episode_steps=4, autoreset_mode=AutoresetMode.NEXT_STEP
    )
    wrapped: Any = RecordEpisodeStatistics(FilterObservation(env, ["observation"]))
    obs, infos = wrapped.reset(seed=0)
    for _ in range(4):
        obs, *_, infos = wrapped.step(infos["action_mask"].argmax(axis=1))
    assert list(obs) == ["observation"]
    assert infos["episode"]["l"].tolist() == [4, 4, 4]


@pytest.mark.skipif(
    tuple(map(int, gym.__version__.split(".")[:2])) < (1, 4),
    reason="these wrappers are wrong with SAME_STEP before Gymnasium 1.4",
)
def test_gymnasium_statistics_take_same_step():
    """Every step counts, the first one of an episode too, and for its episode only."""
    env: Any = gym.make_vec("SAS/Maze-v0", 3, max_episode_steps=4)
    normalized = NormalizeReward(RecordEpisodeStatistics(env), gamma=1.0)
    _, infos = normalized.reset(seed=0)
    for step in range(1, 13):
        *_, infos = normalized.step(infos["action_mask"].argmax(axis=1))
        assert ("episode" in infos) == (step % 4 == 0)
        if step % 4 == 0:
            assert infos["episode"]["l"].tolist() == [4, 4, 4]
    assert round(normalized.return_rms.count) == 3 * 12
    assert normalized.accumulated_reward.tolist() == [0.0, 0.0, 0.0]
