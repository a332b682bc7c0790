"""What holds for every registered task."""

import copy
import importlib
import subprocess
import sys
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check_env
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode
from sb3_contrib import MaskablePPO
from stable_baselines3.common.env_checker import check_env as sb3_check_env

import sas_gym
from sas_gym import SPECS, ThetaTwoTheta
from sas_gym.masks import sample_actions

IDS = [task.id for task in SPECS]
# In these the law of the sets is the same in every state, so that the sets themselves,
# and not only the draws behind them, are the same for every policy.
SAME_LAW_IN_EVERY_STATE = ["SAS/Maze-v0", "SAS/Recommender-v0", "SAS/ThetaTwoTheta-v0"]
SECTIONS = [
    "Description",
    "Action Space",
    "Action Sets",
    "Observation Space",
    "Rewards",
    "Starting State",
    "Episode End",
    "Arguments",
    "Optimal Value",
    "References",
    "Version History",
]

every_id = pytest.mark.parametrize("env_id", IDS)


def random_action(mask, rng):
    return sample_actions(mask[None], rng)[0]


def first_action(mask, _):
    return np.flatnonzero(mask)[0]


def play(env, num_steps, seed=0, policy=random_action):
    """Return everything that an environment tells over many steps and resets."""
    rng = np.random.default_rng(seed)
    told = [env.reset(seed=seed)]
    for _ in range(num_steps):
        action = policy(told[-1][-1]["action_mask"], rng)
        told.append(env.step(action))
        if told[-1][2] or told[-1][3]:
            told.append(env.reset())
    return told


def play_vector(env, num_steps, seed=0):
    rng = np.random.default_rng(seed)
    told = [env.reset(seed=seed)]
    for _ in range(num_steps):
        told.append(env.step(sample_actions(told[-1][-1]["action_mask"], rng)))
    return told


@every_id
def test_gymnasiums_checker_has_nothing_to_say(env_id):
    gymnasium_check_env(gym.make(env_id, on_unavailable="noop").unwrapped)


@every_id
@pytest.mark.parametrize("mask_in_observation", [True, False])
def test_sb3s_checker_has_nothing_to_say(env_id, mask_in_observation):
    options = {"mask_in_observation": mask_in_observation, "on_unavailable": "noop"}
    sb3_check_env(gym.make(env_id, **options))


@every_id
def test_our_own_checker_has_nothing_to_say(env_id):
    sas_gym.check_env(gym.make(env_id))


@every_id
def test_maskable_ppo_trains_unchanged(env_id):
    """An unavailable action would raise an error in the environment."""
    env = gym.make(env_id)
    model = MaskablePPO("MultiInputPolicy", env, n_steps=64, batch_size=64, seed=0)
    model.learn(128)
    assert model.num_timesteps == 128


@every_id
def test_the_three_channels_tell_one_set_and_reading_draws_nothing(env_id):
    env = gym.make(env_id)
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
def test_what_was_told_may_be_changed_without_harm(env_id):
    env, twin = gym.make(env_id), gym.make(env_id)
    obs, info = env.reset(seed=0)
    twin.reset(seed=0)
    for mask in (obs["action_mask"], info["action_mask"], env.unwrapped.action_masks()):
        mask[:] = 0
    np.testing.assert_array_equal(
        env.unwrapped.action_masks(), twin.unwrapped.action_masks()
    )


@every_id
def test_a_seed_replays_an_episode(env_id):
    assert data_equivalence(
        play(gym.make(env_id), 100), play(gym.make(env_id), 100), exact=True
    )
    assert not data_equivalence(
        play(gym.make(env_id), 100), play(gym.make(env_id), 100, seed=1), exact=True
    )


@every_id
def test_a_seed_replays_a_vector_environment(env_id):
    first, second = (gym.make_vec(env_id, num_envs=7) for _ in range(2))
    assert data_equivalence(
        play_vector(first, 100), play_vector(second, 100), exact=True
    )


@every_id
def test_a_copy_of_an_environment_plays_on_alike(env_id):
    env = gym.make(env_id)
    play(env, 20)
    twin = copy.deepcopy(env)
    for one, other in zip(play_on(env), play_on(twin), strict=True):
        assert data_equivalence(one, other, exact=True)


def play_on(env):
    env.reset()
    rng = np.random.default_rng(1)
    for _ in range(20):
        told = env.step(random_action(env.unwrapped.action_masks(), rng))
        yield told
        if told[2] or told[3]:
            yield env.reset()


@every_id
@pytest.mark.parametrize("mask_in_observation", [True, False])
def test_one_lane_replays_the_single_environment(env_id, mask_in_observation):
    """Episode by episode, through SyncVectorEnv: all that both tell is the same."""
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
    lanes, envs = play_vector(native, 300), play_vector(single, 300)
    assert any("final_obs" in told[-1] for told in lanes)
    assert data_equivalence(lanes, envs, exact=True)


