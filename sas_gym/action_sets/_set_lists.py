"""The sets that may come in every state, one by one, with their probabilities."""

from collections.abc import Callable, Iterator
from functools import singledispatch
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from sas_gym._types import Floats, Ints, Mask
from sas_gym.action_sets._base import ActionSets, check_never_empty
from sas_gym.action_sets._correlated import Explicit, Grouped
from sas_gym.action_sets._independent import Independent
from sas_gym.action_sets._things import Things

MAX_ACTIONS = 16
"""Largest number of actions, or groups of actions, of which all subsets are listed."""

# Entries of the masks that are made at once: 16 MB.
_MAX_ENTRIES = 16_000_000


class WeightedSets(NamedTuple):
    """Sets that may come in some states."""

    state: Int[Ints, " N"]
    """Numbers of the states."""
    masks: Bool[Mask, "#N K A"]
    """The sets of each state, or the same for all of these states."""
    weights: Float[Floats, "N K"]
    """Probability of each set; 0 for an empty one."""


class Groups(NamedTuple):
    """Independent groups of actions: a group is available or not, as a whole."""

    leader: Int[Ints, "S A"]
    """First action of each action's group."""
    availability: Float[Floats, "S A"]
    """Probability of each action's group; 0 for an action that is not possible."""


def weighted_sets(
    action_sets: ActionSets, possible: Bool[Mask, "S A"]
) -> Iterator[WeightedSets]:
    """Yield the sets that may come in each state, a part of the states at a time.

    A set may be listed more than once.

    Args:
        action_sets: Distribution of the action sets, fitted to the states.
        possible: Actions that each state has.

    Raises:
        ValueError: If the sets last, or if they cannot be listed.
    """
    check_does_not_last(action_sets)
    num_states, num_actions = possible.shape
    num_sets, list_sets = _lister(action_sets, possible)
    rows = max(_MAX_ENTRIES // (num_sets * num_actions), 1)
    for first in range(0, num_states, rows):
        state = np.arange(first, min(first + rows, num_states))
        masks, weights = list_sets(state)
        weights = np.where(masks.any(axis=2), weights, 0.0)
        yield WeightedSets(state, masks, normalized(weights, state))


def enumerate_sets(
    action_sets: ActionSets, possible: Bool[Mask, "S A"]
) -> tuple[Bool[Mask, "K A"], Float[Floats, "S K"]]:
    """List all 2^A - 1 sets that are not empty, for small tasks.

    Args:
        action_sets: Distribution of the action sets, fitted to the states.
        possible: Actions that each state has.

    Returns:
        The sets as masks, and the probability of each in every state.
    """
    num_states, num_actions = possible.shape
    _check_subsets(num_actions, "actions")
    summed = np.zeros((num_states, 1 << num_actions))
    bits = 1 << np.arange(num_actions)
    for part in weighted_sets(action_sets, possible):
        number = np.broadcast_to(part.masks @ bits, part.weights.shape)
        np.add.at(summed, (part.state[:, None], number), part.weights)
    return subsets(num_actions)[1:], summed[:, 1:]


def subsets(num_actions: int) -> Bool[Mask, "K A"]:
    """Return all 2^A subsets; the bits of a row's number are its members.

    Example:
        >>> subsets(2).astype(int)
        array([[0, 0],
               [1, 0],
               [0, 1],
               [1, 1]])
    """
    numbers = np.arange(1 << num_actions)
    return (numbers[:, None] >> np.arange(num_actions) & 1).astype(bool)


def normalized(
    weights: Float[Floats, "S K"], state: Int[Ints, " S"] | None = None
) -> Float[Floats, "S K"]:
    """Condition on a set that is not empty.

    Args:
        weights: Weight of each set that is not empty.
        state: Numbers of the states, for the error; by default counted from 0.
    """
    total = weights.sum(axis=1, keepdims=True)
    number = np.arange(len(weights)) if state is None else state
    check_never_empty(total[:, 0] > 0, number)
    probs: Floats = weights / total
    return probs


def check_does_not_last(action_sets: ActionSets) -> None:
    """Raise `ValueError` for sets that depend on the past."""
    if not action_sets.is_sas_mdp:
        raise ValueError(
            f"the sets of {type(action_sets).__name__} last, so a state alone has no "
            "value: use planning.optimal_return, which plans over states and outcomes "
            "where the mask shows the outcome, or planning.informed_return, the bound "
            "for an agent that sees the outcome"
        )


@singledispatch
def groups_of(
    action_sets: ActionSets,  # noqa: ARG001  # for the functions that are registered
    possible: Bool[Mask, "S A"],  # noqa: ARG001
) -> Groups | None:
    """Return the independent groups of a distribution, `None` if it has none.

    Args:
        action_sets: Distribution of the action sets, fitted to the states.
        possible: Actions that each state has.
    """
    return None


@groups_of.register(Independent)
def _(action_sets: Independent, possible: Bool[Mask, "S A"]) -> Groups:
    p = np.where(possible, action_sets.availability, 0.0)
    return Groups(np.broadcast_to(np.arange(possible.shape[1]), p.shape), p)


@groups_of.register(Grouped)
def _(action_sets: Grouped, possible: Bool[Mask, "S A"]) -> Groups:
    shape = (len(possible), action_sets.num_groups)
    of_groups = np.broadcast_to(action_sets.availability, shape)
    p = np.where(possible, of_groups[:, action_sets.groups], 0.0)
    same = action_sets.groups[:, None] == action_sets.groups
    return Groups(np.broadcast_to(same.argmax(axis=1), p.shape), p)


@groups_of.register(Things)
def _(action_sets: Things, possible: Bool[Mask, "S A"]) -> Groups:
    things = action_sets.thing_of
    of_things = np.append(action_sets.availability, 1.0)[things]
    same = things[..., :, None] == things[..., None, :]
    leader = np.broadcast_to(same.argmax(axis=-1), possible.shape)
    return Groups(leader, np.where(possible, of_things, 0.0))


Lister = Callable[[Int[Ints, " N"]], tuple[Bool[Mask, "N K A"], Float[Floats, "N K"]]]
"""From the numbers of states to their sets, and weights before conditioning."""


def _lister(action_sets: ActionSets, possible: Bool[Mask, "S A"]) -> tuple[int, Lister]:
    """Return how many sets each state lists, and the function that lists them."""
    groups = groups_of(action_sets, possible)
    if groups is not None:
        return _lister_of_groups(groups, possible)
    if isinstance(action_sets, Explicit):
        return _lister_of_explicit(action_sets, possible)
    listed = action_sets.listed()
    if listed is None:
        raise ValueError(
            f"there is no formula for {type(action_sets).__name__} action sets of "
            f"{possible.shape[1]} actions: plan with sets sampled from it, "
            "`planning.sampled(mdp, num_sets)`"
        )
    size = len(listed.probabilities)

    def list_sets(state: Ints) -> tuple[Mask, Floats]:
        masks = action_sets.sets_of(
            np.tile(np.arange(size), len(state)),
            np.repeat(state, size),
            np.repeat(possible[state], size, axis=0),
        )
        weights = np.broadcast_to(listed.probabilities, (len(state), size))
        return masks.reshape(len(state), size, -1), weights

    return size, list_sets


def _lister_of_groups(
    groups: Groups, possible: Bool[Mask, "S A"]
) -> tuple[int, Lister]:
    leaders = np.unique(groups.leader)
    _check_subsets(len(leaders), "actions")
    is_in = subsets(len(leaders))

    def list_sets(state: Ints) -> tuple[Mask, Floats]:
        column = np.searchsorted(leaders, groups.leader[state])
        masks = is_in[:, column].transpose(1, 0, 2) & possible[state][:, None]
        p = np.zeros((len(state), len(leaders)))
        row = np.arange(len(state))[:, None]
        np.maximum.at(p, (row, column), groups.availability[state])
        weights = np.where(is_in, p[:, None], 1 - p[:, None]).prod(axis=2)
        return masks, weights

    return len(is_in), list_sets


def _lister_of_explicit(
    action_sets: Explicit, possible: Bool[Mask, "S A"]
) -> tuple[int, Lister]:
    shape = (len(possible), len(action_sets.sets))
    weights = np.broadcast_to(action_sets.probabilities, shape)

    def list_sets(state: Ints) -> tuple[Mask, Floats]:
        return action_sets.sets & possible[state][:, None], weights[state]

    return len(action_sets.sets), list_sets


def _check_subsets(size: int, of_what: str) -> None:
    if size > MAX_ACTIONS:
        raise ValueError(
            f"{size} {of_what} have 2^{size} subsets, and at most 2^{MAX_ACTIONS} are "
            "listed"
        )
