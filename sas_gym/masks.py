"""Action masks: read, checked, sampled from, and put into observations."""

from collections.abc import Sequence
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Dict, Discrete, MultiBinary, MultiDiscrete
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from sas_gym._arguments import check_number
from sas_gym._types import Mask

MASK_KEY = "action_mask"
"""Key of the action mask in observations and infos."""

REPAIRED_KEY = "repaired"
"""Key of the info that says whether the action of a step was replaced."""

OnUnavailable = Literal["raise", "repair"]
"""Effect of an unavailable action: an error, or a random available action."""

_REPAIRS_KEY = (0x4EF1,)


def discrete_actions(space: gym.Space[Any]) -> "Discrete[np.int64]":
    """Return an action space, which must be discrete.

    Raises:
        ValueError: If it is another kind of space.
    """
    if not isinstance(space, Discrete):
        cure = ""
        if isinstance(space, MultiDiscrete | MultiBinary):
            cure = ": number its combinations by sas_gym.FlattenActions(env)"
        raise ValueError(f"action sets need a Discrete action space, got {space}{cure}")
    return space


def mask_sizes(space: gym.Space[Any]) -> list[int]:
    """Return how many mask entries each dimension of an action space has.

    The mask of a space with several dimensions has theirs one after the other, as in
    sb3-contrib: one entry per value, so that a dimension of a MultiBinary space has
    two.

    Raises:
        ValueError: If the actions are not finitely many.

    Example:
        >>> mask_sizes(Discrete(5)), mask_sizes(MultiDiscrete([2, 3]))
        ([5], [2, 3])
    """
    if isinstance(space, Discrete):
        return [int(space.n)]
    if isinstance(space, MultiDiscrete) and space.nvec.ndim == 1:
        return [int(size) for size in space.nvec]
    if isinstance(space, MultiBinary) and len(space.shape) == 1:
        return [2] * space.shape[0]
    raise ValueError(
        "action masks need a Discrete, a MultiDiscrete or a MultiBinary action space "
        f"of one axis, got {space}"
    )


def check_on_unavailable(on_unavailable: str, penalty: float) -> None:
    """Raise `ValueError` unless the two describe the effect of unavailable actions."""
    if on_unavailable not in ("raise", "repair"):
        raise ValueError(
            f"on_unavailable must be 'raise' or 'repair', got {on_unavailable!r}"
        )
    check_number("unavailable_penalty", penalty)
    if penalty and on_unavailable == "raise":
        raise ValueError(
            "unavailable_penalty needs on_unavailable='repair': an action that raises "
            "an error has no reward"
        )


def unavailable_action_error(
    action: Any, mask: Mask, env_indices: list[int] | None = None
) -> ValueError:
    """Return the error for an action outside its action set."""
    where = "" if env_indices is None else f" in environments {env_indices}"
    return ValueError(
        f"unavailable action{where}: {action} is not in the action set "
        f"{np.flatnonzero(mask).tolist()}. Choose where info['action_mask'] is 1, or "
        "make the environment with on_unavailable='repair'"
    )