@every_id
def test_observations_of_many_lanes_are_in_their_space(env_id):
    env = gym.make_vec(env_id, num_envs=5)
    for obs, *rest in play_vector(env, 60):
        assert obs in env.observation_space
        infos = rest[-1]
        assert infos["action_mask"].shape == (5, env.single_action_space.n)
        np.testing.assert_array_equal(infos["action_mask"], obs["action_mask"])
        for final in infos.get("final_obs", []):
            assert final is None or final in env.single_observation_space


@pytest.mark.parametrize("env_id", SAME_LAW_IN_EVERY_STATE)
def test_two_policies_meet_the_same_sets(env_id):
    """At one step of one episode, though their episodes differ in length."""

    def sets(policy):
        table, episode, step = {}, 0, 0
        for told in play(gym.make(env_id), 400, policy=policy):
            table[episode, step] = tuple(told[-1]["action_mask"])
            step += 1
            if len(told) == 5 and (told[2] or told[3]):
                episode, step = episode + 1, 0
        return table

    first, second = sets(first_action), sets(random_action)
    shared = first.keys() & second.keys()
    assert len(shared) > 100
    assert all(first[key] == second[key] for key in shared)
    assert len(set(first.values())) > 1


@every_id
def test_without_the_mask_the_observation_is_bare(env_id):
    env, bare = gym.make(env_id), gym.make(env_id, mask_in_observation=False)
    assert bare.observation_space == env.observation_space["observation"]
    for told, bare_told in zip(play(env, 50), play(bare, 50), strict=True):
        assert data_equivalence(told[0]["observation"], bare_told[0], exact=True)
        assert data_equivalence(told[1:], bare_told[1:], exact=True)


def unavailable(env, seed=0):
    """Reset until some action is unavailable, and return it."""
    for attempt in range(100):
        _, info = env.reset(seed=seed + attempt)
        closed = np.flatnonzero(info["action_mask"] == 0)
        if closed.size:
            return closed[0]
    raise AssertionError("everything is always available")


@every_id
def test_an_unavailable_action_is_refused_and_changes_nothing(env_id):
    env = gym.make(env_id)
    action = unavailable(env)
    before, mask = copy.deepcopy(env.unwrapped.state), env.unwrapped.action_masks()
    with pytest.raises(ValueError, match=f"unavailable action: {action} is not in the"):
        env.step(action)
    np.testing.assert_array_equal(env.unwrapped.state, before)
    np.testing.assert_array_equal(env.unwrapped.action_masks(), mask)
    env.step(np.flatnonzero(mask)[0])


@every_id
def test_an_unavailable_action_may_be_a_noop_with_a_penalty(env_id):
    env = gym.make(env_id, on_unavailable="noop", unavailable_penalty=3.0)
    action = unavailable(env)
    before = copy.deepcopy(env.unwrapped.state)
    _, reward, terminated, truncated, _ = env.step(action)
    np.testing.assert_array_equal(env.unwrapped.state, before)
    assert reward == env.unwrapped.task.idle_reward - 3.0
    assert (terminated, truncated) == (False, False)


@every_id
def test_a_refused_action_in_one_lane_leaves_the_other_lanes_alone(env_id):
    options = {"num_envs": 3, "action_sets": sas_gym.action_sets.Independent(0.5)}
    strict = gym.make_vec(env_id, **options)
    lenient = gym.make_vec(env_id, on_unavailable="noop", **options)
    for seed in range(20):
        _, infos = strict.reset(seed=seed)
        lenient.reset(seed=seed)
        mask = infos["action_mask"]
        allowed, blind = mask.argmax(axis=1), mask.argmax(axis=1)
        blind[0] = mask[0].argmin()
        for one, other in zip(strict.step(allowed), lenient.step(blind), strict=True):
            if isinstance(one, np.ndarray):
                np.testing.assert_array_equal(one[1:], other[1:])


@every_id
def test_wrong_actions_are_named(env_id):
    env = gym.make(env_id, disable_env_checker=True)
    env.reset(seed=0)
    num_actions = env.action_space.n
    for action in (-1, num_actions):
        with pytest.raises(ValueError, match=f"action {action} is out of range"):
            env.step(action)
    for action in (0.0, "left", None, np.array([0.5])):
        with pytest.raises(ValueError, match="an action must be an integer, got"):
            env.step(action)


