"""Gymnasium's and Stable-Baselines3's checkers, kept inside the action sets."""

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import check_env as gymnasium_check_env

from sas_gym._mask_source import MaskName
from sas_gym._wrappers import MaskInObservation, RepairAction
from sas_gym.checking._values import fault


class _ForCheckers(RepairAction):
    """The environment of the checkers, in which they may take every action.

    It has a generator and no spec where the checkers would fail for the lack of one:
    Jumanji's environments are no Gymnasium environments inside, and wrappers of users
    cannot be made again from a spec.
    """

    _generator: np.random.Generator | None = None

    @property
    def _is_foreign(self) -> bool:
        return not hasattr(self.env.unwrapped, "_np_random")

    @property
    def unwrapped(self) -> Any:
        return self if self._is_foreign else self.env.unwrapped

    @property
    def _np_random(self) -> Any:  # type: ignore[override]  # Gymnasium's is a variable
        return self._generator

    @property
    def spec(self) -> Any:  # type: ignore[override]  # likewise
        spec = self.env.spec
        wrappers = () if spec is None else spec.additional_wrappers
        can_be_made = all(wrapper.kwargs is not None for wrapper in wrappers)
        return spec if can_be_made else None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> Any:
        if seed is not None or self._generator is None:
            self._generator = np.random.default_rng(seed)
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        # Stable-Baselines3's checker refuses NumPy's booleans, its agents do not.
        return observation, float(reward), bool(terminated), bool(truncated), info


def run_stock_checkers(
    env: gym.Env[Any, Any], mask: MaskName | None, skip_render_check: bool
) -> None:
    """Run the checkers; an error by accident is a fault, too."""
    seen = _ForCheckers(MaskInObservation(env, mask=mask))
    skip_render_check |= seen.spec is None and env.spec is not None
    with warnings.catch_warnings():
        # It has to be wrapped, or the checkers would act outside the sets.
        warnings.filterwarnings("ignore", ".*is different from the unwrapped version")
        try:
            gymnasium_check_env(seen, skip_render_check=skip_render_check)
        except (AttributeError, TypeError) as error:
            raise _stopped("Gymnasium", error) from error
        try:
            from stable_baselines3.common.env_checker import check_env as sb3_check_env
        except ImportError:
            return
        try:
            sb3_check_env(seen, skip_render_check=True)
        except (AttributeError, TypeError) as error:
            raise _stopped("Stable-Baselines3", error) from error


def _stopped(checker: str, error: Exception) -> AssertionError:
    return fault(
        f"{checker}'s checker stopped with {type(error).__name__}: {error}. It calls "
        "methods that every environment of Gymnasium has: derive the class from "
        "gymnasium.Env, and call super().reset(seed=seed) first in its reset()"
    )
