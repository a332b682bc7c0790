"""What is saved and loaded continues as if it had never stopped."""

from io import BytesIO
from typing import Any

import numpy as np
import pytest
import torch as th
from helpers.agents import (
    all_agents,
    assert_differ,
    assert_same,
    episodic_agents,
    every_agent,
    everything_learned,
    make_agent,
    make_maze,
    maze_observations,
    replay_agents,
    twin_of,
)

from sas_agents import SASNPG, SASPG, SASQ, VecMaskInObservation, make_vec_env


@all_agents
def test_set_parameters(agent):
    model = make_agent(agent).learn(100)
    other = make_agent(agent, seed=5)
    assert_differ(everything_learned(model), everything_learned(other))
    other.set_parameters(model.get_parameters())
    assert_same(model.get_parameters()["policy"], other.get_parameters()["policy"])
    obs = maze_observations()
    np.testing.assert_array_equal(
        model.predict(obs, deterministic=True)[0],
        other.predict(obs, deterministic=True)[0],
    )


@every_agent
def test_set_parameters_rejects_unknown_and_missing(agent):
    model = make_agent(agent)
    with pytest.raises(ValueError, match="wings"):
        model.set_parameters({"wings": {}})
    parameters = model.get_parameters()
    del parameters["policy.optimizer"]
    with pytest.raises(ValueError, match="do not match"):
        model.set_parameters(parameters, exact_match=True)


@all_agents
@pytest.mark.parametrize("policy", ["LinearPolicy", "MlpPolicy"])
def test_loaded_agent_predicts_the_same(agent, policy, tmp_path):
    model = make_agent(agent, policy=policy).learn(100)
    model.save(tmp_path / "model")
    loaded = agent.load(tmp_path / "model")
    assert_same(everything_learned(model), everything_learned(loaded))
    obs = maze_observations()
    np.testing.assert_array_equal(
        model.predict(obs, deterministic=True)[0],
        loaded.predict(obs, deterministic=True)[0],
    )
    if agent in (SASPG, SASNPG):
        # The state of the generator that draws the actions is saved, too.
        np.testing.assert_array_equal(model.predict(obs)[0], loaded.predict(obs)[0])


@episodic_agents
@pytest.mark.parametrize("policy", ["LinearPolicy", "MlpPolicy"])
def test_interrupted_training_is_identical(agent, policy, tmp_path):
    """Learn in one call, in two, and in two with saving and loading between them."""
    # A rollout has 4 steps of 2 environments.
    rollout = 8
    models = [make_agent(agent, policy=policy) for _ in range(2)]
    whole = models[0].learn(6 * rollout)
    half = models[1].learn(3 * rollout)
    half.save(tmp_path / "half")
    env = twin_of(half.env)
    half.learn(3 * rollout, reset_num_timesteps=False)
    # With a seed, SB3 would seed the environment again; it would also reset it.
    loaded = agent.load(tmp_path / "half", env=env, seed=None, force_reset=False)
    assert_differ(everything_learned(loaded), everything_learned(half))
    loaded.learn(3 * rollout, reset_num_timesteps=False)
    assert whole.num_timesteps == loaded.num_timesteps == 6 * rollout
    assert_same(everything_learned(whole), everything_learned(half))
    assert_same(everything_learned(whole), everything_learned(loaded))


def test_interrupted_q_learning_is_identical(tmp_path):
    """The buffer is saved and loaded; SB3 leaves NumPy's random state to the user."""
    model = make_agent(SASQ).learn(100)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    env, state = twin_of(model.env), np.random.get_state()  # noqa: NPY002  # SB3's
    model.learn(100, reset_num_timesteps=False)
    loaded = SASQ.load(tmp_path / "model", env=env, seed=None, force_reset=False)
    loaded.load_replay_buffer(tmp_path / "buffer")
    np.random.set_state(state)  # noqa: NPY002  # SB3's
    assert_differ(everything_learned(loaded), everything_learned(model))
    loaded.learn(100, reset_num_timesteps=False)
    assert_same(everything_learned(model), everything_learned(loaded))


@all_agents
def test_training_continues_after_load(agent, tmp_path):
    """A loaded agent learns on with a new environment, and counts its steps on."""
    model = make_agent(agent).learn(60)
    model.save(tmp_path / "model")
    loaded = agent.load(tmp_path / "model", env=make_maze(seed=1))
    assert_same(everything_learned(model), everything_learned(loaded))
    loaded.learn(60, reset_num_timesteps=False)
    assert_differ(everything_learned(model), everything_learned(loaded))
    assert loaded.num_timesteps >= model.num_timesteps + 60


@all_agents
@pytest.mark.parametrize("policy", ["LinearPolicy", "MlpPolicy"])
def test_policy_saved_alone(agent, policy, tmp_path):
    model = make_agent(agent, policy=policy).learn(100)
    model.policy.save(tmp_path / "policy")
    loaded = type(model.policy).load(tmp_path / "policy")
    obs = maze_observations()
    np.testing.assert_array_equal(
        model.policy.predict(obs, deterministic=True)[0],
        loaded.predict(obs, deterministic=True)[0],
    )


