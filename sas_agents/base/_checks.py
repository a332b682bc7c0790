"""Checks of what reaches an agent: settings, time limits, observations, rewards."""

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch as th
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.type_aliases import Schedule
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecEnvWrapper

from sas_agents.base._user_warnings import warn_user
from sas_agents.models._features import ArrayObs
from sas_agents.vec_env._mask_in_observation import VecMaskInObservation
from sas_agents.vec_env._vec_env import VectorEnvAdapter
from sas_gym import SASVectorEnv
from sas_gym._arguments import (
    check_finite_number,
    check_fraction,
    check_integer,
    check_number,
)
from sas_gym._wrappers import episodes_end
from sas_gym.masks import MASK_KEY, check_masks, int_mask

if TYPE_CHECKING:
    from sas_agents.base._algorithm import MaskedAlgorithm


# Steps of each environment without the end of an episode after which agents warn.
LONG_EPISODE = 1_000
# Episodes with which agents compare what they have learned, and the difference, in
# standard errors, from which on they warn: one training in a thousand by chance.
MIN_EPISODES, WORSE_BY = 30, 3.1


def check_rate(name: str, rate: Any) -> None:
    """Raise `ValueError` unless a rate is a finite number >= 0, or a schedule."""
    if not callable(rate):
        check_number(name, rate)


def rate_at(name: str, schedule: Schedule, progress: float) -> float:
    """Return the rate of a schedule.

    Args:
        name: Name of the setting.
        schedule: The schedule.
        progress: Share of the training that remains.

    Raises:
        ValueError: Unless the rate is a finite number of at least 0.
    """
    rate = schedule(progress)
    if not 0 <= rate < math.inf:
        raise ValueError(f"{name} must be a finite number of at least 0, got {rate!r}")
    return rate


def check_positive(name: str, number: Any) -> None:
    """Raise `ValueError` unless a number is finite and > 0, or a schedule."""
    check_rate(name, number)
    if number == 0:
        raise ValueError(f"{name} must be greater than 0, got 0; None switches it off")


def check_double_q(name: str, choice: Any) -> None:
    """Raise `ValueError` unless it is one of the three kinds of targets."""
    if choice not in (False, True, "clipped"):
        raise ValueError(f'{name} must be False, True or "clipped", got {choice!r}')


# What the agents' settings must be, by their names; a setting that an agent does not
# have, or that is `None` where this is a choice, is left out.
_SETTINGS: dict[str, Callable[[str, Any], None]] = {
    "learning_rate": check_rate,
    "critic_learning_rate": check_rate,
    "w_learning_rate": check_rate,
    "gamma": check_fraction,
    "tau": check_fraction,
    "gae_lambda": check_fraction,
    "weight_decay": check_fraction,
    "w_memory": check_fraction,
    "damping": check_number,
    "ent_coef": check_finite_number,
    "vf_coef": check_finite_number,
    "clip_range": check_positive,
    "target_kl": check_positive,
    "ridge": check_number,
    "exploration_fraction": check_fraction,
    "exploration_initial_eps": check_fraction,
    "exploration_final_eps": check_fraction,
    "double_q": check_double_q,
    "n_steps": partial(check_integer, least=1),
    "n_epochs": partial(check_integer, least=1),
    "w_steps": partial(check_integer, least=1),
    "buffer_size": partial(check_integer, least=1),
    "batch_size": partial(check_integer, least=1),
    "learning_starts": partial(check_integer, least=0),
    "gradient_steps": partial(check_integer, least=-1),
    "target_update_interval": partial(check_integer, least=1),
    "_stats_window_size": partial(check_integer, least=1),
}


def checked_timesteps(total_timesteps: float) -> int:
    """Return a number of steps as an integer; 1e6, which is a float, is one, too."""
    is_float = isinstance(total_timesteps, float | np.floating)
    if is_float and float(total_timesteps).is_integer():
        total_timesteps = int(total_timesteps)
    check_integer("total_timesteps", total_timesteps, least=0)
    return int(total_timesteps)


def check_log_interval(log_interval: int | None) -> None:
    """Raise `ValueError` unless it is a number of rollouts or episodes, or `None`."""
    if log_interval is not None:
        check_integer("log_interval", log_interval, least=1)


