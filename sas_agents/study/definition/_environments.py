"""The environments that a study can name."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from inspect import Parameter, signature
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.wrappers import TimeLimit

from sas_gym import Task


class Problem(NamedTuple):
    """An environment as a study names it, with every argument in its place."""

    target: str | Task | Callable[[], gym.Env[Any, Any]]
    """An id or a task that draws its own action sets; or the maker of a guest."""
    options: dict[str, Any] = {}
    """Arguments of the id, or of the environment of the task."""
    guest_sets: Any = None
    """Distribution of the action sets to draw for a guest; `None` if it has masks."""
    guest_mask: str | None = None
    """Where a guest has its mask, if in an unusual place; see `MaskInObservation`."""

    @property
    def is_ours(self) -> bool:
        """Whether it has a vector form that steps all copies at once."""
        return isinstance(self.target, str | Task)

    @property
    def outer_mask(self) -> str | None:
        """Where the mask is once the sets of a guest are drawn."""
        return self.guest_mask if self.guest_sets is None else None


def locate(location: str) -> Any:
    """Import the object that `"module:name"` names."""
    module, _, name = location.partition(":")
    return getattr(import_module(module), name)


def find_spec(environment: str) -> EnvSpec | None:
    """Return the spec of an id, and `None` for an entry point, `"module:name"`.

    Raises:
        ValueError: If it is neither.
    """
    module, _, name = environment.rpartition(":")
    try:
        source = import_module(module) if module else None
        if callable(getattr(source, name, None)):
            return None
        return gym.spec(name)
    except Exception as error:  # A user's module may raise anything.
        raise ValueError(
            f"there is no environment {environment!r}: {error}. Write an id "
            "('module:Id-v0' imports the module that registers it), or 'module:name' "
            "for a class or function that returns an environment or a sas_gym.Task"
        ) from error


def make_problem(environment: str, arguments: dict[str, Any]) -> Problem:
    """Sort the arguments of an environment.

    `action_sets = {Markov = [0.1, 0.05]}` in a study stands for
    `sas_gym.action_sets.Markov(0.1, 0.05)`. A guest that takes no such argument and no
    `availability` gets `StochasticActionSets` around it, if one of the two is given.
    `mask` names the key or the method of its mask.

    Raises:
        ValueError: If the action sets are not written in this way.
    """
    made = dict(arguments)
    if isinstance(sets := made.get("action_sets"), dict):
        made["action_sets"] = _action_sets(sets)
    spec = find_spec(environment)
    if spec is None:
        return _of_entry_point(locate(environment), made)
    creator: Any = spec.entry_point
    if isinstance(creator, str):
        creator = load_env_creator(creator)
    if _takes(creator, "mask_in_observation"):
        return Problem(environment, made)
    sets = _taken(creator, made, "action_sets", "availability")
    mask = _taken(creator, made, "mask")
    return Problem(partial(gym.make, environment, **made), {}, sets, mask)


def _action_sets(table: dict[str, Any]) -> Any:
    try:
        ((name, values),) = table.items()
        return locate(f"sas_gym.action_sets:{name}")(*values)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(
            f"action_sets must be one class of sas_gym.action_sets with a list of its "
            f"arguments, such as {{ Markov = [0.1, 0.05] }}; got {table}: {error}"
        ) from error


def _of_entry_point(make: Callable[..., Any], arguments: dict[str, Any]) -> Problem:
    sets = _taken(make, arguments, "action_sets", "availability")
    mask = _taken(make, arguments, "mask")
    limit = arguments.pop("max_episode_steps", None)
    made = make(**arguments)
    if isinstance(made, Task):
        options = {"action_sets": sets, "max_episode_steps": limit}
        return Problem(
            made, {name: value for name, value in options.items() if value is not None}
        )
    made.close()

    def guest() -> gym.Env[Any, Any]:
        env: gym.Env[Any, Any] = make(**arguments)
        return env if limit is None else TimeLimit(env, limit)

    return Problem(guest, {}, sets, mask)


def _taken(make: Callable[..., Any], arguments: dict[str, Any], *names: str) -> Any:
    """Take the first of some arguments out that `make` has no use for."""
    for name in names:
        if name in arguments and not _takes(make, name):
            return arguments.pop(name)
    return None


def _takes(make: Callable[..., Any], name: str) -> bool:
    parameters = signature(make).parameters
    is_open = any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values())
    return name in parameters or (is_open and name != "mask_in_observation")
