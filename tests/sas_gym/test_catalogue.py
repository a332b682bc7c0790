"""The catalogue, and the levels that an id brings with it."""

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sas_gym
from sas_gym import SPECS, TAGS, catalogue
from sas_gym.planning import optimal_return

LEVELS = [(spec, level) for spec in SPECS for level in (None, *spec.levels)]
STORED = json.loads((Path(__file__).parent / "data" / "optima.json").read_text())


def key(env_id, level):
    return env_id if level is None else f"{env_id} {level}"


def test_optimum_changes_only_with_a_new_version():
    """After a release, a changed optimum needs a new id `-vN`, and a new entry here."""
    found = {key(row.id, row.level): row.optimum for row in catalogue()}
    assert found == pytest.approx(STORED, rel=1e-9, abs=1e-12)


IS_AS_ITS_NAME_SAYS: dict[str, Any] = {
    "scarce": lambda task: np.max(task.action_sets.availability) == 0.2,
    "failing_bridge": lambda task: (
        np.unique(task.availability[9]).tolist() == [0.0, 0.05, 0.5, 1.0]
    ),
    "one_die": lambda task: "one die" in task.action_names,
    "score": lambda task: task.objective == "score",
    "ten_tiles": lambda task: task.num_tiles == 10,
    "twelve_tiles": lambda task: task.num_tiles == 12,
}


@pytest.mark.parametrize(
    ("spec", "level"), [case for case in LEVELS if case[1] is not None]
)
def test_level_is_as_its_name_says(spec, level):
    envs: list[Any] = [gym.make(spec.id, level=level)]
    envs.append(gym.make_vec(spec.id, 2, level=level))
    for env in envs:
        assert IS_AS_ITS_NAME_SAYS[level](env.unwrapped.task)
        env.reset(seed=0)


def test_arguments_override_the_level():
    options: dict[str, Any] = {"level": "failing_bridge", "availability": 0.7}
    env: Any = gym.make("SAS/BayArea-v0", **options, start=3)
    task = env.unwrapped.task
    assert np.unique(task.availability[9]).tolist() == [0.0, 0.05, 0.7, 1.0]
    assert env.reset(seed=0)[0]["observation"] == 3
    env = gym.make("SAS/Maze-v0", level="scarce", action_sets=0.9)
    assert (env.unwrapped.action_sets.availability == 0.9).all()


def test_given_availability_overrides_the_levels_action_sets():
    levels = {"own": {"action_sets": [1.0, 0.5]}}
    env = sas_gym.SASEnv("sas_gym:ThetaTwoTheta", level="own", levels=levels)
    assert env.action_sets.availability.tolist() == [1.0, 0.5]  # type: ignore[attr-defined]
    options: dict[str, Any] = {"level": "own", "levels": levels}
    for name in ("availability", "action_sets"):
        given: dict[str, Any] = {name: 0.3}
        env = sas_gym.SASEnv("sas_gym:ThetaTwoTheta", **options, **given)
        assert (env.action_sets.availability == 0.3).all()  # type: ignore[attr-defined]


def test_unknown_level_names_the_known_ones():
    with pytest.raises(ValueError, match=r"level must be one of \['scarce'\]; got 'r"):
        gym.make("SAS/Maze-v0", level="rare")
    with pytest.raises(ValueError, match=r"left out: there are none; got 'rare'"):
        gym.make("SAS/ThetaTwoTheta-v0", level="rare")


@pytest.mark.parametrize(("spec", "level"), LEVELS)
def test_spec_of_a_level_survives_json(spec, level):
    env = gym.make(spec.id, level=level)
    assert env.spec is not None
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    first, second = env.reset(seed=0)[0], again.reset(seed=0)[0]
    np.testing.assert_array_equal(first["action_mask"], second["action_mask"])


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.id)
def test_tags_are_true(spec):
    env: Any = gym.make(spec.id)
    task = env.unwrapped.task
    assert set(spec.tags) <= set(TAGS)
    holds = {
        "exact optimum": task.tabular() is not None,
        "lasting": not env.unwrapped.action_sets.is_sas_mdp,
        "features": hasattr(task, "product_features"),
        "long horizon": (spec.max_episode_steps or 0) >= 100,
    }
    for tag, is_true in holds.items():
        assert (tag in spec.tags) == is_true, tag


def test_catalogue_has_every_level_once_and_prints_a_table():
    rows = catalogue()
    assert [(row.id, row.level) for row in rows] == [
        (spec.id, level) for spec, level in LEVELS
    ]
    for row in rows:
        env = gym.make(row.id, level=row.level)
        assert row.optimum == optimal_return(env)
        assert row.random is not None
        assert row.rule is None or row.random < row.rule <= row.optimum + 1e-9
    lines = str(rows).splitlines()
    assert len(lines) == len(rows) + 2
    assert all(line.count("|") == lines[0].count("|") for line in lines)
