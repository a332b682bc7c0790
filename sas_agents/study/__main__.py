"""The command line: `sas-study`, or `python -m sas_agents.study`."""

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sas_gym  # noqa: F401  # Registers the ids.
from sas_agents.study._files import StorageError
from sas_agents.study.commands._parser import Command, make_parser
from sas_agents.study.commands._reports import (
    compare_command,
    plot_command,
    table_command,
)
from sas_agents.study.commands._work import (
    repeat_command,
    run_command,
    search_command,
    status_command,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return 0 if all went well, 2 for a mistake of the user's."""
    # `python -m` finds a user's own modules here, and so does the script.
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        options = make_parser(COMMANDS).parse_args(arguments)
        with warnings.catch_warnings():
            warnings.filterwarnings("always", module=r"sas_agents\.study")
            warnings.showwarning = _show_warning
            return int(options.command(options))
    except BrokenPipeError:  # A reader such as `head` has enough.
        sys.stderr.close()
        return 0
    except (ValueError, StorageError, ImportError, OSError) as error:
        print(f"sas-study: {_in_one_line(error)}{_cure(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nsas-study: interrupted; the same command goes on", file=sys.stderr)
        return 130


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _cure(error: Exception) -> str:
    if not isinstance(error, ImportError):
        return ""
    return '; studies need more packages: pip install "sas-gym[study,ray]"'


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    print(f"sas-study: warning: {message}", file=sys.stderr)


COMMANDS: dict[str, Command] = {
    "run": run_command,
    "search": search_command,
    "plot": plot_command,
    "table": table_command,
    "compare": compare_command,
    "status": status_command,
    "repeat": repeat_command,
}

if __name__ == "__main__":
    sys.exit(main())