def check_has_env(agent: Any) -> None:
    """Raise `ValueError` for an agent that was made with `env=None`."""
    if not hasattr(agent, "n_envs"):
        raise ValueError("env is None: pass an environment, its id or a VecEnv")


def check_settings(agent: Any) -> None:
    """Raise `ValueError` for a setting that could only fail or mislead later.

    NumPy's numbers, which searches draw, become Python's: arrays of single precision
    would take on theirs.
    """
    for name, check in _SETTINGS.items():
        value = getattr(agent, name, None)
        if value is not None or name == "gamma":
            check(name.removeprefix("_"), value)
        if isinstance(value, np.generic):
            setattr(agent, name, value.item())
    weights = np.asarray(getattr(agent, "baseline_weights", (0.0, 0.0)))
    if weights.shape != (2,) or not np.isfinite(weights).all():
        raise ValueError(
            f"baseline_weights must be two finite numbers, got {weights.tolist()}"
        )
    # DQN says by infinity that gradients are not clipped, QR-DQN by None.
    norm: Any = getattr(agent, "max_grad_norm", None)
    if norm is not None and not (isinstance(norm, int | float) and norm >= 0):
        raise ValueError(f"max_grad_norm must be a number of at least 0, got {norm!r}")


def check_observations(
    obs: ArrayObs,
    sizes: list[int],
    when: str,
    *,
    num_envs: int | None,
    trusts_masks: bool,
) -> ArrayObs:
    """Return observations whose masks and numbers an agent can use.

    Args:
        obs: The observations with their masks.
        sizes: Number of actions of each dimension of the action space.
        when: At which step, for the error message.
        num_envs: Number of environments; `None` for one observation of a final state,
            where nobody acts.
        trusts_masks: Whether the masks were checked where they come from.
    """
    for key, values in obs.items():
        if key != MASK_KEY:
            check_finite(f"observation[{key!r}]", values, when)
    if trusts_masks:
        return obs
    final = num_envs is None
    checked = check_masks(
        obs[MASK_KEY],
        sizes,
        f"observation[{MASK_KEY!r}] {when}",
        batch_shape=() if num_envs is None else (num_envs,),
        final=final,
    )
    return {**obs, MASK_KEY: int_mask(checked)} if final else obs


def is_finite(array: NDArray[Any]) -> bool:
    """Return whether no number is NaN or infinite."""
    # At every step: for few numbers `all` takes twice as long as counting.
    return array.dtype.kind != "f" or np.count_nonzero(np.isfinite(array)) == array.size


def check_finite(name: str, values: NDArray[Any], when: str) -> None:
    """Raise `ValueError` for NaN and infinity, before anything is learned from them."""
    array = np.asarray(values)
    if is_finite(array):
        return
    wrong = ~np.isfinite(array)
    where = np.unique(wrong.nonzero()[0])[:5].tolist() if array.ndim else [0]
    raise ValueError(
        f"{name} is not finite {when}: {array[wrong].ravel()[:5].tolist()} in rows "
        f"{where}. Learning stops here, as it would turn every weight into NaN: fix "
        "the environment's reset() and step()"
    )


def has_checked_masks(env: VecEnv) -> bool:
    """Return whether the masks of a `VecEnv` are checked where they come from."""
    while isinstance(env, VecEnvWrapper):
        if isinstance(env, VecMaskInObservation):
            return True
        env = env.venv
    inner = env.vector_env.unwrapped if isinstance(env, VectorEnvAdapter) else None
    return isinstance(inner, SASVectorEnv)


def all_episodes_end(env: VecEnv) -> bool:
    """Return whether a time limit is found, or a task says that it needs none."""
    base = env.unwrapped
    if isinstance(base, VectorEnvAdapter):
        return _vector_episodes_end(base.vector_env)
    if isinstance(base, DummyVecEnv):
        return all(map(episodes_end, base.envs))
    # Elsewhere, as in other processes, by what gymnasium.wrappers.TimeLimit has.
    if env.has_attr("_max_episode_steps"):
        return True
    tasks = env.get_attr("task") if env.has_attr("task") else [None]
    return all(getattr(task, "always_ends", False) for task in tasks)


