"""Rows of features per action: one network scores every action."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch as th
from gymnasium import spaces
from jaxtyping import Float
from numpy.typing import ArrayLike
from stable_baselines3.common.utils import obs_as_tensor

from sas_agents._fast import row_dots
from sas_agents.models._encoder import Encoder
from sas_agents.models._features import ArrayObs
from sas_agents.models._mlp import Dense, Inputs
from sas_agents.models._model import Encoded, as_array
from sas_gym._types import NDArray
from sas_gym.masks import MASK_KEY

ACTION_FEATURES = "action_features"
"""The key of an observation that has one row of features per action."""
# Rows of all samples together whose single gradients are measured.
_MEASURED_ROWS = 65_536


@dataclass(frozen=True)
class RowLayout:
    """The places of the actions' features.

    Args:
        keys: Keys of observations whose entries have one row per action.
        sizes: Number of features of each key.
        static: Features that never change, standardised, one row per action; or None.
    """

    keys: tuple[str, ...]
    sizes: tuple[int, ...]
    static: Float[NDArray[Any], "A F"] | None

    @property
    def num_features(self) -> int:
        """Number of features of an action."""
        static = 0 if self.static is None else self.static.shape[1]
        return sum(self.sizes) + static

    def rows(self, obs: dict[str, Any]) -> Float[NDArray[Any], "B A F"]:
        """Return the rows of observations; one sample if all rows are static."""
        parts = [
            obs[key].reshape(*obs[key].shape[:2], size).astype(np.float32, copy=False)
            for key, size in zip(self.keys, self.sizes, strict=True)
        ]
        if self.static is None:
            return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2)
        if not parts:
            return self.static[None]
        static = np.broadcast_to(self.static, (len(parts[0]), *self.static.shape))
        return np.concatenate([*parts, static], axis=2)


def row_layout(
    space: spaces.Dict,
    num_actions: int,
    keys: Sequence[str] | None,
    static: ArrayLike | None,
) -> RowLayout | None:
    """Return the places of the actions' features; None where there are none.

    Args:
        space: The space of the observations.
        num_actions: Number of actions.
        keys: Keys with one row per action; None for `action_features`, if it is there.
        static: Features that never change, one row per action.

    Raises:
        ValueError: If a key does not exist, or has another number of rows.
    """
    if keys is None:
        known = space.spaces.keys()
        keys = [ACTION_FEATURES] if ACTION_FEATURES in known and static is None else []
    sizes = [_row_size(space, key, num_actions) for key in keys]
    fixed = None if static is None else _static_rows(static, num_actions)
    if not keys and fixed is None:
        return None
    return RowLayout(tuple(keys), tuple(sizes), fixed)


def unused_row_keys(
    space: spaces.Dict, num_actions: int, layout: RowLayout | None
) -> list[str]:
    """Return the keys with one entry or row per action that are not used as rows."""
    used = () if layout is None else layout.keys
    return [
        key
        for key, part in space.spaces.items()
        if key not in (MASK_KEY, *used)
        and isinstance(part, spaces.Box)
        and 1 <= len(part.shape) <= 2
        and part.shape[0] == num_actions > 1
    ]


def standardized(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return columns with mean 0 and standard deviation 1; constant ones become 0."""
    centred: NDArray[np.float32] = features - features.mean(axis=0)
    scale = centred.std(axis=0)
    centred /= np.where(scale > 0, scale, 1)
    return centred


def _row_size(space: spaces.Dict, key: str, num_actions: int) -> int:
    if key not in space.spaces or key == MASK_KEY:
        known = sorted(set(space.spaces) - {MASK_KEY})
        raise ValueError(
            f"action_keys names {key!r}, but the observations have the keys {known}"
        )
    part = space[key]
    shape = part.shape if isinstance(part, spaces.Box) else ()
    if len(shape) not in (1, 2) or shape[0] != num_actions:
        raise ValueError(
            f"observation_space[{key!r}] must be a Box with one row per action, shape "
            f"({num_actions}, k) or ({num_actions},), got {part}: correct the space, "
            "or pass policy_kwargs={'action_keys': []} to take the entry for part of "
            "the state"
        )
    return int(np.prod(shape[1:]))


def _static_rows(features: ArrayLike, num_actions: int) -> NDArray[np.float32]:
    rows = np.asarray(features, dtype=np.float32)
    if rows.ndim != 2 or len(rows) != num_actions:
        raise ValueError(
            f"action_features must have one row per action, {num_actions} rows; got "
            f"shape {rows.shape}"
        )
    if not np.isfinite(rows).all():
        raise ValueError("action_features must be finite, got NaN or infinity")
    return standardized(rows)


