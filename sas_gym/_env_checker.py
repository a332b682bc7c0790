"""A checker for masked environments, ours and others'."""

import warnings
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Dict, MultiBinary
from gymnasium.utils.env_checker import check_env as gymnasium_check_env
from gymnasium.utils.env_checker import data_equivalence

from sas_gym._types import Mask
from sas_gym._wrappers import RepairAction, episodes_end
from sas_gym.masks import (
    MASK_KEY,
    REPAIRED_KEY,
    check_masks,
    discrete_actions,
    read_masks,
)

Trace = list[tuple[Any, ...]]
"""The mask, observation, reward, terminated and truncated of each step."""


def check_env(
    env: gym.Env[Any, Any],
    *,
    num_steps: int = 300,
    must_refuse: bool = True,
    skip_render_check: bool = False,
) -> None:
    """Check that an environment keeps the contract of action masks.

    Then run Gymnasium's own checker and, where it is installed, Stable-Baselines3's,
    with every action kept inside its action set: by themselves they act blindly.

    Args:
        env: The environment. It may be wrapped, and provide its mask in one or more of
            `obs["action_mask"]`, `info["action_mask"]` and `action_masks()`.
        num_steps: How many steps to play.
        must_refuse: Whether an unavailable action must be refused: by an error, by
            leaving the observation as it was, or by taking another action and saying
            so (`info["repaired"]`).
        skip_render_check: Whether to leave out the checks of `render`.

    Raises:
        AssertionError: If a part of the contract is broken; the message says which, and
            how to fix it.

    Warns:
        UserWarning: If an episode lasts long and no time limit is found: agents that
            learn from whole episodes could wait for ever for the end of one.
    """
    _check_spaces(env)
    trace = _play(env, num_steps)
    _check_seeding(trace, _play(env, num_steps))
    _warn_of_endless_episodes(env, trace)
    if must_refuse:
        _check_refusal(env, num_steps)
    _run_stock_checkers(RepairAction(env), skip_render_check)


def _check_spaces(env: gym.Env[Any, Any]) -> None:
    space = env.observation_space
    if isinstance(space, Dict) and MASK_KEY in space.spaces:
        num_actions = discrete_actions(env.action_space).n
        assert isinstance(space[MASK_KEY], MultiBinary), (
            f"observation_space[{MASK_KEY!r}] is {space[MASK_KEY]}: make it "
            f"MultiBinary({num_actions}), as wrappers such as VecNormalize change the "
            "values of a Box"
        )


def _play(env: gym.Env[Any, Any], num_steps: int) -> Trace:
    """Play random available actions, checking every mask on the way."""
    rng = np.random.default_rng(0)
    start = int(discrete_actions(env.action_space).start)
    trace: Trace = []
    observation, info = env.reset(seed=0)
    mask = _checked_mask(env, observation, info, "after reset()")
    for _ in range(num_steps):
        action = rng.choice(np.flatnonzero(mask))
        observation, reward, terminated, truncated, info = env.step(action + start)
        ended = terminated or truncated
        when = "in the final state of an episode" if ended else "after step()"
        mask = _checked_mask(env, observation, info, when)
        trace.append(
            deepcopy((mask, observation, float(reward), terminated, truncated))
        )
        if ended:
            observation, info = env.reset()
            mask = _checked_mask(env, observation, info, "after reset()")
    return trace


def _checked_mask(
    env: gym.Env[Any, Any], observation: Any, info: dict[str, Any], when: str
) -> Mask:
    """Return the current mask if every channel provides the same valid one."""
    num_actions = int(discrete_actions(env.action_space).n)
    provided = read_masks(env, observation, info)
    assert provided, (
        f"no action mask {when}: return info['action_mask'] (int8, one entry per "
        "action), put it into the observation, or write a method action_masks()"
    )
    masks = {}
    for channel, values in provided.items():
        try:
            # Final states need a set too, as agents may evaluate them: not `final`.
            masks[channel] = check_masks(values, num_actions, channel, batch_shape=())
        except ValueError as error:
            raise AssertionError(f"{error} ({when})") from error
    _check_channels(provided, masks, when)
    for channel, values in read_masks(env, observation, info).items():
        assert np.array_equal(masks[channel], np.asarray(values).astype(bool)), (
            f"{channel} read twice {when} gives two different sets: draw the set once "
            "in reset() and step(), keep it, and only read it elsewhere"
        )
    return next(iter(masks.values()))


