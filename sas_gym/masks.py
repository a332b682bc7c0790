"""Where an environment tells its action set, and how it is put into observations."""

from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Dict, Discrete, MultiBinary
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from sas_gym.action_sets import Mask

MASK_KEY = "action_mask"

OnUnavailable = Literal["raise", "noop"]
"""What an unavailable action does: raise an error, or nothing while a step passes."""


def discrete_actions(env: gym.Env[Any, Any]) -> Discrete[np.int64]:
    """Return an environment's action space, which must be discrete."""
    space = env.action_space
    if not isinstance(space, Discrete):
        raise ValueError(
            f"action sets need a Discrete action space, got {space}: number the "
            "actions (those of a MultiDiscrete space by their combinations)"
        )
    return space


def check_on_unavailable(on_unavailable: str, penalty: float) -> None:
    """Raise `ValueError` unless the two say what an unavailable action does."""
    if on_unavailable not in ("raise", "noop"):
        raise ValueError(
            f"on_unavailable must be 'raise' or 'noop', got {on_unavailable!r}"
        )
    if penalty and on_unavailable == "raise":
        raise ValueError(
            "unavailable_penalty needs on_unavailable='noop': an action that raises an "
            "error has no reward"
        )


def unavailable_action_error(
    action: Any, mask: Mask, lanes: list[int] | None = None
) -> ValueError:
    """Return the error for an action outside its action set."""
    where = "" if lanes is None else f" in lanes {lanes}"
    return ValueError(
        f"unavailable action{where}: {action} is not in the action set "
        f"{np.flatnonzero(mask).tolist()}. Choose where info['action_mask'] is 1, or "
        "make the environment with on_unavailable='noop'"
    )


def read_masks(
    env: gym.Env[Any, Any], observation: Any, info: dict[str, Any]
) -> dict[str, Any]:
    """Return the current mask by every channel in which an environment tells it."""
    told = {}
    if isinstance(observation, dict) and MASK_KEY in observation:
        told[f"obs[{MASK_KEY!r}]"] = observation[MASK_KEY]
    if MASK_KEY in info:
        told[f"info[{MASK_KEY!r}]"] = info[MASK_KEY]
    if env.has_wrapper_attr("action_masks"):
        told["action_masks()"] = env.get_wrapper_attr("action_masks")()
    return told


def as_mask(values: ArrayLike, num_actions: int, channel: str) -> Mask:
    """Return a mask as bools, [A], or say what is wrong with it.

    Args:
        values: The mask, of any type.
        num_actions: Size A of the base action set.
        channel: Where it comes from, for the error message.
    """
    mask = np.asarray(values)
    if mask.shape != (num_actions,):
        raise ValueError(
            f"{channel} must have one number an action, shape ({num_actions},); got "
            f"shape {mask.shape}"
        )
    if not np.isin(mask, (0, 1)).all():
        raise ValueError(
            f"{channel} must be 1 where an action is available and 0 elsewhere; got "
            f"{np.unique(mask)[:5].tolist()}"
        )
    return mask.astype(bool)


def masked_space(bare: gym.Space[Any], num_actions: int) -> Dict:
    """Return the space of an observation with the mask beside it.

    The keys of a dict stay as they are; anything else goes under `observation`.
    """
    spaces = dict(bare.spaces) if isinstance(bare, Dict) else {"observation": bare}
    # MultiBinary, as VecNormalize would silently normalise a Box.
    return Dict({**spaces, MASK_KEY: MultiBinary(num_actions)})


def with_mask(observation: Any, mask: NDArray[Any]) -> dict[str, Any]:
    """Return an observation with a mask beside it, as `masked_space` describes."""
    keys = (
        observation if isinstance(observation, dict) else {"observation": observation}
    )
    return {**keys, MASK_KEY: int_mask(mask)}


def int_mask(mask: NDArray[Any]) -> NDArray[np.int8]:
    """Return a copy of a mask in the type that `Discrete.sample` takes."""
    return mask.astype(np.int8)


def sample_actions(mask: NDArray[Any], rng: Generator) -> NDArray[np.intp]:
    """Draw one available action a lane, uniformly, for masks [N, A] of any type.

    Example:
        >>> sample_actions(np.array([[0, 1, 0], [0, 0, 1]]), np.random.default_rng())
        array([1, 2])
    """
    drawn: NDArray[np.intp] = np.where(mask, rng.random(mask.shape), -1.0).argmax(
        axis=1
    )
    return drawn
