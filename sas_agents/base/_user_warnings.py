"""Warnings that point to the user's own line."""

import sys
import warnings
from types import FrameType

_PACKAGES = {"sas_agents", "sas_gym", "stable_baselines3", "sb3_contrib", "torch"}


def warn_user(message: str) -> None:
    """Warn at the innermost line outside our packages and Stable-Baselines3's."""
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and _package(frame) in _PACKAGES:
        frame = frame.f_back
        level += 1
    warnings.warn(message, stacklevel=level)


def _package(frame: FrameType) -> str:
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0]
