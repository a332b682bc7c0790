"""The committed model files of every version load, predict as then, and learn on.

Where a test fails for a version that is not released yet, `helpers/saved_models.py`
says how to write its files again.
"""

import json
import zipfile
from typing import Any

import pytest
from helpers.agents import (
    SHORT,
    assert_differ,
    everything_learned,
    make_agent,
)
from helpers.saved_models import MAP, cases, predicted, saved_files

import sas_agents
import sas_gym
from sas_agents import SASPG, make_vec_env

every_file = pytest.mark.parametrize(
    "path", saved_files(), ids=lambda path: f"{path.parent.name}-{path.stem}"
)


def agent_of(path: Any) -> Any:
    return getattr(sas_agents, path.stem.partition("-")[0])


def test_every_agent_has_files():
    for folder in {path.parent for path in saved_files()}:
        names = {path.stem for path in folder.glob("*.zip")}
        assert names == {f"{agent.__name__}-{policy}" for agent, policy in cases()}
    assert {agent_of(path) for path in saved_files()} == set(SHORT)


@every_file
def test_saved_model_predicts_as_then(path):
    expected = json.loads((path.parent / "predicted.json").read_text())
    assert predicted(agent_of(path).load(path)) == expected[path.stem]


@every_file
def test_saved_model_learns_on(path):
    model = agent_of(path).load(path, env=make_vec_env(MAP, 2, seed=1))
    before = everything_learned(model)
    model.learn(100, reset_num_timesteps=False)
    assert_differ(before, everything_learned(model))


def test_packages_have_one_version():
    assert sas_agents.__version__ == sas_gym.__version__


def test_file_says_its_version(tmp_path):
    make_agent(SASPG).save(tmp_path / "model")
    with zipfile.ZipFile(tmp_path / "model.zip") as archive:
        origin = json.loads(archive.read("data"))["origin"]
    assert origin["version"] == sas_agents.__version__


@pytest.mark.parametrize(
    ("version", "is_newer"),
    [
        ("0.9.1", False),
        ("0.9.2", True),
        ("0.10.0", True),
        ("1.0", True),
        ("0.8.9", False),
    ],
)
def test_newer_version_warns(version, is_newer, tmp_path, monkeypatch, recwarn):
    """By its numbers: 0.10 is newer than 0.9."""
    monkeypatch.setattr("sas_agents.base._saving.__version__", version)
    make_agent(SASPG).save(tmp_path / "model")
    monkeypatch.setattr("sas_agents.base._saving.__version__", "0.9.1")
    SASPG.load(tmp_path / "model")
    messages = [str(warning.message) for warning in recwarn]
    assert len(messages) == is_newer
    assert all(
        f"by sas_agents {version}, newer than 0.9.1" in each for each in messages
    )