def _check_channels(
    provided: dict[str, Any], masks: dict[str, Mask], when: str
) -> None:
    info_channel = f"info[{MASK_KEY!r}]"
    if info_channel in provided:
        dtype = np.asarray(provided[info_channel]).dtype
        assert dtype == np.int8, (
            f"{info_channel} has the type {dtype} {when}: make it np.int8, which "
            "action_space.sample(mask) demands"
        )
    (first, mask), *others = masks.items()
    for channel, other in others:
        assert np.array_equal(mask, other), (
            f"{first} and {channel} differ {when} ({np.flatnonzero(mask).tolist()} "
            f"and {np.flatnonzero(other).tolist()}): draw the set once per step and "
            "return the same one everywhere"
        )


def _check_seeding(trace: Trace, replay: Trace) -> None:
    for number, (before, after) in enumerate(zip(trace, replay, strict=True)):
        names = ("action mask", "observation", "reward", "terminated", "truncated")
        for name, old, new in zip(names, before, after, strict=True):
            assert data_equivalence(old, new), (
                f"the {name} of step {number} differs after reset(seed=0) and the same "
                "actions: draw everything, the action sets too, from generators that "
                "reset(seed=...) seeds"
            )


def _warn_of_endless_episodes(env: gym.Env[Any, Any], trace: Trace) -> None:
    """Warn of a long episode where no limit is set and none was reached.

    Games that end soon by themselves need no limit.
    """
    ends = np.flatnonzero([terminated or cut for *_, terminated, cut in trace])
    longest = np.diff(ends, prepend=-1, append=len(trace) - 1).max()
    was_cut = any(cut for *_, cut in trace)
    if not (episodes_end(env) or was_cut) and longest >= len(trace) // 4:
        gym.logger.warn(
            f"no time limit was found, and an episode went on for {longest} steps: "
            "where one may not end, wrap the environment in "
            "gymnasium.wrappers.TimeLimit, or pass max_episode_steps to gymnasium.make"
        )


def _check_refusal(env: gym.Env[Any, Any], num_steps: int) -> None:
    """Try the first unavailable action that turns up."""
    rng = np.random.default_rng(1)
    start = int(discrete_actions(env.action_space).start)
    observation, info = env.reset(seed=1)
    for _ in range(num_steps):
        mask = _checked_mask(env, observation, info, "after step()")
        if not mask.all():
            break
        observation, _, terminated, truncated, info = env.step(
            rng.choice(len(mask)) + start
        )
        if terminated or truncated:
            observation, info = env.reset()
    else:
        return
    action = rng.choice(np.flatnonzero(~mask)) + start
    before = _without_mask(deepcopy(observation))
    try:
        observation, *_, info = env.step(action)
    except (ValueError, AssertionError, gym.error.Error):
        return
    if info.get(REPAIRED_KEY, False):
        return
    assert data_equivalence(before, _without_mask(observation)), (
        f"action {action} was unavailable, but step() carried it out: raise a "
        "ValueError there, or wrap the environment in sas_gym.RepairAction; "
        "must_refuse=False skips this check"
    )


def _without_mask(observation: Any) -> Any:
    if not isinstance(observation, dict):
        return observation
    return {key: value for key, value in observation.items() if key != MASK_KEY}


def _run_stock_checkers(env: gym.Env[Any, Any], skip_render_check: bool) -> None:
    with warnings.catch_warnings():
        # It has to be wrapped, or the checkers would act outside the sets.
        warnings.filterwarnings("ignore", ".*is different from the unwrapped version")
        gymnasium_check_env(env, skip_render_check=skip_render_check)
        try:
            from stable_baselines3.common.env_checker import check_env as sb3_check_env
        except ImportError:
            return
        sb3_check_env(env, skip_render_check=True)
