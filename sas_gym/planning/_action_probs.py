"""What a law of the action sets makes of a preference: how often each action is chosen.

A backup of a SAS-MDP needs no more of the law than this: the value of a state is the
mean of its action values, weighted by the chance that each action is the one chosen
from the set that comes. Here are the exact chances, law by law.
"""

from functools import singledispatch

import numpy as np

from sas_gym.action_sets import (
    ActionSets,
    Explicit,
    Floats,
    Grouped,
    Independent,
    Ints,
    Mask,
)
from sas_gym.action_sets._confined import Confined
from sas_gym.action_sets._independent import first_chances
from sas_gym.planning._enumeration import enumerate_sets
from sas_gym.planning._sampled_sets import SampledSets


@singledispatch
def best_action_probs(law: ActionSets, scores: Floats) -> Floats:
    """Chance of each action to be the best one available, in every state.

    Of equally good actions the one with the lower number is taken.

    Args:
        law: A law of the action sets that fits the states.
        scores: What actions are ranked by, [S, A]; minus infinity where a state lacks
            the action.

    Returns:
        Probabilities, [S, A], that sum to 1 in every state.

    Raises:
        ValueError: If there is no formula for the law.
    """
    sets, weights = enumerate_sets(law, scores > -np.inf)
    return _listed_choice(sets[None], weights, scores)


@best_action_probs.register
def _(law: Independent, scores: Floats) -> Floats:
    return _independent_choice(_probabilities(law.availability, scores), scores)


@best_action_probs.register
def _(law: Grouped, scores: Floats) -> Floats:
    # Of a group only its best member is ever chosen; the best ones are independent.
    p = np.zeros_like(scores)
    order = rank(scores)
    members = law.groups[order][..., None] == np.arange(law.num_groups)
    best = np.take_along_axis(order, members.argmax(axis=1), axis=1)
    table = np.broadcast_to(law.availability, best.shape)
    np.put_along_axis(p, best, table, axis=1)
    return _independent_choice(_probabilities(p, scores), scores)


@best_action_probs.register
def _(law: Explicit, scores: Floats) -> Floats:
    shape = (len(scores), len(law.sets))
    weights = np.broadcast_to(law.probabilities, shape)
    return _listed_choice(law.sets[None], weights, scores)


@best_action_probs.register
def _(law: SampledSets, scores: Floats) -> Floats:
    weights = np.full(law.masks.shape[:2], 1 / law.masks.shape[1])
    return _listed_choice(law.masks, weights, scores)


@best_action_probs.register
def _(law: Confined, scores: Floats) -> Floats:
    return best_action_probs(law.law, np.where(law.possible, scores, -np.inf))


@singledispatch
def uniform_action_probs(law: ActionSets, possible: Mask) -> Floats:
    """Chance of each action when one of those available is taken at random.

    Args:
        law: A law of the action sets that fits the states.
        possible: Actions that each state has, [S, A].

    Returns:
        Probabilities, [S, A], that sum to 1 in every state.

    Raises:
        ValueError: If there is no formula for the law.
    """
    sets, weights = enumerate_sets(law, possible)
    choice: Floats = (weights / sets.sum(axis=1)) @ sets
    return choice


@uniform_action_probs.register
def _(law: Independent, possible: Mask) -> Floats:
    return _uniform_shares(
        np.where(possible, law.availability, 0.0), possible.astype(np.float64)
    )


@uniform_action_probs.register
def _(law: Grouped, possible: Mask) -> Floats:
    members = law.groups[:, None] == np.arange(law.num_groups)
    size: Floats = possible.astype(np.float64) @ members
    shares = _uniform_shares(np.where(size > 0, law.availability, 0.0), size)
    choice: Floats = shares[:, law.groups] * possible
    return choice


@uniform_action_probs.register
def _(law: Explicit, possible: Mask) -> Floats:
    size = possible.astype(np.float64) @ law.sets.T
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(size > 0, law.probabilities / size, 0.0)
    return _normalised((share @ law.sets) * possible)


