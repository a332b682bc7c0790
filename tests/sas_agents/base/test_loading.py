"""Files of models: who saved them, what is wrong with them, and what they unpickle."""

import base64
import io
import json
import pickle
import zipfile
from typing import Any

import numpy as np
import pytest
import torch as th
from helpers.agents import (
    PAPER_AGENTS,
    REPLAY_AGENTS,
    SHORT,
    all_agents,
    make_agent,
    maze_observations,
)
from stable_baselines3 import DQN, PPO

from sas_agents import SASPG, SASQ, MaskedA2C, MaskedPPO, SASPolicy

# The classes and functions that a file may name, of NumPy 1 and 2.
PLAIN = {
    "collections": {"OrderedDict", "deque"},
    "gymnasium.spaces.box": {"Box"},
    "gymnasium.spaces.dict": {"Dict"},
    "gymnasium.spaces.discrete": {"Discrete"},
    "gymnasium.spaces.multi_binary": {"MultiBinary"},
    "numpy": {"dtype", "ndarray"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.numeric": {"_frombuffer"},
    "numpy.core.multiarray": {"_reconstruct", "scalar"},
    "numpy.core.numeric": {"_frombuffer"},
    "numpy.random._generator": {"Generator"},
    "numpy.random._pcg64": {"PCG64"},
    "numpy.random._pickle": {"__bit_generator_ctor", "__generator_ctor"},
    "numpy.random.bit_generator": {"SeedSequence", "__pyx_unpickle_SeedSequence"},
    "stable_baselines3.common.buffers": {"DictReplayBuffer", "DictRolloutBuffer"},
    "stable_baselines3.common.type_aliases": {"TrainFreq", "TrainFrequencyUnit"},
    "stable_baselines3.common.utils": {
        "ConstantSchedule",
        "FloatSchedule",
        "LinearSchedule",
    },
    "torch.optim.adam": {"Adam"},
    "torch.optim.rmsprop": {"RMSprop"},
}


class PlainUnpickler(pickle.Unpickler):
    """Loads listed names only."""

    def find_class(self, module: str, name: str) -> Any:
        if name not in PLAIN.get(module, ()):
            raise pickle.UnpicklingError(f"{module}.{name} is not listed")
        return super().find_class(module, name)


def pickled_values(path: Any) -> dict[str, bytes]:
    """Return the pickled values of a model's file by name."""
    with zipfile.ZipFile(path) as archive:
        data = json.loads(archive.read("data"))
    return {
        name: base64.b64decode(value[":serialized:"])
        for name, value in data.items()
        if isinstance(value, dict) and ":serialized:" in value
    }


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a folder with a file of every agent, by its name, and two of SB3's."""
    folder = tmp_path_factory.mktemp("saved")
    for agent in SHORT:
        make_agent(agent).learn(40).save(folder / agent.__name__)
    PPO("MlpPolicy", "CartPole-v1").save(folder / "PPO")
    DQN("MlpPolicy", "CartPole-v1", buffer_size=10).save(folder / "DQN")
    return folder


@all_agents
def test_file_of_another_agent_is_named(agent, saved):
    for other in SHORT:
        path = saved / other.__name__
        if other is agent:
            assert type(agent.load(path)) is agent
            continue
        message = f"was saved by {other.__name__}: write {other.__name__}.load"
        with pytest.raises(ValueError, match=message):
            agent.load(path)


@all_agents
def test_files_of_stable_baselines3_are_refused(agent, saved):
    for name in ("PPO", "DQN"):
        with pytest.raises(ValueError, match=f"{name} was not saved by an agent of"):
            agent.load(saved / f"{name}")


def test_extended_agents_share_files(saved, tmp_path):
    class Mine(SASPG):
        """A user's own."""

    Mine.load(saved / "SASPG").save(tmp_path / "mine")
    assert type(SASPG.load(tmp_path / "mine")) is SASPG
    with pytest.raises(ValueError, match=r"saved by SASPG: write SASPG\.load"):
        SASQ.load(tmp_path / "mine")


def test_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing"):
        SASPG.load(tmp_path / "nothing")


def test_open_file_of_another_agent_is_named(saved):
    with (saved / "SASPG.zip").open("rb") as file:
        with pytest.raises(ValueError, match="the open file was saved by SASPG"):
            SASQ.load(file)
        assert type(SASPG.load(file)) is SASPG


@pytest.mark.parametrize("agent", [SASPG, SASQ, MaskedPPO])
def test_damaged_file_gets_one_sentence(agent, saved, tmp_path):
    whole = (saved / f"{agent.__name__}.zip").read_bytes()
    text = b"these are not the weights"
    halves = whole[: len(whole) // 2], whole[len(whole) // 2 :]
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    path = tmp_path / "model.zip"
    for content in (b"", text, *halves, bytes(flipped)):
        path.write_bytes(content)
        for read in (agent.load, make_agent(agent).set_parameters):
            with pytest.raises(ValueError, match=r"model\.zip is damaged") as error:
                read(str(path))
            assert "\n" not in str(error.value)


def test_other_archives_get_one_sentence(tmp_path):
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        archive.writestr("beach.txt", "sand")
    th.save({"weight": th.zeros(2)}, tmp_path / "tensors.zip")
    make_agent(SASPG).policy.save(tmp_path / "policy.zip")
    for name in ("photos", "tensors", "policy"):
        with pytest.raises(ValueError, match=f"{name} is damaged, or it is no file"):
            SASPG.load(tmp_path / name)


def test_policy_is_recognised_by_its_name(saved):
    """So a file loads wherever the policy's class has moved to."""
    model = SASPG.load(saved / "SASPG", custom_objects={"gamma": 0.5})
    assert model.gamma == 0.5
    assert type(model.policy) is SASPG.policy_aliases["LinearPolicy"]
    assert model.origin["policy"] == "LinearPolicy"


def test_own_policy_class_is_loaded(tmp_path):
    class Own(SASPolicy):
        """A user's own."""

    make_agent(SASPG, policy=Own).save(tmp_path / "model")
    loaded = SASPG.load(tmp_path / "model")
    assert loaded.origin["policy"] is None
    assert type(loaded.policy).__name__ == "Own"


@all_agents
@pytest.mark.parametrize("policy", ["LinearPolicy", "MlpPolicy"])
def test_file_names_plain_types_and_public_classes_only(agent, policy, tmp_path):
    """But for the policy's class, which `load` takes by its name."""
    make_agent(agent, policy=policy).learn(60).save(tmp_path / "model.zip")
    values = pickled_values(tmp_path / "model.zip")
    assert "observation_space" in values
    for name, content in values.items():
        if name != "policy_class":
            PlainUnpickler(io.BytesIO(content)).load()


@all_agents
def test_restricted_unpickler_is_enough_to_load(agent, saved, monkeypatch):
    """As it may be in Stable-Baselines3 by default one day."""

    def load_plain(content: bytes) -> Any:
        return PlainUnpickler(io.BytesIO(content)).load()

    module = "stable_baselines3.common.save_util.cloudpickle.loads"
    monkeypatch.setattr(module, load_plain)
    model = agent.load(saved / agent.__name__)
    obs = maze_observations(5)
    expected, _ = agent.load(saved / agent.__name__).predict(obs, deterministic=True)
    np.testing.assert_array_equal(model.predict(obs, deterministic=True)[0], expected)


def test_restricted_unpickler_refuses_code():
    """The oracle of the two tests above can fail."""

    class Code:
        def __reduce__(self) -> Any:
            return (print, ("run",))

    with pytest.raises(pickle.UnpicklingError, match="print is not listed"):
        PlainUnpickler(io.BytesIO(pickle.dumps(Code()))).load()


@pytest.mark.parametrize("agent", [*PAPER_AGENTS, MaskedA2C])
def test_loaded_agents_learn_by_their_own_buffers(agent, saved):
    """The default classes of buffers are not saved."""
    fresh, loaded = make_agent(agent), agent.load(saved / agent.__name__)
    if agent in REPLAY_AGENTS:
        assert loaded.replay_buffer_class is fresh.replay_buffer_class
    else:
        assert loaded.rollout_buffer_class is fresh.rollout_buffer_class