@every_id
def test_wrong_actions_of_lanes_are_named(env_id):
    env = gym.make_vec(env_id, num_envs=3)
    _, infos = env.reset(seed=0)
    good = infos["action_mask"].argmax(axis=1)
    for wrong in (-1, env.single_action_space.n):
        with pytest.raises(ValueError, match=r"out of range in lanes \[1\]"):
            env.step(np.array([good[0], wrong, good[2]]))
    for actions in (good[:2], good.astype(float), good[None]):
        with pytest.raises(
            ValueError, match="must be 3 integers, one a lane; got shape"
        ):
            env.step(actions)


def test_unavailable_actions_of_lanes_are_named():
    env = gym.make_vec("SAS/ThetaTwoTheta-v0", num_envs=4, action_sets=[1.0, 0.0])
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"in lanes \[1, 3\]: 1 is not in .* \[0\]"):
        env.step(np.array([0, 1, 0, 1]))


@every_id
def test_nothing_can_be_done_before_reset_or_after_the_end(env_id):
    env = gym.make(env_id).unwrapped
    for call in (env.action_masks, lambda: env.step(0)):
        with pytest.raises(gym.error.ResetNeeded, match=r"call reset\(\)"):
            call()


def test_a_terminated_episode_cannot_be_played_on():
    env = gym.make("SAS/SanFrancisco-v0", start=1, availability=1.0).unwrapped
    env.reset(seed=0)
    assert env.step(0)[2]
    with pytest.raises(gym.error.ResetNeeded, match=r"call reset\(\) before step"):
        env.step(0)


@every_id
def test_any_law_can_take_the_place_of_the_tasks_own(env_id):
    for law in (
        sas_gym.action_sets.PerEpisode(0.5),
        sas_gym.action_sets.Markov(0.3, 0.3),
        0.3,
    ):
        for told in play(gym.make(env_id, action_sets=law), 50):
            assert told[-1]["action_mask"].any()


@every_id
def test_a_tasks_page_has_every_section(env_id):
    (name,) = (task.task for task in SPECS if task.id == env_id)
    module, class_name = name.split(":")
    page = getattr(importlib.import_module(module), class_name).__doc__
    headings = [line.strip()[3:] for line in page.splitlines() if "## " in line]
    assert headings == SECTIONS


@every_id
def test_a_spec_survives_json(env_id):
    spec = gym.make(env_id, availability=0.6).spec
    again = gym.make(gym.envs.registration.EnvSpec.from_json(spec.to_json()))
    assert data_equivalence(
        play(gym.make(env_id, availability=0.6), 20), play(again, 20), exact=True
    )


def test_a_users_own_task_can_be_registered():
    sas_gym.register(
        "Test/Theta-v0",
        "sas_gym.tasks._theta_two_theta:ThetaTwoTheta",
        max_episode_steps=3,
        availability=1.0,
    )
    env = gym.make_vec("Test/Theta-v0", num_envs=2)
    told = play_vector(env, 3)
    assert told[-1][3].all()
    assert all(step[-1]["action_mask"].all() for step in told)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_unavailable": "ignore"}, "must be 'raise' or 'noop', got 'ignore'"),
        ({"unavailable_penalty": 1.0}, "needs on_unavailable='noop'"),
        ({"action_sets": [0.5, 0.5]}, "availability must have 5 columns"),
        ({"availability": 1.5}, r"availability must be numbers in \[0, 1\]"),
        ({"render_mode": "ansi"}, "render_mode must be one of"),
    ],
)
def test_wrong_options_are_named(options, message):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Gymnasium itself warns of the render mode.
        with pytest.raises(ValueError, match=message):
            gym.make("SAS/SanFrancisco-v0", **options)


def test_wrong_options_of_a_vector_environment_are_named():
    for options in ({"num_envs": 0}, {"num_envs": 1, "max_episode_steps": 0}):
        with pytest.raises(ValueError, match="must be at least 1, got 0"):
            gym.make_vec("SAS/Maze-v0", **options)


def test_what_makes_no_task_is_named():
    with pytest.raises(TypeError, match=r"makes no Task, but \{'availability'"):
        sas_gym.SASEnv(dict, availability=0.5)


def test_a_task_that_is_built_takes_no_more_arguments():
    with pytest.raises(TypeError, match=r"unexpected arguments \['availability'\]"):
        sas_gym.SASEnv(ThetaTwoTheta(), availability=0.5)


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_the_import_is_light():
    heavy = ["torch", "matplotlib", "pygame", "scipy", "networkx", "stable_baselines3"]
    code = f"import sas_gym, sys; print([m for m in {heavy} if m in sys.modules])"
    assert run_python(code).stdout.strip() == "[]"


def test_an_id_with_the_package_before_it_needs_no_import():
    code = "import gymnasium; print(gymnasium.make('sas_gym:SAS/Maze-v0').spec.id)"
    assert run_python(code).stdout.strip() == "SAS/Maze-v0"
