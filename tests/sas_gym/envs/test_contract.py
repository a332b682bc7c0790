"""The contract that every registered environment keeps."""

import copy
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check_env
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode
from helpers.playing import available_by, first_action, play, play_vector, random_action
from sb3_contrib import MaskablePPO
from stable_baselines3.common.env_checker import check_env as sb3_check_env

import sas_gym
from sas_gym import SPECS
from sas_gym.action_sets import Markov, PerEpisode

IDS = [spec.id for spec in SPECS]
# In these the action sets have the same distribution in every state, so that the sets
# themselves, and not only the draws behind them, are the same for every policy.
SAME_SETS_IN_EVERY_STATE = ["SAS/Maze-v0", "SAS/Recommender-v0", "SAS/ThetaTwoTheta-v0"]

TAKES_ACTION_SETS = [each for each in IDS if available_by(each, 1.0)]

every_id = pytest.mark.parametrize("env_id", IDS)


@every_id
def test_gymnasium_check_env_passes(env_id):
    gymnasium_check_env(gym.make(env_id, on_unavailable="repair").unwrapped)


@every_id
@pytest.mark.parametrize("mask_in_observation", [True, False])
def test_sb3_check_env_passes(env_id, mask_in_observation):
    options = {"mask_in_observation": mask_in_observation, "on_unavailable": "repair"}
    sb3_check_env(gym.make(env_id, **options))


@every_id
def test_own_check_env_passes(env_id):
    sas_gym.check_env(gym.make(env_id))


@every_id
def test_maskable_ppo_trains(env_id):
    """An unavailable action would raise an error in the environment."""
    env = gym.make(env_id)
    model = MaskablePPO("MultiInputPolicy", env, n_steps=64, batch_size=64, seed=0)
    model.learn(128)
    assert model.num_timesteps == 128


@every_id
def test_mask_channels_agree(env_id):
    """All three return the one set of the step, and reading them draws nothing."""
    env: Any = gym.make(env_id)
    rng = np.random.default_rng(0)
    obs, info = env.reset(seed=0)
    for _ in range(200):
        mask = info["action_mask"]
        assert mask.dtype == obs["action_mask"].dtype == np.int8
        assert mask.any()
        for _ in range(2):
            np.testing.assert_array_equal(mask, obs["action_mask"])
            np.testing.assert_array_equal(mask, env.unwrapped.action_masks())
        assert env.unwrapped.action_masks().dtype == np.bool_
        obs, _, terminated, truncated, info = env.step(random_action(mask, rng))
        if terminated or truncated:
            assert info["action_mask"].any()
            np.testing.assert_array_equal(info["action_mask"], obs["action_mask"])
            obs, info = env.reset()


@every_id
def test_returned_masks_are_copies(env_id):
    env: Any = gym.make(env_id).unwrapped
    twin: Any = gym.make(env_id).unwrapped
    obs, info = env.reset(seed=0)
    twin.reset(seed=0)
    for mask in (obs["action_mask"], info["action_mask"], env.action_masks()):
        mask[:] = 0
    np.testing.assert_array_equal(env.action_masks(), twin.action_masks())


@every_id
def test_seed_replays_episode(env_id):
    assert data_equivalence(
        play(gym.make(env_id), 100), play(gym.make(env_id), 100), exact=True
    )
    assert not data_equivalence(
        play(gym.make(env_id), 100), play(gym.make(env_id), 100, seed=1), exact=True
    )


@every_id
def test_seed_replays_vector_env(env_id):
    first, second = (gym.make_vec(env_id, num_envs=7) for _ in range(2))
    assert data_equivalence(
        play_vector(first, 100), play_vector(second, 100), exact=True
    )


@every_id
@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))]
)
def test_copies_continue_alike(env_id, copied):
    env = gym.make(env_id)
    play(env, 20)
    twin = copied(env)
    for one, other in zip(play_on(env), play_on(twin), strict=True):
        assert data_equivalence(one, other, exact=True)


def play_on(env):
    env.reset()
    rng = np.random.default_rng(1)
    for _ in range(20):
        returned = env.step(random_action(env.unwrapped.action_masks(), rng))
        yield returned
        if returned[2] or returned[3]:
            yield env.reset()


@every_id
@pytest.mark.parametrize("mask_in_observation", [True, False])
def test_vector_env_of_one_equals_single_env(env_id, mask_in_observation):
    """Through SyncVectorEnv, all that both return over many episodes is the same."""
    options = {"num_envs": 1, "mask_in_observation": mask_in_observation}
    native = gym.make_vec(env_id, vectorization_mode="vector_entry_point", **options)
    single = gym.make_vec(
        env_id,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
        **options,
    )
    assert native.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert native.observation_space == single.observation_space
    assert native.action_space == single.action_space
    returned = play_vector(native, 300)
    assert any("final_obs" in step[-1] for step in returned)
    assert data_equivalence(returned, play_vector(single, 300), exact=True)