def repair_generator(seed: int | Sequence[int] | None) -> Generator:
    """Return the generator that replaces unavailable actions.

    A spawn key of its own keeps the repairs apart from the environment's draws: the
    dynamics meet the same random numbers with and without repairs.
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=_REPAIRS_KEY))


def check_masks(
    masks: ArrayLike,
    num_actions: int | Sequence[int],
    source: str = "the action mask",
    *,
    batch_shape: tuple[int, ...] | None = None,
    final: bool = False,
) -> Mask:
    """Return masks as new booleans, or raise an error that names the fault.

    Every mask from outside passes here: ones and zeros only, one entry per action, and
    at least one action available.

    Args:
        masks: One mask or a batch of them, with the actions along the last axis.
        num_actions: Size of the base action set; or the sizes of several dimensions,
            each of which needs an available value.
        source: Where the masks come from, for the error message.
        batch_shape: Shape before the last axis: `()` for one mask, `(num_envs,)` for
            one per environment; by default any.
        final: Whether these are masks of final states. Nobody acts there, and a mask
            without an action breaks its readers: it becomes a mask of every action.

    Raises:
        ValueError: If the shape or a value is wrong, or a mask has no action.

    Example:
        >>> check_masks([[0, 1], [1, 1]], num_actions=2)
        array([[False,  True],
               [ True,  True]])
    """
    array = np.asarray(masks)
    shape = array.shape
    sizes = [num_actions] if isinstance(num_actions, int) else list(num_actions)
    num_entries = sum(sizes)
    if shape[-1:] != (num_entries,) or batch_shape not in (None, shape[:-1]):
        batch = "..." if batch_shape is None else ", ".join(map(str, batch_shape))
        expected = f"({batch}, {num_entries})" if batch else f"({num_entries},)"
        raise ValueError(
            f"{source} must have one entry per action, shape {expected}; got shape "
            f"{shape}{_shape_hint(array, sizes)}"
        )
    checked: Mask = array == 1
    # Neither 0 nor 1, for example NaN: counted as nonzero, but not as available.
    if array.dtype.kind not in "biuf" or (
        np.count_nonzero(checked) != np.count_nonzero(array)
    ):
        raise ValueError(
            f"{source} must be 1 where an action is available and 0 elsewhere; got "
            f"{array[~checked].ravel()[:5].tolist()} of type {array.dtype}"
        )
    starts = np.cumsum([0, *sizes[:-1]])
    has_action = np.logical_or.reduceat(checked, starts, axis=-1)
    if has_action.all():
        return checked
    if not final:
        raise ValueError(
            f"{source} offers no action: draw the set again, or let an action such as "
            "waiting always be available"
        )
    has_none: Mask = ~np.repeat(has_action, sizes, axis=-1)
    return checked | has_none


def _shape_hint(array: NDArray[Any], sizes: list[int]) -> str:
    """Return the cure for a mask of a wrong shape, where there is one."""
    if len(sizes) > 1 and array.shape[-len(sizes) :] == tuple(sizes):
        return (
            ", a joint mask of all combinations: number these by "
            "sas_gym.FlattenActions(env)"
        )
    is_list = array.ndim == 1 and array.dtype.kind in "iu" and len(sizes) == 1
    if is_list and len(array) and 0 <= array.min() <= array.max() < sizes[0]:
        return (
            ". A list of available actions becomes a mask by "
            f"numpy.isin(range({sizes[0]}), actions)"
        )
    return ""


def masked_space(bare: gym.Space[Any], num_actions: int) -> Dict:
    """Return the space of an observation with its mask.

    The keys of a dict stay; any other observation goes under the key `observation`.
    """
    spaces = dict(bare.spaces) if isinstance(bare, Dict) else {"observation": bare}
    # MultiBinary, as VecNormalize would silently normalise a Box.
    return Dict({**spaces, MASK_KEY: MultiBinary(num_actions)})


def has_mask(space: gym.Space[Any]) -> bool:
    """Return whether observations of a space carry the action mask."""
    return isinstance(space, Dict) and MASK_KEY in space.spaces


def with_mask(observation: Any, mask: NDArray[Any]) -> dict[str, Any]:
    """Return an observation with its mask, as `masked_space` describes.

    One observation with its mask, or a batch of both. The mask becomes a new one in the
    type that `Discrete.sample` takes.
    """
    if isinstance(observation, dict):
        return {**observation, MASK_KEY: int_mask(mask)}
    return {"observation": observation, MASK_KEY: int_mask(mask)}


def each_with_mask(observations: Any, mask: NDArray[Any]) -> list[dict[str, Any]]:
    """Return a batch of observations and masks as one dict per observation."""
    if isinstance(observations, dict):
        batch = with_mask(observations, mask)
        rows = zip(*batch.values(), strict=True)
        return [dict(zip(batch, row, strict=True)) for row in rows]
    pairs = zip(observations, int_mask(mask), strict=True)
    # Written out: made for every episode that ends.
    return [{"observation": seen, MASK_KEY: available} for seen, available in pairs]


def int_mask(mask: NDArray[Any]) -> NDArray[np.int8]:
    """Return a copy of a mask in the type that `Discrete.sample` takes."""
    return mask.astype(np.int8)


def sample_actions(mask: NDArray[Any], rng: Generator) -> NDArray[np.intp]:
    """Draw one available action per row of masks [N, A] of any type, uniformly.

    Example:
        >>> sample_actions(np.array([[0, 1, 0], [0, 0, 1]]), np.random.default_rng())
        array([1, 2])
    """
    drawn: NDArray[np.intp] = np.where(mask, rng.random(mask.shape), -1.0).argmax(
        axis=1
    )
    return drawn
