"""Claims of Stable-Baselines3's own tests that no other test here makes.

`docs/peers.md` names the peer's test that each test stands for.
"""

import base64
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces
from helpers.agents import (
    EPISODE_STEPS,
    REPLAY_AGENTS,
    SHORT,
    Masked,
    Recorder,
    all_agents,
    assert_same,
    every_agent,
    everything_learned,
    make_agent,
    make_maze,
    maze_observations,
    replay_agents,
)
from stable_baselines3.common.callbacks import CheckpointCallback, EvalCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.type_aliases import TrainFreq, TrainFrequencyUnit
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecMonitor,
    VecNormalize,
    VecTransposeImage,
    is_vecenv_wrapped,
)

from sas_gym.masks import MASK_KEY


@all_agents
def test_attributes_are_left_out_of_files_or_kept(agent, tmp_path):
    model = make_agent(agent)
    model.save(tmp_path / "model", exclude=["gamma", "_n_updates"], include=["gamma"])
    with zipfile.ZipFile(tmp_path / "model.zip") as archive:
        saved = json.loads(archive.read("data"))
    assert saved["gamma"] == model.gamma
    assert "_n_updates" not in saved
    assert agent.load(tmp_path / "model").gamma == model.gamma


@all_agents
@pytest.mark.parametrize("name", ["model", "model.zip", "model.pth", "a/b/model"])
@pytest.mark.parametrize("kind", [str, lambda path: path], ids=["str", "Path"])
def test_files_of_any_name(agent, name, kind, tmp_path):
    model = make_agent(agent)
    model.save(kind(tmp_path / name))
    loaded = agent.load(kind(tmp_path / name))
    assert_same(everything_learned(model), everything_learned(loaded))
    (path,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert path.name == ("model.pth" if name == "model.pth" else "model.zip")


@all_agents
def test_open_file_holds_a_model(agent):
    model, file = make_agent(agent), io.BytesIO()
    model.save(file)
    file.seek(0)
    assert_same(everything_learned(model), everything_learned(agent.load(file)))


def with_pickle(path: Path, content: bytes) -> Path:
    """Return a copy of a model's file with another pickle of its schedule."""
    changed = path.with_stem("changed")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(changed, "w") as target:
        for name in source.namelist():
            part = source.read(name)
            if name == "data":
                data = json.loads(part)
                pickled = base64.b64encode(content).decode()
                data["lr_schedule"][":serialized:"] = pickled
                part = json.dumps(data).encode()
            target.writestr(name, part)
    return changed


@all_agents
def test_value_that_cannot_be_unpickled_is_named_or_replaced(agent, tmp_path):
    """A schedule of another Python, or no pickle at all."""
    make_agent(agent).save(tmp_path / "model.zip")
    path = with_pickle(tmp_path / "model.zip", b"cmath\nno_such_name\n.")
    with pytest.warns(UserWarning, match="Could not deserialize object lr_schedule"):
        agent.load(path)
    agent.load(path, custom_objects={"lr_schedule": lambda _: 0.1})
    path = with_pickle(tmp_path / "model.zip", b"?")
    with pytest.raises(
        ValueError, match=r"changed\.zip cannot be unpickled .*objects="
    ):
        agent.load(path)
    agent.load(path, custom_objects={"lr_schedule": lambda _: 0.1})


@replay_agents
@pytest.mark.parametrize(
    "train_freq",
    [4, (4, "step"), (1, "episode"), TrainFreq(4, TrainFrequencyUnit.STEP)],
)
def test_train_freq_is_counted_in_steps_or_episodes(agent, train_freq, tmp_path):
    options = {"learning_starts": 0, "gradient_steps": 1, "train_freq": train_freq}
    model = make_agent(agent, make_maze(1), **options)
    model.learn(4 * EPISODE_STEPS)
    by_episode = isinstance(train_freq, tuple) and train_freq[1] == "episode"
    assert model._n_updates == (4 if by_episode else EPISODE_STEPS)
    model.save(tmp_path / "model")
    loaded = agent.load(tmp_path / "model", env=make_maze(1))
    assert loaded.train_freq == model.train_freq
    loaded.learn(2 * EPISODE_STEPS, reset_num_timesteps=False)
    assert loaded._n_updates > model._n_updates


@replay_agents
@pytest.mark.parametrize("train_freq", ["four", ("4", "step"), (4, "minutes")])
def test_wrong_train_freq_is_an_error(agent, train_freq):
    with pytest.raises(ValueError, match="`train_freq` must be"):
        make_agent(agent, train_freq=train_freq)


@replay_agents
def test_targets_are_updated_at_the_same_steps_after_loading(agent, tmp_path):
    model = make_agent(agent, target_update_interval=32).learn(96)
    model.save(tmp_path / "model")
    loaded = agent.load(tmp_path / "model", env=make_maze(seed=1))
    assert loaded.target_update_interval == 32
    assert loaded._n_calls == model._n_calls == 48


@replay_agents
def test_predictions_explore_as_often_as_the_rate_says(agent):
    """Unless they are deterministic; 5 standard errors."""
    model = make_agent(agent).learn(100)
    one = {key: values[:1] for key, values in maze_observations(1).items()}
    obs = {key: np.repeat(values, 4_000, 0) for key, values in one.items()}
    best = model.predict(one, deterministic=True)[0][0]
    num_available = one[MASK_KEY].sum()
    for rate in (0.0, 0.3, 1.0):
        model.exploration_rate = rate
        assert (model.predict(obs, deterministic=True)[0] == best).all()
        others = np.mean(model.predict(obs)[0] != best)
        expected = rate * (1 - 1 / num_available)
        assert abs(others - expected) <= 5 * np.sqrt(expected * (1 - expected) / 4_000)


class MyDiscrete(spaces.Discrete):
    """A space of a user's."""


class MyBox(spaces.Box):
    """Likewise."""


@all_agents
@pytest.mark.parametrize("space", [MyBox(0, 1, (2,)), MyDiscrete(5)])
def test_spaces_may_be_subclassed(agent, space):
    env = Masked(space, MyDiscrete(3))
    model = make_agent(agent, env).learn(40)
    assert model.predict(model.env.reset())[0].shape == (1,)


@every_agent
def test_evaluation_logs_the_success_rate(agent):
    recorder = Recorder()
    env = DummyVecEnv([lambda: Masked(spaces.Box(0, 1, (2,)))])
    evaluation = EvalCallback(VecMonitor(env), eval_freq=20, verbose=0, warn=False)
    model = make_agent(agent, Masked(spaces.Box(0, 1, (2,))))
    model.set_logger(Logger(None, [recorder]))
    model.learn(60, callback=evaluation)
    (*_, last) = [row for row in recorder.rows if "eval/success_rate" in row]
    assert 0 <= last["eval/success_rate"] <= 1
    assert last["eval/mean_ep_length"] == EPISODE_STEPS


@all_agents
def test_checkpoints_hold_buffer_and_normalisation(agent, tmp_path):
    env = VecNormalize(make_maze(), norm_obs_keys=["observation"])
    save = CheckpointCallback(
        20, tmp_path, "m", save_replay_buffer=True, save_vecnormalize=True
    )
    model = make_agent(agent, env).learn(60, callback=save)
    first = min(tmp_path.glob("m_*_steps.zip"), key=lambda path: len(path.name))
    (statistics, *_) = tmp_path.glob("m_vecnormalize_*_steps.pkl")
    normalized = VecNormalize.load(statistics, make_maze(seed=1))
    loaded = agent.load(first, env=normalized)
    if agent in REPLAY_AGENTS:
        (buffer, *_) = tmp_path.glob("m_replay_buffer_*_steps.pkl")
        loaded.load_replay_buffer(buffer)
        assert loaded.replay_buffer.size() > 0
    assert loaded.learn(40).num_timesteps > 0
    assert model.num_timesteps > loaded._num_timesteps_at_start


@every_agent
def test_evaluation_without_the_trainings_normalisation_is_an_error(agent):
    model = make_agent(agent, VecNormalize(make_maze(), norm_obs_keys=["observation"]))
    evaluation = EvalCallback(make_maze(seed=1), eval_freq=5, verbose=0, warn=False)
    with (
        pytest.warns(UserWarning, match="not of the same type"),
        pytest.raises(AssertionError, match="not being wrapped the same"),
    ):
        model.learn(40, callback=evaluation)


SMALL = {"features_extractor_kwargs": {"features_dim": 8}}


class Picture(Masked):
    """Images with the channels first or last."""

    def __init__(self, channels_first: bool, dtype: type = np.uint8) -> None:
        shape = (3, 36, 36) if channels_first else (36, 36, 3)
        high = 255 if dtype is np.uint8 else 1
        super().__init__(spaces.Box(0, high, shape, dtype))


@all_agents
@pytest.mark.parametrize("channels_first", [True, False])
def test_channels_of_images_come_first_or_last(agent, channels_first, tmp_path):
    kwargs = SHORT[agent].get("policy_kwargs", {}) | SMALL
    env = Picture(channels_first)
    model = make_agent(agent, env, "CnnPolicy", policy_kwargs=kwargs).learn(30)
    is_transposed = is_vecenv_wrapped(model.env, VecTransposeImage)
    assert is_transposed == (not channels_first)
    model.save(tmp_path / "model")
    loaded = agent.load(tmp_path / "model", env=Picture(channels_first))
    assert loaded.learn(30).num_timesteps >= 30
    obs, info = Picture(channels_first).reset(seed=0)
    actions = [
        one.predict(obs, deterministic=True, action_masks=info[MASK_KEY])[0]
        for one in (model, agent.load(tmp_path / "model"))
    ]
    assert actions[0] == actions[1]


@every_agent
def test_images_of_floats_are_taken_as_they_are(agent):
    kwargs = {
        "normalize_images": False,
        "features_extractor_kwargs": {"features_dim": 8, "normalized_image": True},
    }
    env = Picture(True, np.float32)
    make_agent(agent, env, "CnnPolicy", policy_kwargs=kwargs).learn(40)
    with pytest.raises(AssertionError, match="only with images"):
        make_agent(agent, Picture(True, np.float32), "CnnPolicy")
