"""Wrappers that bring action sets to any environment with discrete actions."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import RecordConstructorArgs
from gymnasium.wrappers import TimeLimit
from numpy.typing import ArrayLike

from sas_gym._types import ALL_ENVS, Ints, Mask
from sas_gym.action_sets import ActionSets
from sas_gym.action_sets._independent import as_action_sets
from sas_gym.action_sets._plain import as_plain, from_plain
from sas_gym.action_sets._sampler import ActionSetSampler
from sas_gym.masks import (
    MASK_KEY,
    REPAIRED_KEY,
    OnUnavailable,
    check_masks,
    check_on_unavailable,
    discrete_actions,
    int_mask,
    mask_sizes,
    masked_space,
    no_mask_error,
    read_masks,
    repair_generator,
    unavailable_action_error,
    with_mask,
)

ResetReturn = tuple[Any, dict[str, Any]]
StepReturn = tuple[Any, Any, bool, bool, dict[str, Any]]


class _MaskWrapper(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """A wrapper that keeps the current action set and returns it.

    The set is the one that the wrapped environment provides; subclasses change it.

    Args:
        env: The environment.
        in_observation: Whether the mask goes into the observation.
        **recorded: The subclass's arguments, for the environment's spec.
    """

    def __init__(
        self, env: gym.Env[Any, Any], in_observation: bool, **recorded: Any
    ) -> None:
        RecordConstructorArgs.__init__(self, **recorded)
        super().__init__(env)
        self._mask_sizes = mask_sizes(env.action_space)
        self._in_observation = in_observation
        if in_observation:
            self.observation_space = masked_space(
                env.observation_space, sum(self._mask_sizes)
            )
        self._mask: Mask | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetReturn:
        """Start an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._mask = self._required(self._inner_mask(observation, info))
        return self._with_mask(observation, info)

    def step(self, action: Any) -> StepReturn:
        """Take an action."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        final = terminated or truncated
        self._mask = self._required(self._inner_mask(observation, info, final))
        observation, info = self._with_mask(observation, info)
        return observation, reward, terminated, truncated, info

    def action_masks(self) -> Mask:
        """Return which actions are available now. Reading draws nothing."""
        if self._mask is None:
            raise ResetNeeded("call reset() first: no action set has been drawn yet")
        return self._mask.copy()

    def _inner_mask(
        self, observation: Any, info: dict[str, Any], final: bool = False
    ) -> Mask | None:
        """Return the mask that the wrapped environment provides, if any."""
        masks = read_masks(self.env, observation, info)
        if not masks:
            return None
        channel, values = next(iter(masks.items()))
        return check_masks(
            values, self._mask_sizes, channel, batch_shape=(), final=final
        )

    def _required(self, mask: Mask | None) -> Mask:
        if mask is None:
            raise no_mask_error(self.env)
        return mask

    def _with_mask(self, observation: Any, info: dict[str, Any]) -> ResetReturn:
        mask = self.action_masks()
        if self._in_observation:
            observation = with_mask(observation, mask)
        return observation, {**info, MASK_KEY: int_mask(mask)}


class _ChangesActions(_MaskWrapper):
    """A wrapper that changes which discrete actions reach the environment."""

    def __init__(
        self, env: gym.Env[Any, Any], in_observation: bool, **recorded: Any
    ) -> None:
        self._actions = discrete_actions(env.action_space)
        self._repair_rng = np.random.default_rng()
        super().__init__(env, in_observation, **recorded)

    def _is_available(self, action: Any) -> bool:
        if not self._actions.contains(action):
            raise ValueError(f"action {action!r} is not in {self._actions}")
        return bool(self.action_masks()[int(action) - int(self._actions.start)])

    def _seed_repairs(self, seed: int | None) -> None:
        """Restart the stream of replaced actions, if there is a seed."""
        if seed is not None:
            self._repair_rng = repair_generator(seed)

    def _replacement(self) -> Any:
        """Return a random available action."""
        choice = self._repair_rng.choice(np.flatnonzero(self.action_masks()))
        return self._actions.dtype.type(choice + self._actions.start)


class StochasticActionSets(_ChangesActions):
    """Give any environment with discrete actions stochastic action sets.

    If the environment provides an action mask of its own, the sets are drawn within it,
    and are never empty.

    Args:
        env: The environment.
        action_sets: Distribution of the action sets, or just the probability that an
            action is available. One that differs by state needs a Discrete observation.
        mask_in_observation: Whether the mask goes into the observation: beside the keys
            of a dict, or beside `observation` otherwise.
        on_unavailable: What an unavailable action does: `"raise"` an error; or give way
            to a random available action (`"repair"`), and `info["repaired"]` says so.
        unavailable_penalty: Cost of a replaced action, subtracted from its reward.

    Example:
        >>> env = StochasticActionSets(gym.make("CartPole-v1"), 0.7)
        >>> obs, info = env.reset(seed=3)
        >>> obs["action_mask"]
        array([0, 1], dtype=int8)
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        action_sets: ActionSets | ArrayLike = 0.8,
        *,
        mask_in_observation: bool = True,
        on_unavailable: OnUnavailable = "raise",
        unavailable_penalty: float = 0.0,
    ) -> None:
        super().__init__(
            env,
            mask_in_observation,
            action_sets=as_plain(action_sets),
            mask_in_observation=mask_in_observation,
            on_unavailable=on_unavailable,
            unavailable_penalty=unavailable_penalty,
        )
        check_on_unavailable(on_unavailable, unavailable_penalty)
        space = env.observation_space
        self._states = space if isinstance(space, gym.spaces.Discrete) else None
        num_states = None if self._states is None else int(self._states.n)
        num_actions = int(self._actions.n)
        sets = as_action_sets(from_plain(action_sets))
        fitted = sets.fit(num_actions, num_states)
        self._sets = ActionSetSampler(fitted, num_actions, num_envs=1)
        self._repairs = on_unavailable == "repair"
        self._penalty = unavailable_penalty

    @property
    def action_sets(self) -> ActionSets:
        """Distribution of the action sets."""
        return self._sets.action_sets

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetReturn:
        """Start an episode, and draw its first action set."""
        observation, info = self.env.reset(seed=seed, options=options)
        if seed is not None or self._mask is None:
            self._sets.seed(seed)
        self._seed_repairs(seed)
        inner = self._inner_mask(observation, info)
        inputs = self._distribution_inputs(observation, inner)
        self._mask = self._sets.reset_at(ALL_ENVS, *inputs)[0]
        return self._with_mask(observation, self._with_repaired(info, False))

    def step(self, action: Any) -> StepReturn:
        """Take an action that is in the current action set."""
        repaired = not self._is_available(action)
        if repaired and not self._repairs:
            raise unavailable_action_error(action, self.action_masks())
        if repaired:
            action = self._replacement()
        observation, reward, terminated, truncated, info = self.env.step(action)
        if repaired and self._penalty:
            reward = float(reward) - self._penalty
        inner = self._inner_mask(observation, info, terminated or truncated)
        inputs = self._distribution_inputs(observation, inner)
        self._mask = self._sets.advance(*inputs)[0]
        info = self._with_repaired(info, repaired)
        observation, info = self._with_mask(observation, info)
        return observation, reward, terminated, truncated, info

    def _with_repaired(self, info: dict[str, Any], repaired: bool) -> dict[str, Any]:
        """Return an info that says whether the action was replaced, if any may be."""
        return {**info, REPAIRED_KEY: repaired} if self._repairs else info

    def _distribution_inputs(
        self, observation: Any, inner: Mask | None
    ) -> tuple[Ints | None, Mask | None]:
        """Return what the distribution of the action sets may depend on."""
        number = None
        if self._states is not None:
            number = np.array([int(observation) - int(self._states.start)])
        return number, None if inner is None else inner[None]


