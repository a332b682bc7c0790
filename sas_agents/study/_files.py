"""Writing files so that they are whole or not there."""

import errno
import os
from pathlib import Path

from sas_agents.base._saving import whole_file


class StorageError(RuntimeError):
    """A result could not be written."""


def write_text(path: Path, text: str) -> None:
    """Replace a file by a text, in one step that cannot be seen half-done."""
    try:
        with whole_file(path) as file:
            file.write(text.encode())
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "the disk is full" if is_full else str(error)
        raise StorageError(
            f"cannot write {path}: {reason}. All that was written so far is whole: "
            f"make room or choose another place, then give the same command again"
        ) from error


def make_folder(folder: Path, option: str = "--folder") -> None:
    """Make a folder for files to come.

    Args:
        folder: The folder.
        option: The option that names it, for the error message.

    Raises:
        StorageError: If there is something else, or nothing can be written there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot write to {folder}: {error}; choose another {option}"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StorageError(
            f"cannot write to {folder}: no permission; choose another {option}"
        )
