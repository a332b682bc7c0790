"""The check of array shapes while tests run (`--jaxtyping-packages` in pyproject.toml).

Only annotations that state a shape are checked. Others are left to mypy: tests pass
wrong types on purpose, to see the error messages of the code itself, and beartype takes
no float for NumPy's `ArrayLike`.
"""

from collections.abc import Callable
from typing import Any, get_args

from beartype import beartype
from jaxtyping import AbstractArray


def check_shapes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let beartype check the annotations that state a shape."""
    hints = function.__annotations__
    for name, hint in hints.items():
        if not _states_shape(hint):
            hints[name] = Any
    return beartype(function)


def _states_shape(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return True
    return any(_states_shape(part) for part in get_args(hint))