class RowEncoder(Encoder):
    """Turns observations into rows of features per action, and a context.

    Args:
        layout: The places of the actions' features.
        **arguments: Arguments of `Encoder`.
    """

    def __init__(self, layout: RowLayout, **arguments: Any) -> None:
        super().__init__(**arguments, row_keys=layout.keys)
        self._layout = layout

    def forward(self, obs: dict[str, th.Tensor]) -> Any:
        """Return the rows and the context of a batch of observations."""
        rows, rest = self._split(self.normalized(obs))
        num_samples = len(next(iter(obs.values())))
        parts = [
            rows[key].reshape(num_samples, -1, size).float()
            for key, size in zip(self._layout.keys, self._layout.sizes, strict=True)
        ]
        if self._layout.static is not None:
            static = th.as_tensor(self._layout.static, device=self._place.device)
            parts.append(static.expand(num_samples, -1, -1))
        if self.features is None:
            context = parts[0].new_zeros((num_samples, 0))
        else:
            context = self.features(self._preprocessed(rest))
        return {"rows": th.cat(parts, dim=2), "context": context}

    def encode(self, obs: ArrayObs) -> Encoded:
        """Return the rows and the context of a batch of observations."""
        rows, rest = self._split(self.normalized_arrays(obs))
        return Rows(self._layout.rows(rows), self._context(rest, obs))

    def encode_chosen(
        self, obs: ArrayObs, actions: NDArray[Any]
    ) -> tuple[Encoded, NDArray[np.float32]]:
        """Return the inputs of one action per observation, and the weights of outputs.

        Only the rows of these actions are read.
        """
        place = np.arange(len(actions)), actions
        chosen = {key: obs[key][place][:, None] for key in self._layout.keys}
        rows, rest = self._split(self.normalized_arrays(obs | chosen))
        parts = [
            rows[key].reshape(len(actions), size).astype(np.float32, copy=False)
            for key, size in zip(self._layout.keys, self._layout.sizes, strict=True)
        ]
        if self._layout.static is not None:
            parts.append(self._layout.static[actions])
        features = np.concatenate([*parts, self._context(rest, obs)], axis=1)
        return Dense(features), np.ones((len(actions), 1), np.float32)

    def _split(self, bare: Any) -> tuple[dict[str, Any], Any]:
        """Return the entries with rows, and the rest as its extractor takes it."""
        if not self._layout.keys:
            return {}, bare
        rows = {key: bare[key] for key in self._layout.keys}
        rest = {key: part for key, part in bare.items() if key not in rows}
        return rows, rest["observation"] if list(rest) == ["observation"] else rest

    def _context(self, rest: Any, obs: ArrayObs) -> NDArray[np.float32]:
        if self.features is None:
            return np.zeros((len(obs[MASK_KEY]), 0), np.float32)
        if self._arrays is not None:
            context: NDArray[np.float32] = self._arrays(rest)
            return context
        with th.no_grad():
            tensors: Any = obs_as_tensor(rest, self._place.device)
            return as_array(self.features(self._preprocessed(tensors)))


