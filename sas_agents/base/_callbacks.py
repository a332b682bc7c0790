"""Stable-Baselines3's callbacks, as the agents use them."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from stable_baselines3.common.callbacks import BaseCallback, ProgressBarCallback
from stable_baselines3.common.vec_env import VecEnv


class BoundedProgressBar(ProgressBarCallback):
    """A progress bar that stays at its end while a last rollout goes beyond it."""

    def _on_step(self) -> bool:
        left = self.pbar.total - self.pbar.n
        self.pbar.update(min(self.training_env.num_envs, left))
        return True


@contextmanager
def wrapped_evaluation_envs(
    callbacks: Iterable[BaseCallback], wrap: Callable[[VecEnv], VecEnv]
) -> Iterator[None]:
    """Wrap the environments that callbacks such as `EvalCallback` evaluate in.

    Set the callbacks up inside. `EvalCallback` warns where the environments of training
    and evaluation have two types: not where only the wrapper of the masks differs.

    Args:
        callbacks: Callbacks, which may hold other callbacks.
        wrap: Wraps an environment once: it returns a wrapped one unchanged.
    """
    found = list(callbacks)
    for callback in found:  # grows while it is read
        env = getattr(callback, "eval_env", None)
        if isinstance(env, VecEnv):
            callback.eval_env = wrap(env)  # type: ignore[attr-defined]
        found += [one for one in _held_callbacks(callback) if one not in found]
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "Training and eval env are not of .*VecMaskInObservation"
        )
        yield


def _held_callbacks(callback: BaseCallback) -> Iterator[BaseCallback]:
    """Yield the callbacks that a callback holds, alone or in lists."""
    for value in vars(callback).values():
        held = value if isinstance(value, list | tuple) else [value]
        yield from (one for one in held if isinstance(one, BaseCallback))
