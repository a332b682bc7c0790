"""Checks of a task, when an environment of it is made: mistakes of its author's.

Each method is tried once, on few environments and with a generator of its own; after
that the environments trust the task.
"""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.random import Generator

from sas_gym._arguments import check_integer
from sas_gym._types import Mask
from sas_gym.action_sets import ActionSets
from sas_gym.tasks._task import States, Task

_NUM_ENVS = 2
# Largest number of states that are looked at one by one.
_MAX_STATES = 1_000_000
# Of more pairs of a state and an action, evenly spaced states are checked.
_MAX_CHECKED = 5_000_000
# Largest number of uniforms, or of mask entries, that are tried at once: 8 MB.
_MAX_ENTRIES = 1_000_000


def check_attributes(task: Task, has_action_sets: bool) -> None:
    """Raise an error for an attribute of the class that is missing or wrong."""
    name = type(task).__name__
    for attribute in ("num_actions", "observation_space", "action_sets"):
        given = has_action_sets and attribute == "action_sets"
        if not (given or hasattr(task, attribute)):
            cure = " or pass action_sets=..." if attribute == "action_sets" else ""
            raise TypeError(
                f"{name} has no {attribute}: set it in the class or in __init__{cure}"
            )
    check_integer(f"{name}.num_actions", task.num_actions, least=1)
    if task.num_states is not None:
        check_integer(f"{name}.num_states", task.num_states, least=1)
    if not isinstance(task.observation_space, gym.Space):
        raise TypeError(
            f"{name}.observation_space must be a gymnasium.spaces.Space, got "
            f"{task.observation_space!r}"
        )


def few_states(task: Task) -> States | None:
    """Return all states of a task in order, or `None` for too many or for no list."""
    if task.num_states is None or task.num_states > _MAX_STATES:
        return None
    return task.states()


def check_every_state_has_a_set(task: Task, action_sets: ActionSets) -> None:
    """Raise `ValueError` if in some state a set could be empty.

    Otherwise an empty set would be found on arrival there, in the middle of a training.
    Where the states are not listed, or are too many, first states stand for them.
    """
    states = few_states(task)
    if states is None:
        states = task.reset(_NUM_ENVS, np.random.default_rng(0))
    num_actions = task.num_actions
    states = states[:: 1 + len(states) * num_actions // _MAX_CHECKED]
    rows = max(
        _MAX_ENTRIES // max(action_sets.num_uniforms(num_actions), num_actions), 1
    )
    for first in range(0, len(states), rows):
        part = states[first : first + rows]
        action_sets.check_states(part, task.possible(part), num_actions)


def check_dynamics(task: Task, action_sets: ActionSets) -> None:
    """Raise an error if a method returns something that no environment can use."""
    name, rng = type(task).__name__, np.random.default_rng(0)
    state = task.reset(_NUM_ENVS, rng)
    _check_rows(f"{name}.reset()", state)
    _check_observations(task, state)
    action = _available_actions(task, action_sets, state, rng)
    returned = task.transition(state, action, rng)
    if not (isinstance(returned, tuple) and len(returned) == 3):
        raise TypeError(
            f"{name}.transition() must return a tuple of three arrays (states, "
            f"rewards, terminations), got {_described(returned)}"
        )
    for what, array in zip(
        ("states", "rewards", "terminations"), returned, strict=True
    ):
        _check_rows(f"the {what} of {name}.transition()", array)
    _, rewards, terminations = returned
    if rewards.shape != (_NUM_ENVS,) or rewards.dtype.kind != "f":
        raise TypeError(
            f"the rewards of {name}.transition() must be one float per environment, "
            f"got shape {rewards.shape} of {rewards.dtype} for {_NUM_ENVS} environments"
        )
    if terminations.shape != (_NUM_ENVS,) or terminations.dtype != np.bool_:
        raise TypeError(
            f"the terminations of {name}.transition() must be one bool per "
            f"environment, got shape {terminations.shape} of {terminations.dtype}"
        )
    _check_observations(task, returned[0])


def _check_rows(what: str, array: Any) -> None:
    if not (isinstance(array, np.ndarray) and array.shape[:1] == (_NUM_ENVS,)):
        raise TypeError(
            f"{what} must be an array with one row per environment, got "
            f"{_described(array)} for {_NUM_ENVS} environments"
        )


def _check_observations(task: Task, state: Any) -> None:
    name, space = type(task).__name__, task.observation_space
    observed = task.observe(state)
    parts = observed if isinstance(observed, dict) else {"": observed}
    for key, part in parts.items():
        where = f"[{key!r}]" if key else ""
        _check_rows(f"{name}.observe(){where}", part)
        part_space = space[key] if isinstance(space, gym.spaces.Dict) and key else space
        if part[0] not in part_space:
            raise ValueError(
                f"{name}.observe(){where} returns {part[0]!r} of type {part.dtype}, "
                f"which is not in observation_space{where} {part_space}: convert it "
                f"with .astype(np.{part_space.dtype}), or correct the space"
            )


def _available_actions(
    task: Task, action_sets: ActionSets, state: Any, rng: Generator
) -> Any:
    number, possible = task.number(state), task.possible(state)
    for what, array in (("number", number), ("possible", possible)):
        if array is not None:
            _check_rows(f"{type(task).__name__}.{what}()", array)
    uniforms = rng.random((_NUM_ENVS, action_sets.num_uniforms(task.num_actions)))
    mask: Mask = action_sets.sets_from(uniforms, state, possible)
    return mask.argmax(axis=1)


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return f"the {type(value).__name__} {value!r}"
