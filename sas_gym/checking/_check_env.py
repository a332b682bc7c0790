"""A checker for masked environments, ours and others'."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from itertools import chain
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Dict, MultiBinary
from gymnasium.utils.env_checker import data_equivalence

from sas_gym._mask_source import MaskName, MaskSource
from sas_gym._wrappers import episodes_end
from sas_gym.checking._play import Player, Trace, check_replay
from sas_gym.checking._report import report_text
from sas_gym.checking._spaces import check_spaces
from sas_gym.checking._stock import run_stock_checkers
from sas_gym.checking._values import fault
from sas_gym.envs._single import SASEnv
from sas_gym.masks import REPAIRED_KEY, mask_sizes, masked_space
from sas_gym.tasks._task import Task


def check_env(
    env: str | Task | gym.Env[Any, Any] | Callable[[], Any],
    *,
    num_steps: int = 300,
    must_refuse: bool = True,
    skip_render_check: bool = False,
    mask: MaskName | None = None,
    report: bool = False,
) -> None:
    """Check that an environment keeps the contract of action masks.

    Then run Gymnasium's own checker and, where it is installed, Stable-Baselines3's,
    with every action kept inside its action set: by themselves they act blindly.
    Environments that pass are taken by the agents of `sas_agents`.

    Args:
        env: The environment, its id, a function that makes it, or a task of `sas_gym`.
            It may be wrapped, and provide its mask in one or more of
            `observation["action_mask"]`, `info["action_mask"]` and `action_masks()`.
        num_steps: How many steps to play.
        must_refuse: Whether an unavailable action must be refused: by an error, by
            leaving the observation as it was, or by taking another action and saying
            so (`info["repaired"]`).
        skip_render_check: Whether to leave out the checks of `render`.
        mask: Where the mask is, if in another place: another key, the name of another
            method, or a function of the environment; see `MaskInObservation`.
        report: Whether to print a page about the environment instead of raising errors
            and warnings: its mask, the sizes of its sets, how often each action is
            available, the return of random play, its speed, and each fault with its
            cure.

    Raises:
        AssertionError: If a part of the contract is broken; the message says which, and
            how to fix it.
        ValueError: If `env` is nothing that can be checked.

    Warns:
        UserWarning: If the space of the mask is a Box, or if an episode lasts long and
            no time limit is found: agents that learn from whole episodes could wait
            for ever for the end of one.
    """
    made = made_env(env)
    checker = _Checker(made, mask, num_steps)
    repeats: list[Callable[[], None]] = [checker.replay]
    if must_refuse:
        repeats.append(checker.check_refusal)
    stock = partial(run_stock_checkers, made, mask, skip_render_check)
    stages: list[list[Callable[[], None]]]
    stages = [[checker.check_spaces], [checker.play], repeats, [stock]]
    if report:
        print(checker.report(*stages))  # noqa: T201  # it is asked for
        return
    for check in chain(*stages):
        check()
    for warning in checker.warnings:
        gym.logger.warn(warning)


def made_env(env: Any) -> gym.Env[Any, Any]:
    """Return an environment, made if it is an id, a function or a task."""
    if isinstance(env, str):
        return gym.make(env)
    if isinstance(env, Task):
        return SASEnv(env)
    if isinstance(env, gym.Env):
        return env
    if callable(env):
        return made_env(env())
    kind = type(env).__name__
    if hasattr(env, "num_envs"):
        cure = f"{kind} is many environments, pass one of them"
    elif hasattr(env, "possible_agents"):
        cure = (
            f"{kind} has several agents, write a gymnasium.Env in which one of them "
            "acts and step() plays the others"
        )
    else:
        cure = "pass a gymnasium.Env, its id, or a function that makes it"
    raise ValueError(f"{env!r} is no environment of Gymnasium: {cure}")


@contextmanager
def _collected(faults: list[str]) -> Iterator[None]:
    """Add a fault that is raised inside to a list."""
    try:
        yield
    except AssertionError as error:
        faults.append(str(error))


class _Checker:
    """The checks of one environment, and their findings.

    Args:
        env: The environment.
        mask: Where its mask is, see `MaskSource`.
        num_steps: How many steps to play.
    """

    def __init__(
        self, env: gym.Env[Any, Any], mask: MaskName | None, num_steps: int
    ) -> None:
        self.env = env
        self.num_steps = num_steps
        self.source = MaskSource(env, mask)
        self.player = Player(env, self.source)
        self.trace: Trace = []
        self.warnings: list[str] = []

    def report(self, *stages: Iterable[Callable[[], None]]) -> str:
        """Run checks up to a stage with a fault; return the report."""
        faults: list[str] = []
        for stage in stages:
            for check in stage if not faults else ():
                with _collected(faults):
                    check()
        return report_text(self.player, self.trace, [*faults, *self.warnings])

    def check_spaces(self) -> None:
        """Check that agents can use the spaces."""
        try:
            sizes = mask_sizes(self.env.action_space)
            space: Any = self.env.observation_space
            if self.source.is_in_observation:
                self._warn_of_box(space[self.source.key], sum(sizes))
                space = masked_space(
                    Dict({key: space[key] for key in space if key != self.source.key}),
                    sum(sizes),
                )
            check_spaces(space, self.env.action_space)
        except ValueError as error:
            raise fault(str(error)) from error

    def _warn_of_box(self, space: gym.Space[Any], num_entries: int) -> None:
        if not isinstance(space, MultiBinary):
            self.warnings.append(
                f"observation_space[{self.source.key!r}] is {space}: make it "
                f"MultiBinary({num_entries}) or wrap the environment in "
                "sas_gym.MaskInObservation, as VecNormalize changes the values of a Box"
            )

    def play(self) -> None:
        """Check every step of random play."""
        self.player.play(self.num_steps, self.trace)
        self._warn_of_endless_episodes()

    def replay(self) -> None:
        """Check that a seed replays an episode."""
        replayed: Trace = []
        Player(self.env, self.source).play(self.num_steps, replayed)
        check_replay(self.trace, replayed)

    def _warn_of_endless_episodes(self) -> None:
        """Warn of a long episode where no limit is set and none was reached.

        Games that end soon by themselves need no limit.
        """
        ends = np.flatnonzero([ended or cut for *_, ended, cut in self.trace])
        last = len(self.trace) - 1
        longest = np.diff(ends, prepend=-1, append=last).max()
        was_cut = any(cut for *_, cut in self.trace)
        if not (episodes_end(self.env) or was_cut) and longest > last // 4:
            self.warnings.append(
                f"no time limit was found, and an episode went on for {longest} steps: "
                "where one may not end, wrap the environment in "
                "gymnasium.wrappers.TimeLimit, or pass max_episode_steps to "
                "gymnasium.make"
            )

    def check_refusal(self) -> None:
        """Try the first unavailable action that turns up."""
        rng, actions = np.random.default_rng(1), self.player.actions
        observation, mask = self.player.reset(1)
        for _ in range(self.num_steps):
            if not mask.all():
                break
            action = actions.action(actions.draw(mask, rng))
            observation, _, terminated, cut, mask = self.player.step(action)
            if terminated or cut:
                observation, mask = self.player.reset(None)
        else:
            return
        action = actions.action(actions.unavailable(mask, rng))
        before = self._without_mask(deepcopy(observation))
        try:
            observation, *_, info = self.env.step(action)
        except (ValueError, AssertionError, gym.error.Error):
            return
        if info.get(REPAIRED_KEY, False):
            return
        if not data_equivalence(before, self._without_mask(observation)):
            raise fault(
                f"action {action} was unavailable, but step() carried it out: raise a "
                "ValueError there, or wrap the environment in sas_gym.RepairAction; "
                "must_refuse=False skips this check"
            )

    def _without_mask(self, observation: Any) -> Any:
        if not isinstance(observation, dict):
            return observation
        return {key: observation[key] for key in observation if key != self.source.key}
