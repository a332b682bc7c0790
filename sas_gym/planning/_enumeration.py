"""Every set and its probability: exponential in the actions, for small tasks."""

from functools import singledispatch

import numpy as np

from sas_gym.action_sets import ActionSets, Explicit, Floats, Grouped, Independent, Mask
from sas_gym.action_sets._confined import Confined

MAX_ACTIONS = 16


def enumerate_sets(law: ActionSets, possible: Mask) -> tuple[Mask, Floats]:
    """List every set that is not empty.

    Args:
        law: A law of the action sets that fits the states.
        possible: Actions that each state has, [S, A].

    Returns:
        The sets as masks [K, A], where K is 2^A - 1, and the probability of each in
        every state [S, K].
    """
    num_actions = possible.shape[1]
    if num_actions > MAX_ACTIONS:
        raise ValueError(
            f"{num_actions} actions have 2^{num_actions} sets: too many to list"
        )
    chances = _set_chances(law, possible)
    chances[:, 0] = 0.0
    return subsets(num_actions)[1:], (chances / chances.sum(axis=1, keepdims=True))[
        :, 1:
    ]


def subsets(num_actions: int) -> Mask:
    """Return every subset, [2^A, A]; the bits of a row's number are its members."""
    numbers = np.arange(1 << num_actions)
    return (numbers[:, None] >> np.arange(num_actions) & 1).astype(bool)


@singledispatch
def _set_chances(law: ActionSets, possible: Mask) -> Floats:
    """Chance of every subset, [S, 2^A]: that of the empty one will be given to all."""
    raise ValueError(
        f"there is no formula for the sets that the law {type(law).__name__} makes of "
        f"{possible.shape[1]} actions: plan with sets sampled from it, "
        "`planning.sampled(mdp, num_sets)`"
    )


@_set_chances.register
def _(law: Independent, possible: Mask) -> Floats:
    p = np.where(possible, law.availability, 0.0)[:, None]
    chances: Floats = np.where(subsets(possible.shape[1]), p, 1 - p).prod(axis=2)
    return chances


@_set_chances.register
def _(law: Explicit, possible: Mask) -> Floats:
    weights = np.broadcast_to(law.probabilities, (len(possible), len(law.sets)))
    return _collect(law.sets, weights, possible)


@_set_chances.register
def _(law: Grouped, possible: Mask) -> Floats:
    groups = subsets(law.num_groups)
    p = np.broadcast_to(law.availability, (len(possible), law.num_groups))[:, None]
    weights = np.where(groups, p, 1 - p).prod(axis=2)
    return _collect(groups[:, law.groups], weights, possible)


@_set_chances.register
def _(law: Confined, possible: Mask) -> Floats:
    return _set_chances(law.law, law.possible & possible)


def _collect(sets: Mask, weights: Floats, possible: Mask) -> Floats:
    """Add up the weights [S, K] of sets [K, A] that are alike in what is possible."""
    bits = 1 << np.arange(possible.shape[1])
    number = (sets & possible[:, None]) @ bits
    chances = np.zeros((len(possible), 1 << possible.shape[1]))
    np.add.at(chances, (np.arange(len(possible))[:, None], number), weights)
    return chances
