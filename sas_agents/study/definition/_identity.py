"""Which code a result depends on: the versions that are part of a run.

An agent or a task of ours declares a `behaviour_version`, which is raised when training
or dynamics change; a user's own code is known by its files, see `code_of`.
"""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from sas_agents.study.definition._code import code_of
from sas_agents.study.definition._environments import find_spec

STUDY_VERSION = 2
"""Raise it when environments are made, wrapped or evaluated in another way."""

PACKAGES = "stable_baselines3", "sb3_contrib", "torch", "numpy", "gymnasium"
OURS = {"sas_gym", "sas_agents"}


@cache
def versions_for(environment: str, algorithm: str) -> dict[str, str]:
    """Return the versions that a result depends on.

    Args:
        environment: The environment as a study names it.
        algorithm: The algorithm's class or function, as `"module:name"`.
    """
    return {
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "study": str(STUDY_VERSION),
        "environment": _identity(_places(environment)),
        "algorithm": _identity({algorithm}),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # An extra: agents that need it say so.
        return "none"


def _places(environment: str) -> set[str]:
    """Return where the code of an environment is, each as `"module:name"`."""
    spec = find_spec(environment)
    if spec is None:
        return {environment}
    places = {environment} if ":" in environment else set()
    for entry in (spec.entry_point, spec.kwargs.get("task")):
        if isinstance(entry, str):
            places.add(entry)
        elif entry is not None:
            name = getattr(entry, "__qualname__", type(entry).__qualname__)
            places.add(f"{entry.__module__}:{name}")
    return places


def _identity(places: set[str]) -> str:
    """Return declared versions of our code, and the identity of others' code."""
    ours = {place for place in places if place.replace(":", ".").split(".")[0] in OURS}
    declared = {_declared(place.rpartition(":")[2]) for place in ours}
    modules = {place.partition(":")[0] for place in places - ours}
    code = code_of(modules, {*OURS, *PACKAGES})
    declared |= {_declared(name) for name in code.names}
    return ", ".join([*code.parts, *sorted(declared - {""})])


def _declared(name: str) -> str:
    """Return the name and version of one of our classes, "" of anything else."""
    import sas_agents
    import sas_gym

    for package in (sas_gym, sas_agents):
        if name in dir(package) and name[:1] != "_":
            found = getattr(package, name)
            number = getattr(found, "behaviour_version", None)
            return "" if number is None else f"{name} {number}"
    return ""