def _vector_episodes_end(vector_env: VectorEnv[Any, Any, Any]) -> bool:
    inner = vector_env.unwrapped
    if isinstance(inner, SASVectorEnv):
        return inner.max_episode_steps is not None or inner.task.always_ends
    if isinstance(inner, SyncVectorEnv):
        return all(map(episodes_end, inner.envs))
    specs: Any = [inner.spec]
    if isinstance(inner, AsyncVectorEnv):
        specs = inner.get_attr("spec")
    return all(spec is not None and spec.max_episode_steps for spec in specs)


def check_finite_values(
    name: str, values: th.Tensor | NDArray[Any], num_timesteps: int, cure: str
) -> None:
    """Stop at NaN or infinity.

    Args:
        name: What the values are.
        values: The values.
        num_timesteps: Number of steps taken so far.
        cure: What may help.
    """
    if isinstance(values, th.Tensor):
        # On the CPU, NumPy takes half of torch's time.
        is_on_cpu = values.device.type == "cpu"
        values = values.detach()
        fine = is_finite(values.numpy()) if is_on_cpu else bool(values.isfinite().all())
    else:
        fine = is_finite(values)
    if not fine:
        raise ValueError(
            f"{name} not finite (NaN or infinite) after {num_timesteps} steps: {cure}"
        )


class LearningChecks(BaseCallback):
    """Stops learning where it would go wrong silently, whatever the algorithm's loop.

    A step is checked before it is kept, and the weights after each update.
    """

    model: "MaskedAlgorithm"

    def _init_callback(self) -> None:
        self._warned_of_endless_episodes = False
        self._first_episodes: list[dict[str, float]] = []
        self._num_updates = self.model._n_updates
        # Listed once: at every update of SASQ it took longer than looking at them.
        self._weights = list(self.model.policy.named_parameters())

    def _on_step(self) -> bool:
        seen = self.locals
        self.model._check_step(
            seen["new_obs"], seen["rewards"], seen["dones"], seen["infos"]
        )
        return True

    def _on_rollout_start(self) -> None:
        self._check_weights()
        self._warn_of_endless_episodes()
        episodes = self.model.ep_info_buffer
        if not self._first_episodes and episodes and len(episodes) == episodes.maxlen:
            self._first_episodes = list(episodes)

    def _on_training_end(self) -> None:
        self._check_weights()
        self._warn_of_endless_episodes()
        self._warn_of_a_worse_policy()

    def _warn_of_a_worse_policy(self) -> None:
        """Warn if the last episodes have smaller returns than the first ones."""
        first, last = self._first_episodes, list(self.model.ep_info_buffer or [])
        if len(first) < MIN_EPISODES or any(one is first[-1] for one in last):
            return
        before, after = (np.array([one["r"] for one in part]) for part in (first, last))
        error = np.sqrt((before.var(ddof=1) + after.var(ddof=1)) / len(before))
        if after.mean() < before.mean() - WORSE_BY * error:
            warn_user(
                f"the last {len(after)} episodes have a mean return of "
                f"{after.mean():.4g}, the first {len(before)} had {before.mean():.4g}: "
                "the policy became worse. Lower learning_rate, scale observations and "
                "rewards, or try another agent"
            )

    def _warn_of_endless_episodes(self) -> None:
        """Warn once if no episode has ended for long and no time limit is found."""
        num_steps = self.model.num_timesteps - self.model._last_end
        long = LONG_EPISODE * self.training_env.num_envs
        if num_steps < long or self._warned_of_endless_episodes:
            return
        self._warned_of_endless_episodes = True
        if not all_episodes_end(self.training_env):
            warn_user(
                f"no episode has ended in the last {num_steps} steps and no time limit "
                "was found: an evaluation may never end. Wrap the environment in "
                "gymnasium.wrappers.TimeLimit, or pass max_episode_steps"
            )

    def _check_weights(self) -> None:
        if self.model._n_updates == self._num_updates:
            return
        self._num_updates = self.model._n_updates
        for name, weights in self._weights:
            check_finite_values(
                f"the weights {name} are",
                weights,
                self.num_timesteps,
                "check rewards and observations, or lower learning_rate",
            )
