"""Any sequence of calls, in any task with any distribution of the action sets."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from sas_gym import (
    BayArea,
    Maze,
    Recommender,
    SanFrancisco,
    SASEnv,
    SASVectorEnv,
    Task,
    ThetaTwoTheta,
)
from sas_gym.action_sets import (
    ActionSets,
    Explicit,
    Grouped,
    Independent,
    Markov,
    PerEpisode,
    Things,
)

LIMIT = 7
TASKS: dict[str, Any] = {
    "Maze": lambda: Maze(num_actuators=5),
    "SanFrancisco": lambda: SanFrancisco(wait_cost=0.1),
    "BayArea": BayArea,
    "Recommender": lambda: Recommender(num_products=6, num_topics=3),
    "ThetaTwoTheta": ThetaTwoTheta,
}
positive = st.floats(0.01, 1.0)
first_seeds = st.integers(0, 5)  # hypothesis has to be able to repeat an example
seeds = st.none() | first_seeds
machine_settings = settings(max_examples=15, stateful_step_count=25, deadline=None)


@st.composite
def tables(draw: Any, size: int) -> Any:
    return draw(st.lists(positive, min_size=size, max_size=size))


@st.composite
def distributions(draw: Any, task: Task) -> ActionSets:
    """Draw one of any kind; every action has a chance, so that no state is stuck."""
    size = task.num_actions
    per_episode = draw(st.booleans())
    kinds = ["one", "each", "explicit", "grouped", "things", "markov"]
    kind = draw(st.sampled_from(kinds))
    made: ActionSets
    if kind == "one":
        made = Independent(draw(positive))
    elif kind == "each":
        things = task.things if per_episode else None
        made = Independent(draw(tables(things.num_things if things else size)))
    elif kind == "explicit":
        rows = st.lists(st.booleans(), min_size=size, max_size=size)
        sets = [
            [1] * size,
            *(row for row in draw(st.lists(rows, max_size=4)) if any(row)),
        ]
        weights = np.array(draw(tables(len(sets))))
        made = Explicit(sets, weights / weights.sum())
    elif kind == "grouped":
        groups = draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
        numbered = np.unique(groups, return_inverse=True)[1]
        made = Grouped(numbered, draw(positive))
    elif kind == "things":
        made = Things(np.arange(size) - 1, draw(positive))  # the first needs none
    else:
        off = draw(st.floats(0.0, 0.99))
        first_stays = np.where(np.arange(size), off, 0.0)
        return Markov(draw(positive), first_stays if task.things is None else off)
    return PerEpisode(made) if per_episode else made


@st.composite
def settings_of_envs(draw: Any) -> tuple[Task, dict[str, Any]]:
    """Draw a task and the arguments of its environment."""
    task = TASKS[draw(st.sampled_from(sorted(TASKS)))]()
    on_unavailable = draw(st.sampled_from(["raise", "repair"]))
    penalty = draw(st.sampled_from([0.0, 2.5])) if on_unavailable == "repair" else 0.0
    sets = draw(st.none() | distributions(task))
    return task, {
        "action_sets": sets,
        "mask_in_observation": draw(st.booleans()),
        "on_unavailable": on_unavailable,
        "unavailable_penalty": penalty,
    }


class SingleEnvMachine(RuleBasedStateMachine):
    """A single environment: resets, steps inside and outside the set, reads."""

    @initialize(chosen=settings_of_envs(), seed=first_seeds)
    def make(self, chosen: Any, seed: int) -> None:
        task, self.options = chosen
        self.env = SASEnv(task, **self.options)
        with pytest.raises(gym.error.ResetNeeded):
            self.env.step(0)
        self.reset(seed)

    @rule(seed=seeds)
    def reset(self, seed: int | None) -> None:
        self.obs, self.info = self.env.reset(seed=seed)
        self.ended = False

    @precondition(lambda self: not self.ended)
    @rule(data=st.data())
    def step_inside(self, data: Any) -> None:
        action = data.draw(st.sampled_from(np.flatnonzero(self.mask).tolist()))
        self.take(action)

    @precondition(lambda self: not self.ended and not self.mask.all())
    @rule(data=st.data())
    def step_outside(self, data: Any) -> None:
        action = data.draw(st.sampled_from(np.flatnonzero(~self.mask).tolist()))
        state = np.copy(self.env.state)
        if self.options["on_unavailable"] == "raise":
            with pytest.raises(ValueError, match="unavailable action"):
                self.env.step(action)
            np.testing.assert_array_equal(self.env.state, state)
            return
        self.take(action)
        assert self.info["repaired"]

    @precondition(lambda self: self.ended)
    @rule()
    def step_after_the_end(self) -> None:
        with pytest.raises(gym.error.ResetNeeded):
            self.env.step(0)

    @rule(action=st.sampled_from([-1, 1_000, 0.5, None]))
    def step_nowhere(self, action: Any) -> None:
        with pytest.raises((ValueError, gym.error.ResetNeeded)):
            self.env.step(action)

    def take(self, action: int) -> float:
        self.obs, reward, self.ended, truncated, self.info = self.env.step(action)
        assert isinstance(reward, float)
        assert np.isfinite(reward)
        assert truncated is False
        return reward

    @property
    def mask(self) -> Any:
        return self.info["action_mask"].astype(bool)

    @invariant()
    def channels_agree(self) -> None:
        for _ in range(2):
            np.testing.assert_array_equal(self.mask, self.env.action_masks())
        assert self.mask.any()
        assert self.obs in self.env.observation_space
        if self.options["mask_in_observation"]:
            np.testing.assert_array_equal(self.obs["action_mask"], self.mask)


class VectorEnvMachine(RuleBasedStateMachine):
    """A vector environment: resets of all and of some, steps, ends."""

    @initialize(chosen=settings_of_envs(), num_envs=st.integers(1, 4), seed=first_seeds)
    def make(self, chosen: Any, num_envs: int, seed: int) -> None:
        task, self.options = chosen
        self.env = SASVectorEnv(task, num_envs, max_episode_steps=LIMIT, **self.options)
        self.reset(seed)

    @rule(seed=seeds)
    def reset(self, seed: int | None) -> None:
        self.obs, self.infos = self.env.reset(seed=seed)
        self.lengths = np.zeros(self.env.num_envs, dtype=int)

    @rule(data=st.data())
    def reset_some(self, data: Any) -> None:
        size = self.env.num_envs
        chosen = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
        if not any(chosen):
            return
        before = self.mask
        self.obs, self.infos = self.env.reset(options={"reset_mask": np.array(chosen)})
        self.lengths[chosen] = 0
        kept = ~np.array(chosen)
        np.testing.assert_array_equal(self.mask[kept], before[kept])

    @rule(data=st.data())
    def step_inside(self, data: Any) -> None:
        actions = [
            data.draw(st.sampled_from(np.flatnonzero(row).tolist()))
            for row in self.mask
        ]
        self.take(np.array(actions))

    @rule(action=st.integers(0, 1))
    def step_anywhere(self, action: int) -> None:
        actions = np.full(self.env.num_envs, action)
        available = self.mask[:, action]
        if self.options["on_unavailable"] == "raise" and not available.all():
            with pytest.raises(ValueError, match="unavailable action"):
                self.env.step(actions)
            return
        self.take(actions)
        if self.options["on_unavailable"] == "repair":
            done = self.infos.get("_final_obs", np.zeros(len(actions), bool))
            repaired = self.infos["repaired"].copy()
            if done.any():
                repaired |= self.infos["final_info"]["repaired"]
            np.testing.assert_array_equal(repaired, ~available)

    def take(self, actions: Any) -> Any:
        self.obs, rewards, terminated, truncated, self.infos = self.env.step(actions)
        self.lengths += 1
        assert np.isfinite(rewards).all()
        np.testing.assert_array_equal(truncated, self.lengths == LIMIT)
        done = terminated | truncated
        np.testing.assert_array_equal(
            done, self.infos.get("_final_obs", np.zeros(len(done), bool))
        )
        for index in np.flatnonzero(done):
            assert self.infos["final_obs"][index] in self.env.single_observation_space
            assert self.infos["final_info"]["action_mask"][index].any()
        self.lengths[done] = 0
        return rewards

    @property
    def mask(self) -> Any:
        return self.infos["action_mask"].astype(bool)

    @invariant()
    def channels_agree(self) -> None:
        np.testing.assert_array_equal(self.mask, self.env.action_masks())
        assert self.mask.any(axis=1).all()
        assert self.obs in self.env.observation_space
        if self.options["mask_in_observation"]:
            np.testing.assert_array_equal(self.obs["action_mask"], self.mask)


TestSingleEnv = SingleEnvMachine.TestCase
TestSingleEnv.settings = machine_settings
TestVectorEnv = VectorEnvMachine.TestCase
TestVectorEnv.settings = machine_settings
