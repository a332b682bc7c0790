"""Running normalisation of observations."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from torch import nn

from sas_agents.models._features import ArrayObs
from sas_gym._types import NDArray

# Largest size of a normalised number.
CLIP = 10.0
# An image has this many axes: its pixels share a scale already.
_IMAGE_AXES = 3
# A column counts as constant if its variance is this small beside its square.
_CONSTANT = 1e-12


class Normalizer(nn.Module):
    """Gives the numbers of observations mean 0 and standard deviation 1.

    The statistics are those of all observations given to `observe`. They change in no
    other way, so that a policy is fixed while it plays.

    Args:
        space: The space of the observations, without the mask.
        row_keys: Keys whose entries have one row per action: the columns of all rows
            share their statistics.
    """

    shift: th.Tensor
    scale: th.Tensor

    def __init__(self, space: gym.Space[Any], row_keys: Sequence[str] = ()) -> None:
        super().__init__()
        self._is_dict = isinstance(space, spaces.Dict)
        parts = space.spaces if isinstance(space, spaces.Dict) else {"": space}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._slices: dict[str, slice] = {}
        end = 0
        for key, part in parts.items():
            if has_scale(part):
                assert part.shape is not None  # as that of every Box
                shape = part.shape[1:] if key in row_keys else part.shape
                start, end = end, end + int(np.prod(shape))
                self._shapes[key], self._slices[key] = shape, slice(start, end)
        self._count = 0
        # In double precision, as sums of many squares are.
        self._mean, self._variance = np.zeros(end), np.ones(end)
        self.register_buffer("shift", th.zeros(end), persistent=False)
        self.register_buffer("scale", th.ones(end), persistent=False)

    @property
    def keys(self) -> list[str]:
        """The keys of numbers in observations."""
        return [key or "observation" for key in self._slices]

    @property
    def num_observed(self) -> int:
        """Number of observations that the statistics are of."""
        return self._count

    def observe(self, obs: Any) -> None:
        """Add a batch of observations to the statistics.

        Args:
            obs: The observations as arrays, without the mask.
        """
        if not self._slices:
            return
        count = len(obs[next(iter(self._slices))] if self._is_dict else obs)
        mean, variance = np.empty_like(self._mean), np.empty_like(self._variance)
        for key, part in self._slices.items():
            values = np.asarray(obs[key] if self._is_dict else obs, dtype=np.float64)
            rows = values.reshape(-1, part.stop - part.start)
            mean[part], variance[part] = rows.mean(axis=0), rows.var(axis=0)
        # The statistics of both batches together (Chan, Golub and LeVeque, 1979).
        total = self._count + count
        share = count / total
        change = mean - self._mean if self._count else np.zeros_like(mean)
        old = self._mean if self._count else mean
        between = share * (1 - share) * change**2
        self._variance = (1 - share) * self._variance + share * variance + between
        self._mean = old + share * change
        self._count = total
        self._set_factors()

    def arrays(self, obs: Any) -> Any:
        """Return normalised observations, given and returned as arrays."""
        if not self._count:
            return obs
        shift, scale = self.shift.numpy(force=True), self.scale.numpy(force=True)
        if not self._is_dict:
            return self._normalized(obs, shift, scale, "")
        return obs | {
            key: self._normalized(obs[key], shift, scale, key) for key in self._slices
        }

    def forward(self, obs: Any) -> Any:
        """Return normalised observations, given and returned as tensors."""
        if not self._is_dict:
            return self._tensor(obs, "") if self._slices else obs
        return obs | {key: self._tensor(obs[key], key) for key in self._slices}

    def far_keys(self, obs: ArrayObs, bound: float) -> list[str]:
        """Return the keys whose root mean square exceeds a bound."""
        return [
            key
            for key in self._slices
            if np.sqrt(np.mean(np.square(obs[key or "observation"], dtype=float)))
            > bound
        ]

    def get_extra_state(self) -> th.Tensor:
        """Return the statistics as sums of three numbers in single precision.

        They are exact so, on devices without double precision, too.
        """
        rest = np.concatenate([[self._count], self._mean, self._variance])
        parts = np.empty((3, len(rest)), np.float32)
        for part in parts:
            part[:] = rest
            rest = rest - part
        return th.from_numpy(parts)

    def set_extra_state(self, state: th.Tensor) -> None:
        """Take over statistics that `get_extra_state` returned."""
        numbers = state.cpu().double().sum(dim=0).numpy()
        self._count = int(numbers[0])
        self._mean, self._variance = np.split(numbers[1:], 2)
        self._set_factors()

    def _set_factors(self) -> None:
        is_constant = self._variance <= _CONSTANT * (1 + self._mean**2)
        deviation = np.sqrt(np.where(is_constant, 1.0, self._variance))
        device = self.shift.device
        self.shift = th.as_tensor(self._mean, dtype=th.float32).to(device)
        self.scale = th.as_tensor(1 / deviation, dtype=th.float32).to(device)

    def _normalized(
        self, values: NDArray[Any], shift: NDArray[Any], scale: NDArray[Any], key: str
    ) -> NDArray[Any]:
        part, shape = self._slices[key], self._shapes[key]
        centred: NDArray[Any] = values.astype(np.float32) - shift[part].reshape(shape)
        centred *= scale[part].reshape(shape)
        np.clip(centred, -CLIP, CLIP, out=centred)
        return centred

    def _tensor(self, values: th.Tensor, key: str) -> th.Tensor:
        part, shape = self._slices[key], self._shapes[key]
        centred = values.float() - self.shift[part].reshape(shape)
        return (centred * self.scale[part].reshape(shape)).clamp(-CLIP, CLIP)


def has_scale(space: gym.Space[Any]) -> bool:
    """Return whether a space is of numbers in units of their own: no image, no code."""
    return (
        isinstance(space, spaces.Box)
        and np.issubdtype(space.dtype, np.floating)
        and len(space.shape) < _IMAGE_AXES
    )
