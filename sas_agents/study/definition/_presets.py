"""Tuned settings for each environment and algorithm, shipped as TOML files."""

import json
import tomllib
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from gymnasium import spaces

from sas_agents.study._files import write_text
from sas_agents.study.definition._algorithms import ALGORITHMS, resolve
from sas_agents.study.definition._toml import as_toml, find_toml, read_toml

PRESETS = Path(__file__).parents[1] / "presets"
T = TypeVar("T")


def load_presets(name: str | Path = "ours") -> dict[str, dict[str, dict[str, Any]]]:
    """Read a preset file: a shipped one by its name, or any by its path.

    Returns:
        By environment id and algorithm: `arguments`, and perhaps `policy` and `source`
        (where they come from); or `same_as`, the algorithm whose arguments it shares.
    """
    path = find_toml(name, PRESETS, "preset")
    try:
        return _parsed(read_toml(path))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: {error}") from error


@cache
def _parsed(text: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Parse a file once: a study asks for its presets run by run."""
    return tomllib.loads(text)


def preset(env_id: str, algorithm: str, name: str | Path = "ours") -> dict[str, Any]:
    """Return the preset of an algorithm in an environment.

    An environment without one gets the general settings, which stand under `any`.

    Args:
        env_id: The environment's id.
        algorithm: The algorithm's name.
        name: The preset file: a shipped name (`"ours"`, `"paper"`) or a path.

    Returns:
        A dict with `arguments` (of the algorithm's class) and perhaps `policy`.

    Example:
        >>> preset("SAS/Maze-v0", "SASPG", "paper")["arguments"]["n_steps"]
        1
    """
    presets = load_presets(name)
    general = presets.get("any", {}).get(algorithm, {})
    special = presets.get(env_id, {}).get(algorithm, {})
    table = {**general, **special}
    if "same_as" in table:
        return {**preset(env_id, table["same_as"], name), "source": table["source"]}
    arguments = {**general.get("arguments", {}), **special.get("arguments", {})}
    return {**table, "arguments": arguments}


def from_preset(
    algorithm_class: type[T],
    env_id: str,
    env: Any,
    name: str | Path = "ours",
    **arguments: Any,
) -> T:
    """Build an agent with its preset for an environment.

    Args:
        algorithm_class: `SASPG`, `SASNPG`, `SASQ`, or another of the study's classes.
        env_id: Whose preset to take.
        env: The environment to learn in.
        name: The preset file: a shipped name (`"ours"`, `"paper"`) or a path.
        **arguments: Arguments over the preset's, such as `seed`, or `policy` where the
            observations are dicts or images.

    Example:
        >>> from sas_agents import SASPG, make_vec_env
        >>> env = make_vec_env("SAS/Maze-v0", n_envs=4, seed=0)
        >>> agent = from_preset(SASPG, "SAS/Maze-v0", env, seed=0)
    """
    algorithm = algorithm_name(algorithm_class)
    table = preset(env_id, algorithm, name)
    tuned = table.get("policy", ALGORITHMS[algorithm].policy)
    policy = arguments.pop("policy", None)
    make: Any = algorithm_class
    agent: T = make(
        tuned if policy is None else policy,
        env,
        **{**resolve(table["arguments"]), **arguments},
    )
    if policy is None:
        _check_tuned_policy(tuned, agent)
    return agent


def _check_tuned_policy(policy: str, agent: Any) -> None:
    """Raise `ValueError` where a preset's policy is not one for the observations."""
    from stable_baselines3.common.preprocessing import is_image_space

    from sas_agents.models._features import bare_space

    space = bare_space(agent.observation_space)
    suited = policy
    if isinstance(space, spaces.Dict):
        suited = policy.replace("Linear", "MultiInput")
    elif is_image_space(space):
        suited = policy.replace("Linear", "Cnn").replace("Mlp", "Cnn")
    if suited != policy:
        raise ValueError(
            f"the preset was tuned for {policy!r}, and the observations are {space}: "
            f"pass policy={suited!r}, or policy={policy!r} if you want that one"
        )


def algorithm_name(algorithm_class: type[Any]) -> str:
    """Return the name in the table of algorithms of a class or its base class."""
    for cls in algorithm_class.__mro__:
        for name, entry in ALGORITHMS.items():
            if entry.location.partition(":")[2] == cls.__name__:
                return name
    raise ValueError(
        f"{algorithm_class.__name__} has no presets: they exist for {list(ALGORITHMS)}"
    )


def save_preset(path: Path, env_id: str, algorithm: str, entry: dict[str, Any]) -> None:
    """Add one preset to a file."""
    presets = deepcopy(load_presets(path)) if path.exists() else {}
    presets.setdefault(env_id, {})[algorithm] = entry
    lines = ["# Presets by environment and algorithm, written by `sas-study search`.\n"]
    for one_id, algorithms in presets.items():
        for name, table in algorithms.items():
            lines.append(f"\n[{json.dumps(one_id)}.{json.dumps(name)}]\n")
            lines += [f"{key} = {as_toml(value)}\n" for key, value in table.items()]
    write_text(path, "".join(lines))