class Rows(Inputs):
    """One row of features per action, and a context that all actions share.

    A layer has one row of outputs per sample and action, sample by sample.

    Args:
        values: The rows, [B, A, F]; [1, A, F] if all samples share them.
        context: The context, [B, C].
    """

    def __init__(self, values: NDArray[Any], context: NDArray[Any]) -> None:
        super().__init__(values)
        self.context = context

    def __len__(self) -> int:
        return len(self.context)

    def __getitem__(self, index: Any) -> Self:
        return self.__class__(
            self.values if self._is_shared else self.values[index], self.context[index]
        )

    @property
    def _is_shared(self) -> bool:
        return len(self.values) == 1

    @property
    def measured(self) -> slice:
        """The samples whose single gradients are measured."""
        num_rows = len(self) * self.values.shape[1]
        return slice(None, None, max(num_rows // _MEASURED_ROWS, 1))

    def tensors(self, device: th.device) -> Any:
        """Return the argument of a model's `forward`."""
        rows = th.as_tensor(self.values, device=device)
        return {
            "rows": rows.expand(len(self), -1, -1),
            "context": th.as_tensor(self.context, device=device),
        }

    @property
    def num_rows(self) -> int:  # type: ignore[override]  # elsewhere a constant
        """Rows of outputs per sample."""
        size: int = self.values.shape[1]
        return size

    def apply(
        self, weight: Float[NDArray[Any], "F O"], bias: NDArray[Any] | None = None
    ) -> Float[NDArray[Any], "R O"]:
        """Multiply each action's row and the context with a matrix, and add a bias."""
        size = self.values.shape[2]
        products = self.values.reshape(-1, size) @ weight[:size]
        by_action = products.reshape(*self.values.shape[:2], -1)
        shared = self.context @ weight[size:]
        if bias is not None:
            shared += bias
        result: NDArray[Any] = by_action + shared[:, None]
        return result.reshape(-1, weight.shape[1])

    def sum_outer(
        self, errors: Float[NDArray[Any], "R O"]
    ) -> Float[NDArray[Any], "F O"]:
        """Return the sum of the samples' outer products."""
        size = self.values.shape[2]
        by_sample = self._by_sample(errors)
        if self._is_shared:
            own = self.values[0].T @ by_sample.sum(axis=0)
        else:
            own = self.values.reshape(-1, size).T @ errors
        return np.concatenate([own, self.context.T @ by_sample.sum(axis=1)])

    def sum_squares(
        self, errors: Float[NDArray[Any], "R O"]
    ) -> Float[NDArray[Any], "F O"]:
        """Return the sum of the samples' outer products, each squared."""
        by_sample = self._by_sample(errors)
        products = self.values.transpose(0, 2, 1) @ by_sample
        shared = (self.context**2).T @ by_sample.sum(axis=1) ** 2
        return np.concatenate([np.square(products).sum(axis=0), shared])

    def squared_norms(
        self, errors: Float[NDArray[Any], "R O"], has_bias: bool
    ) -> Float[NDArray[Any], " B"]:
        """Return the squared norm of each sample's outer product."""
        by_sample = self._by_sample(errors)
        products = self.values.transpose(0, 2, 1) @ by_sample
        totals = self.totals(errors)
        sizes = row_dots(self.context, self.context) + np.float32(has_bias)
        own: NDArray[Any] = np.square(products).sum(axis=(1, 2))
        return own + row_dots(totals, totals) * sizes

    def hidden(self, values: Float[NDArray[Any], "R O"]) -> Inputs:
        """Return the values of a hidden layer as inputs of the next one."""
        rows = values.reshape(len(self), self.values.shape[1], -1)
        return _HiddenRows(rows, self.context)

    def totals(self, errors: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of the errors of each sample's actions."""
        sums: NDArray[Any] = self._by_sample(errors).sum(axis=1)
        return sums

    def pool(self) -> Inputs:
        """Return the mean of each sample's rows, beside its context."""
        return Pooled(self)

    def _by_sample(self, errors: NDArray[Any]) -> NDArray[Any]:
        return errors.reshape(len(self), self.values.shape[1], -1)


class _HiddenRows(Rows):
    """The values of a hidden layer of every action.

    The context is kept for a pool and enters no product.
    """

    @property
    def activations(self) -> NDArray[Any]:
        """The values, one row per sample and action."""
        rows: NDArray[Any] = self.values.reshape(-1, self.values.shape[2])
        return rows

    @property
    def _is_shared(self) -> bool:
        return False

    def apply(
        self, weight: Float[NDArray[Any], "F O"], bias: NDArray[Any] | None = None
    ) -> Float[NDArray[Any], "R O"]:
        """Multiply each action's values with a matrix, and add a bias."""
        return Dense(self.activations).apply(weight, bias)

    def sum_outer(
        self, errors: Float[NDArray[Any], "R O"]
    ) -> Float[NDArray[Any], "F O"]:
        """Return the sum of the samples' outer products."""
        return Dense(self.activations).sum_outer(errors)

    def sum_squares(
        self, errors: Float[NDArray[Any], "R O"]
    ) -> Float[NDArray[Any], "F O"]:
        """Return the sum of the samples' outer products, each squared."""
        products = self.values.transpose(0, 2, 1) @ self._by_sample(errors)
        sums: NDArray[Any] = np.square(products).sum(axis=0)
        return sums

    def squared_norms(
        self, errors: Float[NDArray[Any], "R O"], has_bias: bool
    ) -> Float[NDArray[Any], " B"]:
        """Return the squared norm of each sample's outer product."""
        by_sample = self._by_sample(errors)
        products = self.values.transpose(0, 2, 1) @ by_sample
        totals = self.totals(errors)
        own: NDArray[Any] = np.square(products).sum(axis=(1, 2))
        return own + row_dots(totals, totals) * np.float32(has_bias)


class Pooled(Dense):
    """The mean of the rows of all actions, available or not, beside the context.

    A function of these is one of the state, and not of the action set.

    Args:
        rows: The rows.
    """

    def __init__(self, rows: Rows) -> None:
        mean = rows.values.mean(axis=1)
        means = np.broadcast_to(mean, (len(rows), mean.shape[1]))
        super().__init__(np.concatenate([means, rows.context], axis=1))
        self._rows = rows

    @property
    def activations(self) -> NDArray[Any]:
        """The values of the hidden layer, one row per sample and action."""
        return self._rows.activations

    def push(self, change: NDArray[Any]) -> NDArray[Any]:
        """Return the change of these inputs that follows from one of the values."""
        _, num_actions, size = self._rows.values.shape
        mean = change.reshape(-1, num_actions, size).mean(axis=1)
        return np.concatenate([mean, np.zeros_like(self._rows.context)], axis=1)

    def pull(self, errors: NDArray[Any]) -> NDArray[Any]:
        """Return the errors of the values that follow from those of these inputs."""
        num_samples, num_actions, size = self._rows.values.shape
        each = errors[:, None, :size] / np.float32(num_actions)
        return np.broadcast_to(each, (num_samples, num_actions, size)).reshape(-1, size)
