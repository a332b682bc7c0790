"""Presets: reading, writing, and agents built from them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from helpers.agents import Masked, every_agent
from stable_baselines3.common.utils import LinearSchedule

from sas_agents import SASPG, make_vec_env
from sas_agents.study import from_preset, load_presets, load_study, preset
from sas_agents.study.definition._algorithms import resolve
from sas_agents.study.definition._presets import save_preset

DOMAINS = "SAS/SanFrancisco-v0", "SAS/Maze-v0", "SAS/Recommender-v0"


@pytest.mark.parametrize("env_id", DOMAINS)
@every_agent
@pytest.mark.parametrize("name", ["ours", "paper"])
def test_agents_are_built_from_shipped_presets(
    agent: type[Any], env_id: str, name: str
) -> None:
    """Every agent has a preset for every domain, and its class takes it."""
    env = make_vec_env(env_id, 1, seed=0)
    model = from_preset(agent, env_id, env, name, seed=0)
    assert type(model) is agent


def test_every_algorithm_has_a_preset_with_its_source() -> None:
    """The shipped file covers its study, and says where each entry comes from."""
    for algorithm in {entry.place for entry in load_study("ours").algorithms}:
        for env_id in DOMAINS:
            assert preset(env_id, algorithm)["source"]


def test_paper_preset_updates_once_per_episode_by_sgd() -> None:
    """With the paper's preset one rollout is one episode, and SGD takes the step."""
    env = make_vec_env("SAS/SanFrancisco-v0", 1, seed=0)
    model = from_preset(SASPG, "SAS/SanFrancisco-v0", env, "paper", seed=0)
    model.learn(300)
    assert isinstance(model.policy.optimizer, th.optim.SGD)
    episodes = len(model.ep_info_buffer or [])
    assert 1 < model._n_updates == episodes


def test_arguments_go_over_the_preset() -> None:
    """What a caller names wins."""
    env = make_vec_env("SAS/Maze-v0", 1, seed=0)
    model = from_preset(SASPG, "SAS/Maze-v0", env, "paper", n_steps=7)
    assert model.n_steps == 7


@every_agent
@pytest.mark.parametrize(
    ("space", "suited"),
    [
        (spaces.Dict(x=spaces.Box(0, 1, (2,))), "MultiInputPolicy"),
        (spaces.Box(0, 255, (3, 36, 36), np.uint8), "CnnPolicy"),
    ],
)
def test_preset_of_another_kind_of_observations_names_the_policy(
    agent: type[Any], space: spaces.Space[Any], suited: str
) -> None:
    """Linear policies would be built silently of dicts and images."""
    message = f"tuned for 'LinearPolicy', and .*: pass policy='{suited}', or policy='L"
    with pytest.raises(ValueError, match=message):
        from_preset(agent, "SAS/Maze-v0", Masked(space))
    for policy in (suited, "LinearPolicy"):
        model: Any = from_preset(agent, "SAS/Maze-v0", Masked(space), policy=policy)
        assert type(model.policy) is agent.policy_aliases[policy]


def test_special_preset_goes_over_the_general_one(tmp_path: Path) -> None:
    """What a search found for an environment is used there only, and kept in a file."""
    path = tmp_path / "mine.toml"
    general = {"arguments": {"gamma": 0.9, "max_grad_norm": float("inf")}}
    special = {"arguments": {"gamma": 0.5, "policy_kwargs": {"net_arch": [4, 4]}}}
    save_preset(path, "any", "SASQ", general)
    save_preset(path, "SAS/Maze-v0", "SASQ", special)
    assert load_presets(path) == {
        "any": {"SASQ": general},
        "SAS/Maze-v0": {"SASQ": special},
    }
    assert preset("SAS/BayArea-v0", "SASQ", path) == general
    merged = preset("SAS/Maze-v0", "SASQ", path)["arguments"]
    assert merged == {**general["arguments"], **special["arguments"]}


def test_texts_become_schedules_and_classes() -> None:
    """`lin_` is a rate that falls to 0, and `_class` names a class."""
    made = resolve(
        {"learning_rate": "lin_0.02", "policy_kwargs": {"a_class": "torch.optim:SGD"}}
    )
    assert made["policy_kwargs"] == {"a_class": th.optim.SGD}
    rate = made["learning_rate"]
    assert isinstance(rate, LinearSchedule)
    assert [rate(1.0), rate(0.5), rate(0.0)] == pytest.approx([0.02, 0.01, 0.0])


def test_class_without_presets_is_refused() -> None:
    """The message names the classes that have presets."""
    with pytest.raises(ValueError, match="int has no presets: they exist for"):
        from_preset(int, "SAS/Maze-v0", None)


def test_same_as_shares_arguments_but_not_the_source(tmp_path: Path) -> None:
    """An algorithm that shares another's settings follows them to every environment."""
    path = tmp_path / "mine.toml"
    path.write_text(
        '[any.MaskedPPO]\nsource = "by hand"\narguments = { n_steps = 32 }\n'
        '[any.MaskablePPO]\nsource = "as MaskedPPO"\nsame_as = "MaskedPPO"\n'
        '["SAS/Maze-v0".MaskedPPO]\nsource = "found"\narguments = { n_epochs = 4 }\n'
    )
    for env_id, expected in (
        ("SAS/SanFrancisco-v0", {"n_steps": 32}),
        ("SAS/Maze-v0", {"n_steps": 32, "n_epochs": 4}),
    ):
        entry = preset(env_id, "MaskablePPO", path)
        assert entry["arguments"] == expected
        assert entry["source"] == "as MaskedPPO"
    shipped = preset("SAS/Maze-v0", "MaskablePPO")["arguments"]
    assert shipped == preset("SAS/Maze-v0", "MaskedPPO")["arguments"]
