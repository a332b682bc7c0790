"""Results are keyed by declared behaviour versions: here is what each one does."""

import json
from typing import Any

import pytest
from helpers import behaviour

from sas_agents.study import ALGORITHMS

KEPT: dict[str, Any] = json.loads(behaviour.PATH.read_text())
CURE = (
    "{what} changed: raise {number}, then run `python tests/helpers/behaviour.py`, "
    "which adds the numbers of the new version"
)


def check(key: str, numbers: list[float], tolerance: float, cure: str) -> None:
    """Compare numbers with those of a version, relative to the largest of them."""
    assert key in KEPT["numbers"], cure
    kept = KEPT["numbers"][key]
    scale = max(map(abs, kept), default=1.0)
    assert numbers == pytest.approx(kept, rel=tolerance, abs=tolerance * scale), cure


@pytest.mark.skipif(
    behaviour.packages() != KEPT["packages"],
    reason="training differs between versions of torch and Stable-Baselines3",
)
@pytest.mark.parametrize(("name", "environment", "policy"), behaviour.AGENTS)
def test_changed_training_has_a_new_behaviour_version(
    name: str, environment: str, policy: str
) -> None:
    """Weights after three updates; results of studies would be mixed up otherwise."""
    numbers = behaviour.trained(name, environment, policy)
    of_class = ALGORITHMS[name].location.startswith("sas_agents:")
    number = f"{name}.behaviour_version" if of_class else "STUDY_VERSION"
    cure = CURE.format(what=f"the training of {name}", number=number)
    check(behaviour.agent_key(name, environment, policy), numbers, 1e-5, cure)


@pytest.mark.parametrize("env_id", behaviour.TASKS)
def test_changed_dynamics_have_a_new_behaviour_version(env_id: str) -> None:
    """Fifty steps of random play: states, rewards, ends and action sets."""
    task = behaviour.task_of(env_id)
    cure = CURE.format(what=env_id, number=f"{task.__name__}.behaviour_version")
    check(behaviour.task_key(env_id), behaviour.played(env_id), 1e-6, cure)


def test_every_shipped_task_declares_its_own_version() -> None:
    """A task that inherits its dynamics changes by itself as well."""
    for env_id in behaviour.TASKS:
        assert "behaviour_version" in vars(behaviour.task_of(env_id))