@every_id
def test_vector_observations_are_in_their_space(env_id):
    env: Any = gym.make_vec(env_id, num_envs=5)
    for obs, *rest in play_vector(env, 60):
        assert obs in env.observation_space
        infos = rest[-1]
        assert infos["action_mask"].shape == (5, env.single_action_space.n)
        np.testing.assert_array_equal(infos["action_mask"], obs["action_mask"])
        for final in infos.get("final_obs", []):
            assert final is None or final in env.single_observation_space


@pytest.mark.parametrize("env_id", SAME_SETS_IN_EVERY_STATE)
def test_sets_do_not_depend_on_policy(env_id):
    """Two policies get the same set at the same step of the same episode."""

    def sets(policy):
        table, episode, step = {}, 0, 0
        for returned in play(gym.make(env_id), 400, policy=policy):
            table[episode, step] = tuple(returned[-1]["action_mask"])
            step += 1
            if len(returned) == 5 and (returned[2] or returned[3]):
                episode, step = episode + 1, 0
        return table

    first, second = sets(first_action), sets(random_action)
    shared = first.keys() & second.keys()
    assert len(shared) > 100
    assert all(first[key] == second[key] for key in shared)
    assert len(set(first.values())) > 1


@every_id
def test_mask_in_observation_false_is_bare(env_id):
    env: Any = gym.make(env_id)
    bare = gym.make(env_id, mask_in_observation=False)
    assert bare.observation_space == env.observation_space["observation"]
    for one, other in zip(play(env, 50), play(bare, 50), strict=True):
        assert data_equivalence(one[0]["observation"], other[0], exact=True)
        assert data_equivalence(one[1:], other[1:], exact=True)


@every_id
def test_invalid_action_error(env_id):
    env: Any = gym.make(env_id, disable_env_checker=True)
    env.reset(seed=0)
    num_actions = env.action_space.n
    for action in (-1, num_actions):
        with pytest.raises(ValueError, match=f"action {action} is out of range"):
            env.step(action)
    for action in (0.0, "left", None, np.array([0.5])):
        with pytest.raises(ValueError, match="an action must be an integer, got"):
            env.step(action)


@every_id
def test_invalid_vector_actions_error(env_id):
    env: Any = gym.make_vec(env_id, num_envs=3)
    _, infos = env.reset(seed=0)
    good = infos["action_mask"].argmax(axis=1)
    for wrong in (-1, env.single_action_space.n):
        with pytest.raises(ValueError, match=r"out of range in environments \[1\]"):
            env.step(np.array([good[0], wrong, good[2]]))
    for actions in (good[:2], good.astype(float), good[None]):
        with pytest.raises(ValueError, match="must be 3 integers, one per environment"):
            env.step(actions)


@every_id
def test_reset_needed_before_first_episode(env_id):
    env: Any = gym.make(env_id).unwrapped
    vector_env: Any = gym.make_vec(env_id, num_envs=2)
    calls = [env.action_masks, lambda: env.step(0), lambda: env.state]
    calls += [vector_env.action_masks, lambda: vector_env.step([0, 0])]
    for call in calls:
        with pytest.raises(gym.error.ResetNeeded, match=r"call reset\(\)"):
            call()


def test_reset_needed_after_termination():
    env = gym.make("SAS/SanFrancisco-v0", start=1, availability=1.0).unwrapped
    env.reset(seed=0)
    assert env.step(0)[2]
    with pytest.raises(gym.error.ResetNeeded, match=r"call reset\(\) before step"):
        env.step(0)
    env.reset()
    assert env.step(0)[2]


@pytest.mark.parametrize("env_id", TAKES_ACTION_SETS)
@pytest.mark.parametrize("kind", ["per-episode", "Markov", "independent"])
def test_action_sets_replace_the_tasks_own(env_id, kind):
    options: dict[str, Any] = {"wait_cost": 0.1} if "SanFrancisco" in env_id else {}
    task = gym.make(env_id, **options).unwrapped.task  # type: ignore[attr-defined]
    # Of actions that are things of their own, the first never fails.
    off = 0.3 if task.things else np.where(np.arange(task.num_actions), 0.3, 0.0)
    action_sets: Any = {
        "per-episode": PerEpisode(0.5),
        "Markov": Markov(0.3, off),
        "independent": 0.3,
    }[kind]
    env: Any = gym.make(env_id, action_sets=action_sets, **options)
    assert env.unwrapped.action_sets is not env.unwrapped.task.action_sets
    masks = [returned[-1]["action_mask"] for returned in play(env, 50)]
    assert all(mask.any() for mask in masks)
    own = [returned[-1]["action_mask"] for returned in play(gym.make(env_id), 50)]
    assert not data_equivalence(masks, own)


@every_id
def test_availability_together_with_action_sets_error(env_id):
    for make in (gym.make, gym.make_vec):
        with pytest.raises(ValueError, match=r"\['availability'\] and action_sets are"):
            make(env_id, availability=0.5, action_sets=0.5)
