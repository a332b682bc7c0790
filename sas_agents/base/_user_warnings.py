"""Warnings that point to the user's own line."""

import sys
import warnings
from types import FrameType

from sas_agents.models._encoder import Encoder
from sas_agents.models._features import ArrayObs

# Root mean square above which numbers are too large for a network.
LARGE_INPUTS = 10.0
_PACKAGES = {"sas_agents", "sas_gym", "stable_baselines3", "sb3_contrib", "torch"}


def warn_user(message: str) -> None:
    """Warn at the innermost line outside our packages and Stable-Baselines3's."""
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and _package(frame) in _PACKAGES:
        frame = frame.f_back
        level += 1
    warnings.warn(message, stacklevel=level)


def warn_of_large_inputs(encoder: Encoder, obs: ArrayObs) -> None:
    """Warn if a network gets numbers far from 1.

    Args:
        encoder: The encoder of the network's inputs.
        obs: A batch of observations.
    """
    if keys := encoder.far_keys(obs, LARGE_INPUTS):
        named = ", ".join(repr(key or "observation") for key in keys)
        warn_user(
            f"the numbers of {named} in the observations are larger than "
            f"{LARGE_INPUTS:g} in the mean, and networks learn little from them: leave "
            "out normalize_observations=False, or wrap the environment in VecNormalize"
        )


def _package(frame: FrameType) -> str:
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0]
