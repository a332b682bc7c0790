"""Planning with any distribution of action sets, by sampled sets, at a stated error."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from sas_gym._types import Floats, Mask
from sas_gym.action_sets import ActionSets
from sas_gym.action_sets._action_probs import (
    best_action_probs,
    listed_best_probs,
    uniform_action_probs,
)
from sas_gym.action_sets._base import States, TaskForm
from sas_gym.action_sets._correlated import pick
from sas_gym.action_sets._set_lists import check_does_not_last, normalized
from sas_gym.planning._bellman import Solution, discounted_sums
from sas_gym.tasks._tabular import TabularSASMDP


class SampledSets(ActionSets):
    """An approximation of a distribution: sets drawn in every state, equally likely.

    Args:
        masks: The sets, K of each state.
    """

    def __init__(self, masks: Bool[Mask, "S K A"]) -> None:
        self.masks = masks

    def num_uniforms(self, num_actions: int) -> int:
        """Return the one uniform that picks a set."""
        return 1

    def fit(self, task: TaskForm) -> "SampledSets":
        """Check the number of states and actions."""
        num_states, num_actions = task.num_states, task.num_actions
        if (self.masks.shape[0], self.masks.shape[2]) != (num_states, num_actions):
            raise ValueError(
                f"the sets were drawn for {self.masks.shape[0]} states and "
                f"{self.masks.shape[2]} actions, but the task has {num_states} states "
                f"and {num_actions} actions: sample again"
            )
        return self

    def sets_from(
        self,
        uniforms: Float[Floats, "N 1"],
        state: States | None,
        possible: Bool[Mask, "N A"] | None,
    ) -> Bool[Mask, "N A"]:
        """Pick one of the state's sets, given that something in it is possible."""
        masks: Mask = self.masks[state]
        if possible is not None:
            masks = masks & possible[:, None]
        weights = masks.max(axis=2).astype(np.float64)  # 0 for an empty set
        sets: Mask = masks[np.arange(len(masks)), pick(uniforms, weights, state)]
        return sets


@best_action_probs.register(SampledSets)
def _(
    action_sets: SampledSets,
    preferences: Float[Floats, "S A"],
    possible: Bool[Mask, "S A"],
) -> Float[Floats, "S A"]:
    masks = action_sets.masks
    weights = np.full(masks.shape[:2], 1 / masks.shape[1])
    return listed_best_probs(masks, weights, preferences, possible)


@uniform_action_probs.register(SampledSets)
def _(action_sets: SampledSets, possible: Bool[Mask, "S A"]) -> Float[Floats, "S A"]:
    masks = action_sets.masks & possible[:, None]
    size = masks.sum(axis=2, keepdims=True)
    return normalized((masks / np.maximum(size, 1)).sum(axis=1))


def sampled(mdp: TabularSASMDP, num_sets: int, seed: int = 0) -> TabularSASMDP:
    """Replace an MDP's action sets by samples of them, independent in every state.

    Every planner then works with any distribution. `sampling_error` estimates how far
    the values are from the values under the distribution itself.

    Args:
        mdp: The MDP, with any distribution of the action sets.
        num_sets: Number of sets drawn per state.
        seed: Seed of the draw.
    """
    if num_sets < 2:
        raise ValueError(f"num_sets must be at least 2, got {num_sets}")
    check_does_not_last(mdp.action_sets)
    state = np.repeat(np.arange(mdp.num_states), num_sets)
    shape = (len(state), mdp.action_sets.num_uniforms(mdp.num_actions))
    uniforms = np.random.default_rng(seed).random(shape)
    masks = mdp.action_sets.sets_from(uniforms, state, mdp.possible(state))
    masks = masks.reshape(mdp.num_states, num_sets, mdp.num_actions)
    return mdp.replace(action_sets=SampledSets(masks))


class SamplingError(NamedTuple):
    """Standard errors that come from sampling the sets."""

    values: Float[Floats, " S"]
    """Of each state's value."""
    mean_return: float
    """Of the mean value of the start."""


def sampling_error(mdp: TabularSASMDP, solution: Solution) -> SamplingError:
    """Return how far a solution with sampled sets is from the exact one.

    To first order an error of the backup in one state counts in another as often as
    the former is visited from the latter. So the gains of the k-th sets of all states
    are summed up from every state, and the spread over k gives the standard error. A
    maximum over samples is also biased upwards, by an amount of the order of 1 / K.

    Args:
        mdp: The SAS-MDP that `sampled` returned, without a horizon.
        solution: Its solution.
    """
    action_sets = mdp.action_sets
    if not isinstance(action_sets, SampledSets):
        raise ValueError(
            "the action sets are not sampled: pass the MDP that `sampled` returned, "
            f"not one with {type(action_sets).__name__}"
        )
    if mdp.horizon is not None:
        raise ValueError(
            "the sampling error is that of an infinite horizon: remove the horizon "
            "with `mdp.replace(horizon=None)`"
        )
    q = solution.q_values
    gains = np.where(action_sets.masks, q[:, None], -np.inf).max(axis=2)
    greedy = best_action_probs(action_sets, q, mdp.possible_actions)
    sums = discounted_sums(mdp, greedy, gains - gains.mean(axis=1, keepdims=True))
    of_start = mdp.initial_distribution @ sums
    scale = np.sqrt(action_sets.masks.shape[1])
    return SamplingError(
        sums.std(axis=1, ddof=1) / scale, float(of_start.std(ddof=1) / scale)
    )
