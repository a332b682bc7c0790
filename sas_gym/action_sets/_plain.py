"""Distributions of the action sets as plain values, which a spec can write as JSON."""

import inspect
from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec

from sas_gym.action_sets._base import ActionSets
from sas_gym.action_sets._correlated import Explicit, Grouped
from sas_gym.action_sets._independent import Independent
from sas_gym.action_sets._persistent import Markov, PerEpisode
from sas_gym.action_sets._things import Things

_CLASSES: dict[str, type[ActionSets]] = {
    each.__name__: each
    for each in (Independent, Explicit, Grouped, Things, Markov, PerEpisode)
}
# The key of the class's name, beside those of its arguments.
_KEY = "distribution"


def as_plain(value: Any) -> Any:
    """Return distributions as dicts, arrays as lists, and other values unchanged.

    So is a distribution of another class, of which `json` says that it cannot write it.
    """
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: as_plain(each) for key, each in value.items()}
    name = type(value).__name__
    if _CLASSES.get(name) is not type(value):
        return value
    # Each class keeps its arguments under their own names.
    arguments = inspect.signature(type(value)).parameters
    return {_KEY: name} | {each: as_plain(getattr(value, each)) for each in arguments}


def from_plain(value: Any) -> Any:
    """Return the distribution of a dict of `as_plain`, and other values unchanged.

    Raises:
        ValueError: If a dict stands for none.
    """
    if not isinstance(value, Mapping):
        return value
    arguments = {key: from_plain(each) for key, each in value.items() if key != _KEY}
    try:
        return _CLASSES[value[_KEY]](**arguments)
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"action_sets as a dict must have the key {_KEY!r}, one of "
            f"{sorted(_CLASSES)}, and that class's arguments; got {dict(value)}"
        ) from error


class PlainSpec:
    """The spec of an environment, with arguments that `EnvSpec.to_json` can write."""

    _spec: EnvSpec | None = None

    @property
    def spec(self) -> EnvSpec | None:
        """How the environment was made, if by Gymnasium."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        self._spec = spec
        if spec is not None:
            self._spec = copy(spec)
            self._spec.kwargs = {key: as_plain(v) for key, v in spec.kwargs.items()}