@every_agent
def test_load_rejects_environment_with_other_spaces(agent, tmp_path):
    make_agent(agent).save(tmp_path / "model")
    env = make_vec_env("SAS/ThetaTwoTheta-v0", 2)
    with pytest.raises(ValueError, match="spaces do not match"):
        agent.load(tmp_path / "model", env=env)


@every_agent
def test_set_env_with_masks_elsewhere(agent):
    model = make_agent(agent).learn(60)
    before = everything_learned(model)
    model.set_env(make_maze(mask_in_observation=False))
    model.learn(60)
    assert isinstance(model.env, VecMaskInObservation)
    assert_differ(before, everything_learned(model))


@all_agents
def test_seed_replays_training(agent):
    learned = [
        everything_learned(make_agent(agent, seed=seed).learn(150))
        for seed in (3, 3, 4)
    ]
    assert_same(learned[0], learned[1])
    assert_differ(learned[0], learned[2])


@every_agent
def test_parameters_are_tensors_of_numbers_only(agent):
    """Code that maps over them, an average of two agents say, must not break."""
    state = make_agent(agent).policy.state_dict()
    assert all(tensor.is_floating_point() for tensor in state.values())


@every_agent
def test_set_parameters_leaves_sampling_stream_alone(agent):
    model, twin, other = (make_agent(agent, seed=seed) for seed in (0, 0, 1))
    model.set_parameters(other.get_parameters())
    twin.policy.load_state_dict(other.policy.state_dict())
    obs = maze_observations()
    np.testing.assert_array_equal(model.predict(obs)[0], twin.predict(obs)[0])


@every_agent
def test_loaded_agent_draws_on(agent, tmp_path):
    model = make_agent(agent)
    obs = maze_observations()
    model.predict(obs)
    model.save(tmp_path / "model")
    loaded = agent.load(tmp_path / "model")
    np.testing.assert_array_equal(model.predict(obs)[0], loaded.predict(obs)[0])


@every_agent
@pytest.mark.parametrize("name", ["model", "model.zip", "deep/model.v2"])
def test_interrupted_save_keeps_the_old_one(agent, name, tmp_path, monkeypatch):
    model = make_agent(agent)
    model.save(tmp_path / name)
    (saved,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    before = saved.read_bytes()

    def die(*_args: Any, **_kwargs: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(th, "save", die)
    with pytest.raises(KeyboardInterrupt):
        model.save(tmp_path / name)
    assert saved.read_bytes() == before
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [saved]


@replay_agents
@pytest.mark.parametrize("name", ["buffer", "buffer.pickle"])
def test_interrupted_save_keeps_the_old_replay_buffer(
    agent, name, tmp_path, monkeypatch
):
    model = make_agent(agent).learn(40)
    model.save_replay_buffer(tmp_path / name)
    (saved,) = tmp_path.iterdir()
    before = saved.read_bytes()

    def die(_buffer: Any, file: Any, **_options: Any) -> None:
        file.write(b"half of it")
        raise KeyboardInterrupt

    monkeypatch.setattr("stable_baselines3.common.save_util.pickle.dump", die)
    with pytest.raises(KeyboardInterrupt):
        model.save_replay_buffer(tmp_path / name)
    assert saved.read_bytes() == before
    assert list(tmp_path.iterdir()) == [saved]


def test_replay_buffer_goes_into_an_open_file():
    model, file = make_agent(SASQ).learn(40), BytesIO()
    model.save_replay_buffer(file)
    file.seek(0)
    size = model.replay_buffer.size()
    model.load_replay_buffer(file)
    assert model.replay_buffer.size() == size > 0


def progress_of(model: Any, num_steps: int, **options: Any) -> dict[int, float]:
    """Learn and return what schedules are given, by the number of steps.

    Before its first update Stable-Baselines3 keeps the progress of an earlier training.
    """
    found: dict[int, float] = {}
    start = model.num_timesteps if options else 0

    def note(_locals: Any, _globals: Any) -> bool:
        if model.num_timesteps > start + 32:
            found[model.num_timesteps] = model._current_progress_remaining
        return True

    model.learn(num_steps, callback=note, **options)
    return found


@all_agents
def test_schedules_of_a_continued_training(agent, tmp_path):
    """As `docs/saving.md` says: only a checkpoint that is loaded follows the plan."""
    whole = progress_of(make_agent(agent), 192)
    model = make_agent(agent)
    first = progress_of(model, 96)
    model.save(tmp_path / "checkpoint")
    again = progress_of(model, 96)
    assert again == first
    second = progress_of(model, 96, reset_num_timesteps=False)
    last = {steps: left for steps, left in whole.items() if steps > 96 + 32}
    assert second.keys() == last.keys()
    assert second == pytest.approx(last)
    assert max(first.values()) == pytest.approx(1, abs=0.4)
    assert max(second.values()) == pytest.approx(0.5, abs=0.2)
    loaded = agent.load(tmp_path / "checkpoint", env=make_maze(seed=1))
    rest = 192 - loaded.num_timesteps
    assert progress_of(loaded, rest, reset_num_timesteps=False) == pytest.approx(last)
