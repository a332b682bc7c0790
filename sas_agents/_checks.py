"""Checks of arguments and numbers, with errors that name the culprit."""

from typing import Any

import numpy as np
import torch as th


def check_range(
    name: str, value: Any, low: float, high: float = np.inf, *, exclusive: bool = False
) -> None:
    """Reject a number outside [low, high], and NaN; schedules and None pass.

    Args:
        name: Name of the argument.
        value: Its value.
        low: Smallest value.
        high: Largest value.
        exclusive: Whether `low` itself is rejected, too.
    """
    if value is None or callable(value):
        return
    if not (low < value if exclusive else low <= value) or not value <= high:
        bound = "greater than" if exclusive else "at least"
        upper = "" if high == np.inf else f" and at most {high:g}"
        raise ValueError(f"{name} must be {bound} {low:g}{upper}, got {value}")


def check_count(name: str, value: int | None, low: int = 1) -> None:
    """Reject what is not a whole number from `low` on; None passes."""
    if value is not None and (value != int(value) or value < low):
        raise ValueError(f"{name} must be a whole number from {low} on, got {value}")


def check_finite(name: str, values: th.Tensor, num_timesteps: int, cure: str) -> None:
    """Stop at NaN or infinity.

    Args:
        name: What the values are.
        values: The values.
        num_timesteps: Number of steps taken so far.
        cure: What may help.
    """
    if not values.isfinite().all():
        raise ValueError(
            f"{name} not finite (NaN or infinite) after {num_timesteps} steps: {cure}"
        )
