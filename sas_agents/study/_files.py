"""Finding files, and writing them so that they are whole or not there."""

import errno
import os
from contextlib import suppress
from pathlib import Path


class StorageError(RuntimeError):
    """A result could not be written."""


def find_toml(name: str | Path, shipped: Path, kind: str) -> Path:
    """Return the path of a TOML file: a user's by its path, a shipped one by its name.

    A folder of the same name is no such file and hides none.

    Raises:
        ValueError: If there is neither.
    """
    path = Path(name)
    if path.is_file():
        return path
    if (shipped / f"{name}.toml").is_file():
        return shipped / f"{name}.toml"
    names = sorted(entry.stem for entry in shipped.glob("*.toml"))
    hint = f" ({name} is a folder)" if path.is_dir() else ""
    raise ValueError(
        f"there is no {kind} file {str(name)!r}{hint}, and the shipped ones are {names}"
    )


def write_text(path: Path, text: str) -> None:
    """Replace a file by a text, in one step that cannot be seen half-done."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "the disk is full" if is_full else str(error)
        raise StorageError(
            f"cannot write {path}: {reason}. All that was written so far is whole: "
            f"make room or choose another place, then give the same command again"
        ) from error


def make_folder(folder: Path) -> None:
    """Make a folder for files to come.

    Raises:
        StorageError: If there is something else, or nothing can be written there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot write results to {folder}: {error}; choose another --folder"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StorageError(
            f"cannot write results to {folder}: no permission; choose another --folder"
        )