@uniform_action_probs.register
def _(law: SampledSets, possible: Mask) -> Floats:
    masks = law.masks & possible[:, None]
    size = masks.sum(axis=2, keepdims=True)
    return _normalised((masks / np.maximum(size, 1)).sum(axis=1))


@uniform_action_probs.register
def _(law: Confined, possible: Mask) -> Floats:
    return uniform_action_probs(law.law, law.possible & possible)


def mean_value(choice: Floats, q: Floats) -> Floats:
    """Mean of action values [..., A] over choices [..., A]; lacking ones are -inf."""
    mean: Floats = (choice * np.where(choice > 0, q, 0.0)).sum(axis=-1)
    return mean


def rank(scores: Floats) -> Ints:
    """Actions from the best to the worst, [..., A]; equal ones in their own order."""
    return np.argsort(-scores, axis=-1, kind="stable")


def _independent_choice(p: Floats, scores: Floats) -> Floats:
    """Go down the list: an action is chosen if it is in and no better one is.

    With the actions sorted, the best available one is the *first* member of the set, so
    its chances are those by which such sets are drawn, `first_chances`, and the
    condition that the set is not empty is in them.
    """
    order = rank(scores)
    first = first_chances(np.take_along_axis(p, order, axis=1))
    missed = np.cumprod(1 - first, axis=1)
    missed = np.concatenate([np.ones((len(p), 1)), missed[:, :-1]], axis=1)
    choice = np.empty_like(p)
    np.put_along_axis(choice, order, first * missed, axis=1)
    return choice


def _listed_choice(masks: Mask, weights: Floats, scores: Floats) -> Floats:
    """Go down the list with all sets at once, crossing off those that are served.

    Args:
        masks: The sets of every state, [S, K, A], or of all states, [1, K, A].
        weights: Probability of each set, [S, K].
        scores: What actions are ranked by, [S, A].
    """
    rows = np.arange(len(scores))
    left, choice = weights.copy(), np.zeros_like(scores)
    for action in rank(scores).T:
        offered = masks[rows % len(masks), :, action]
        offered &= (scores[rows, action] > -np.inf)[:, None]
        choice[rows, action] = np.where(offered, left, 0.0).sum(axis=1)
        left[offered] = 0.0
    return _normalised(choice)


def _uniform_shares(p: Floats, size: Floats) -> Floats:
    """Chance of one member of each independent group to be drawn from the set.

    If group g, of n_g actions, is in the set, the share of each of them is 1 over the
    size of the set, and 1 / n is the integral of t^(n - 1) over [0, 1]. So the chance
    is that of the polynomial p_g t^(n_g - 1) prod over h != g of (1 - p_h + p_h t^n_h),
    which Gauss and Legendre integrate exactly; conditioned on a set that is not empty.

    Args:
        p: Probability of each group, [S, G]; 0 for an empty one.
        size: Number of actions in each, [S, G].
    """
    degree = int(size.sum(axis=1).max()) - 1
    nodes, node_weights = np.polynomial.legendre.leggauss(degree // 2 + 1)
    shares = np.zeros_like(p)
    for t, weight in zip((nodes + 1) / 2, node_weights / 2, strict=True):
        factor = 1 - p + p * t**size
        product = factor.prod(axis=1, keepdims=True)
        shares += weight * p * t ** (size - 1) * product / factor
    with np.errstate(divide="ignore"):
        shares /= -np.expm1(np.log1p(-p).sum(axis=1, keepdims=True))
    return shares


def _probabilities(availability: Floats, scores: Floats) -> Floats:
    """Give a law's table a row a state, and nothing to what a state lacks, [S, A]."""
    return np.where(scores > -np.inf, availability, 0.0)


def _normalised(choice: Floats) -> Floats:
    """Condition on sets that are not empty."""
    total = choice.sum(axis=1, keepdims=True)
    if not total.all():
        raise ValueError(
            "no set of the law contains an action of states "
            f"{np.flatnonzero(total == 0)[:5].tolist()}"
        )
    normalised: Floats = choice / total
    return normalised
