"""Any environment can be trained on: wrapped, in processes, its masks anywhere."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers.agents import (
    EPISODE_STEPS,
    TAXI,
    all_agents,
    assert_same,
    every_agent,
    everything_learned,
    make_agent,
    make_maze,
)
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    SubprocVecEnv,
    VecFrameStack,
    VecNormalize,
)

from sas_agents import SASQ, VecMaskInObservation, make_vec_env
from sas_gym.masks import MASK_KEY


@all_agents
def test_vec_normalize_leaves_mask_alone(agent):
    env = VecNormalize(make_maze(), norm_obs_keys=["observation"])
    model = make_agent(agent, env).learn(100)
    obs = env.reset()
    np.testing.assert_array_equal(obs[MASK_KEY], env.env_method("action_masks"))
    original = env.get_original_obs()
    np.testing.assert_array_equal(obs[MASK_KEY], original[MASK_KEY])
    assert not np.allclose(obs["observation"], original["observation"])
    assert model.get_vec_normalize_env() is env


def test_replay_buffer_keeps_masks():
    env = VecNormalize(make_maze(), norm_obs_keys=["observation"])
    model = make_agent(SASQ, env).learn(200)
    batch = model.replay_buffer.sample(50, env=env)
    for obs in (batch.observations, batch.next_observations):
        assert set(obs[MASK_KEY].unique().tolist()) == {0, 1}
        assert obs[MASK_KEY].any(dim=1).all()
    assert batch.observations[MASK_KEY].gather(1, batch.actions).all()


def test_mask_is_not_normalised_silently():
    with pytest.raises(ValueError, match="norm_obs_keys"):
        VecNormalize(make_maze())


@pytest.fixture(scope="module")
def processes():
    # With the package before it, as other processes have not imported it.
    env_id = "sas_gym:SAS/Maze-v0"
    options = {"max_episode_steps": EPISODE_STEPS}
    env = make_vec_env(env_id, 2, seed=0, env_kwargs=options, vec_env_cls=SubprocVecEnv)
    yield env
    env.close()


@all_agents
def test_processes_learn_the_same(agent, processes):
    """Subprocesses learn what environments in one process do."""
    assert isinstance(processes, SubprocVecEnv)

    def make():
        return gym.make("SAS/Maze-v0", max_episode_steps=EPISODE_STEPS)

    one, other = (
        everything_learned(make_agent(agent, env).learn(100))
        for env in (processes, DummyVecEnv([make, make]))
    )
    # SB3 rounds the rewards of the one, and not those of the other, to float32.
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-3, atol=1e-5)


@every_agent
def test_frames_stacked_below_masks(agent):
    env = VecFrameStack(make_maze(mask_in_observation=False), n_stack=2)
    # Rollouts of 8 steps are too small for the default rate with 256 features.
    options: Any = {"learning_rate": 1e-3}
    model = make_agent(agent, VecMaskInObservation(env), **options).learn(100)
    assert model.observation_space["observation"].shape == (4,)
    # The agent adds the wrapper itself.
    env = VecFrameStack(make_maze(mask_in_observation=False), 2)
    again = make_agent(agent, env, **options)
    assert_same(everything_learned(model), everything_learned(again.learn(100)))


@all_agents
def test_source_of_mask_makes_no_difference(agent):
    """In the observation or not, of vector or of single environments."""
    options: dict[str, Any] = {"max_episode_steps": EPISODE_STEPS}
    bare = options | {"mask_in_observation": False}
    learned = [
        everything_learned(make_agent(agent, env).learn(60))
        for env in (
            make_maze(1),
            make_maze(1, mask_in_observation=False),
            gym.make("SAS/Maze-v0", **options),
            gym.make("SAS/Maze-v0", **bare),
            DummyVecEnv([lambda: gym.make("SAS/Maze-v0", **bare)]),
        )
    ]
    for other in learned[1:]:
        assert_same(learned[0], other)


@every_agent
def test_id_as_environment(agent):
    model = make_agent(agent, "SAS/Maze-v0").learn(40)
    assert model.num_timesteps >= 40


@every_agent
def test_taxi_mask_from_info(agent):
    """Taxi's -10 is for what its mask excludes, so it is never met."""
    env = DummyVecEnv([lambda: gym.make(TAXI, max_episode_steps=20)] * 2)
    model = make_agent(agent, env).learn(200)
    obs = model.env.reset()
    for _ in range(50):
        actions, _ = model.predict(obs)
        assert np.take_along_axis(obs[MASK_KEY], actions[:, None], 1).all()
        obs, rewards, _, _ = model.env.step(actions)
        assert (rewards >= -1).all()
