"""Distributions of action sets and values of SAS-MDPs by enumeration."""

import itertools
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from sas_gym._types import Floats, Mask
from sas_gym.action_sets import ActionSets, Explicit, Grouped, Independent
from sas_gym.planning import TabularSASMDP

SetProbs = dict[tuple[int, ...], float]
"""The probability of each set, given as its actions in ascending order."""


def set_probs(action_sets: ActionSets, possible: Mask, state: int) -> SetProbs:
    """Return the distribution in one state, by the definition of each class.

    Args:
        action_sets: A distribution whose table has one row per state.
        possible: Which actions the state has.
        state: The row of the table.
    """
    weighted: Iterable[tuple[Mask, float]]
    if isinstance(action_sets, Independent):
        is_member = np.eye(len(possible), dtype=bool)
        weighted = _unions(action_sets.availability[state], is_member)
    elif isinstance(action_sets, Grouped):
        is_member = np.arange(action_sets.num_groups)[:, None] == action_sets.groups
        weighted = _unions(action_sets.availability[state], is_member)
    else:
        assert isinstance(action_sets, Explicit)
        probabilities = action_sets.probabilities[state]
        weighted = zip(action_sets.sets, probabilities, strict=True)
    probs: SetProbs = {}
    for mask, weight in weighted:
        actions = tuple(map(int, np.flatnonzero(mask & possible)))
        if actions and weight:
            probs[actions] = probs.get(actions, 0.0) + weight
    total = sum(probs.values())
    return {actions: weight / total for actions, weight in probs.items()}


def _unions(p: Floats, is_member: Mask) -> Iterator[tuple[Mask, float]]:
    """Yield each union of groups with the probability of exactly those groups."""
    for bits in itertools.product([False, True], repeat=len(p)):
        factors = [q if bit else 1 - q for q, bit in zip(p, bits, strict=True)]
        yield is_member[list(bits)].max(axis=0, initial=False), float(np.prod(factors))


def set_probs_by_state(mdp: TabularSASMDP) -> list[SetProbs]:
    """Return the distribution in every state."""
    return [
        set_probs(mdp.action_sets, possible, state)
        for state, possible in enumerate(mdp.possible_actions)
    ]


def by_number(probs: SetProbs, num_actions: int) -> Floats:
    """Return the probability of every subset, in the order of `set_numbers`."""
    array = np.zeros(1 << num_actions)
    for actions, weight in probs.items():
        array[sum(1 << action for action in actions)] = weight
    return array


def independent_set_probs(p: ArrayLike) -> Floats:
    """Probability of every subset under independence, given that it is not empty."""
    table = np.atleast_2d(p)
    num_actions = table.shape[1]
    everything = np.ones(num_actions, dtype=bool)
    return by_number(set_probs(Independent(table), everything, 0), num_actions)


def values(
    mdp: TabularSASMDP,
    num_sweeps: int,
    choose: Callable[[Floats], float] = max,
    start: Floats | float = 0.0,
) -> Floats:
    """Iterate Bellman's equation with every set written out.

    Args:
        mdp: The SAS-MDP.
        num_sweeps: Number of sweeps.
        choose: From the action values of a set to the value of the set.
        start: Values before the first sweep.
    """
    distributions, v = set_probs_by_state(mdp), np.full(mdp.num_states, start)
    transition = mdp.transition_matrix.toarray().reshape(*mdp.reward.shape, -1)
    for _ in range(num_sweeps):
        q = mdp.reward + mdp.gamma * transition @ v
        v = np.array(
            [
                sum(p * choose(q[s, list(actions)]) for actions, p in probs.items())
                for s, probs in enumerate(distributions)
            ]
        )
        v[mdp.is_terminal] = 0.0
    return v
