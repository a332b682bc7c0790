"""Predictions: their randomness, and checks of inputs, weights and actions."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch as th
from numpy.typing import ArrayLike, NDArray

from sas_gym._types import Mask
from sas_gym.masks import MASK_KEY

# Networks compute in single precision, in which larger numbers are infinite.
_LARGEST = np.finfo(np.float32).max


def check_inputs(
    observation: dict[str, Any],
    state: tuple[ArrayLike, ...] | None = None,
    episode_start: ArrayLike | None = None,
) -> None:
    """Raise `ValueError` for NaN or infinity, and name the entry.

    Args:
        observation: One observation or a batch; its mask is checked elsewhere.
        state: Hidden states of a recurrent policy.
        episode_start: Whether each observation starts an episode.
    """
    for key, values in observation.items():
        if key != MASK_KEY:
            _check_input(f"observation[{key!r}]", values)
    for index, values in enumerate(state or ()):
        _check_input(f"state[{index}]", values)
    if episode_start is not None:
        _check_input("episode_start", episode_start)


def _check_input(name: str, values: ArrayLike) -> None:
    array = np.asarray(values)
    if array.dtype.kind != "f":
        return
    is_fine = np.abs(array) <= _LARGEST
    if is_fine.all():
        return
    wrong = np.argwhere(~is_fine)
    first = tuple(wrong[0].tolist())
    entry = f"{name}[{', '.join(map(str, first))}]" if first else name
    others = f", and so are {len(wrong) - 1} more entries" if len(wrong) > 1 else ""
    raise ValueError(
        f"{entry} is {array[first]}{others}: predict() needs finite numbers in single "
        "precision. Fix the environment's reset() and step(), or replace the missing "
        "numbers before predict()"
    )


def check_weights(weights: Iterable[tuple[str, th.Tensor]]) -> None:
    """Raise `ValueError` for NaN or infinite weights, and name them.

    Args:
        weights: The weights by name.
    """
    for name, tensor in weights:
        if not tensor.isfinite().all():
            raise ValueError(
                f"the loaded weights {name} are not finite (NaN or infinite): load an "
                "earlier file, or train again"
            )


def check_available(
    actions: NDArray[Any], action_masks: Mask | NDArray[Any], sizes: list[int]
) -> None:
    """Raise `ValueError` for an action outside its action set.

    Args:
        actions: One action, or a batch of them.
        action_masks: The mask of each action.
        sizes: Number of mask entries of each dimension of the action space.
    """
    by_dimension = actions.reshape(*action_masks.shape[:-1], len(sizes))
    entries = np.cumsum([0, *sizes[:-1]]) + by_dimension.astype(np.intp)
    if not np.take_along_axis(action_masks, entries, axis=-1).all():
        raise ValueError(
            f"the policy chose an unavailable action (actions {actions.tolist()}): its "
            "logits or values are too large for single precision. Train again with a "
            "lower learning_rate, or with scaled rewards and observations"
        )


@contextmanager
def seeded_torch(seed: int, device: th.device) -> Iterator[None]:
    """Let torch draw from a seed, and go on afterwards as if it had not.

    Args:
        seed: The seed.
        device: Where the tensors are, the CPU or a GPU.
    """
    # `fork_rng` takes the devices of CUDA only.
    is_apple = device.type == "mps"
    state = th.mps.get_rng_state() if is_apple else None
    with th.random.fork_rng([device] if device.type == "cuda" else []):
        th.manual_seed(seed)
        try:
            yield
        finally:
            if state is not None:
                th.mps.set_rng_state(state)
