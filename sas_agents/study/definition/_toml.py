"""Finding TOML files, and writing TOML, which `tomllib` only reads."""

import json
import math
from pathlib import Path
from typing import Any


def find_toml(name: str | Path, shipped: Path, kind: str) -> Path:
    """Return the path of a TOML file: a user's by its path, a shipped one by its name.

    A folder of the same name is no such file and hides none.

    Raises:
        ValueError: If there is neither.
    """
    path = Path(name)
    if path.is_file():
        return path
    if str(name) and (shipped / f"{name}.toml").is_file():
        return shipped / f"{name}.toml"
    names = sorted(entry.stem for entry in shipped.glob("*.toml"))
    hint = f" ({name} is a folder)" if str(name) and path.is_dir() else ""
    raise ValueError(
        f"there is no {kind} file {str(name)!r}{hint}, and the shipped ones are {names}"
    )


def read_toml(path: Path) -> str:
    """Read a TOML file.

    Raises:
        ValueError: If it cannot be read as a text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file: {error}") from error


def as_toml(value: Any) -> str:
    """Write a value as TOML does."""
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(k)} = {as_toml(v)}" for k, v in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(as_toml(entry) for entry in value) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value)
