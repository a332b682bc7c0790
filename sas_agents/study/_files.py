"""Writing files so that they are whole or not there."""

import errno
import os
from pathlib import Path


class StorageError(RuntimeError):
    """A result could not be written."""


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
        temporary.unlink(missing_ok=True)
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "the disk is full" if is_full else str(error)
        raise StorageError(
            f"cannot write {path}: {reason}. All that was written so far is whole: "
            f"make room or choose another place, then give the same command again"
        ) from error