def time_limit(env: gym.Env[Any, Any]) -> int | None:
    """Return the number of steps after which an episode is truncated, if any."""
    # Not `env.spec`: what was not made by `gymnasium.make` has none.
    limits = []
    while isinstance(env, gym.Wrapper):
        if isinstance(env, TimeLimit):
            limits.append(env._max_episode_steps)
        env = env.env
    return min(limits, default=None)


def episodes_end(env: gym.Env[Any, Any]) -> bool:
    """Return whether a time limit is found, or a task says that it needs none."""
    task = getattr(env.unwrapped, "task", None)
    return time_limit(env) is not None or getattr(task, "always_ends", False)


class MaskInObservation(_MaskWrapper):
    """Put the mask that an environment provides elsewhere into its observations.

    It may come from `info["action_mask"]`, as in Gymnasium's Taxi, or from a method
    `action_masks()`; afterwards it is in the observation, in the info and in the
    method. The keys of a dict observation stay beside it; anything else goes under
    `observation`.

    Args:
        env: The environment.

    Example:
        >>> bare = gym.make("SAS/SanFrancisco-v0", mask_in_observation=False)
        >>> list(MaskInObservation(bare).reset(seed=0)[0])
        ['observation', 'action_mask']
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env, in_observation=True)


class RepairAction(_ChangesActions):
    """Replace an unavailable action by a random available one.

    An agent without masks can run so, as a baseline. Each info has the key `repaired`:
    whether the action of the step was replaced (false after a reset).

    Args:
        env: An environment that provides its action mask: in the observation, in the
            info or by a method `action_masks()`.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env, in_observation=False)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetReturn:
        """Start an episode; a seed replays the repairs, too."""
        self._seed_repairs(seed)
        observation, info = super().reset(seed=seed, options=options)
        return observation, {**info, REPAIRED_KEY: False}

    def step(self, action: Any) -> StepReturn:
        """Take the action or, if it is unavailable, another one."""
        repaired = not self._is_available(action)
        if repaired:
            action = self._replacement()
        observation, reward, terminated, truncated, info = super().step(action)
        info = {**info, REPAIRED_KEY: repaired}
        return observation, reward, terminated, truncated, info
