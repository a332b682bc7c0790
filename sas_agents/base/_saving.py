"""Files of models: written whole or not at all, and recognised when they are loaded."""

import json
import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.save_util import open_path

from sas_agents.base._user_warnings import warn_user
from sas_gym import __version__

# What reading a file raises that is no archive, a damaged one, or another archive.
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    KeyError,
    OSError,
    RuntimeError,
    ValueError,
)


@contextmanager
def whole_file(path: Path) -> Iterator[BufferedIOBase]:
    """Open a file to write, which takes its place on the disk only when it is complete.

    Args:
        path: Its place.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with unfinished.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def with_suffix(path: str | Path, suffix: str) -> Path:
    """Add a suffix to a name without one, as Stable-Baselines3 does."""
    return Path(path) if Path(path).suffix else Path(f"{path}.{suffix}")


def agent_name(agent: type[Any]) -> str:
    """Return the name of the class of sas_agents that an agent is or extends."""
    ours = (cls for cls in agent.__mro__ if cls.__module__.startswith("sas_agents."))
    return next(ours).__name__


def origin_of(agent: type[Any], policy: type[BasePolicy]) -> dict[str, str | None]:
    """Return what a file says of its origin: the agent, its policy and our version.

    Args:
        agent: The agent's class.
        policy: The policy's class; one without an alias has no name.
    """
    aliases = agent.policy_aliases.items()
    names = (name for name, named in aliases if named is policy)
    return {
        "agent": agent_name(agent),
        "policy": next(names, None),
        "version": __version__,
    }


def check_origin(
    agent: type[Any], path: str | Path | BufferedIOBase
) -> dict[str, type[BasePolicy]]:
    """Raise `ValueError` unless a file is whole and an agent of this class saved it.

    A file of a newer version gets a warning.

    Args:
        agent: The class that loads the file.
        path: The file.

    Returns:
        The policy's class where the file has its name: `load` need not unpickle it.
    """
    name = _name_of(path)
    origin = check_whole(path).get("origin")
    if not (isinstance(origin, dict) and "agent" in origin):
        raise ValueError(
            f"{name} was not saved by an agent of sas_agents: load it by the class "
            "that saved it"
        )
    if origin["agent"] != agent_name(agent):
        raise ValueError(
            f"{name} was saved by {origin['agent']}: write {origin['agent']}.load(...) "
            f"instead of {agent.__name__}.load(...)"
        )
    version = str(origin.get("version", "0"))
    if _numbers(version) > _numbers(__version__):
        warn_user(
            f"{name} was saved by sas_agents {version}, newer than {__version__} here: "
            "run pip install --upgrade sas-gym"
        )
    policy = agent.policy_aliases.get(origin.get("policy"))
    return {} if policy is None else {"policy_class": policy}


def check_whole(path: str | Path | BufferedIOBase) -> dict[str, Any]:
    """Raise `ValueError` for a file that is damaged, or no model's.

    Returns:
        The model's plain values by name; pickled values stay text.
    """
    name = _name_of(path)
    file = open_path(path, "r", suffix="zip")
    try:
        with zipfile.ZipFile(file) as archive:
            damaged = archive.testzip()
            data: dict[str, Any] = json.loads(archive.read("data"))
    except _UNREADABLE as error:
        raise ValueError(
            f"{name} is damaged, or it is no file that the save() of an agent wrote"
        ) from error
    finally:
        if not isinstance(path, BufferedIOBase):
            file.close()
    if damaged is not None:
        raise ValueError(f"{name} is damaged: its part {damaged} cannot be read")
    return data


def _numbers(version: str) -> list[int]:
    """Return the numbers of a release: 0, 1 and 0 of 0.1.0."""
    return [int(number) for number in re.findall(r"\d+", version)[:3]]


def _name_of(path: str | Path | BufferedIOBase) -> str:
    return "the open file" if isinstance(path, BufferedIOBase) else str(path)
