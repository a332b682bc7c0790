"""How often each action is taken, over all action sets that may come.

A backup of a SAS-MDP needs no more of the distribution of the action sets than this:
the value of a state is the mean of its action values, weighted by the probability that
each action is the one taken from the set that comes. Here are the exact probabilities,
distribution by distribution, and the list of all sets for small tasks.
"""

from functools import singledispatch

import numpy as np
from jaxtyping import Bool, Float, Int

from sas_gym._types import Floats, Ints, Mask
from sas_gym.action_sets import ActionSets, Explicit, Grouped, Independent
from sas_gym.action_sets._base import check_never_empty
from sas_gym.action_sets._independent import first_member_probs

MAX_ACTIONS = 16
"""Largest base action set of which all subsets are listed."""


@singledispatch
def best_action_probs(
    action_sets: ActionSets,
    preferences: Float[Floats, "S A"],
    possible: Bool[Mask, "S A"],
) -> Float[Floats, "S A"]:
    """Probability of each action to be the most preferred available one.

    Of equally preferred actions the one with the lower number is taken.

    Args:
        action_sets: Distribution of the action sets, fitted to the states.
        preferences: What the actions of each state are ranked by.
        possible: Actions that each state has.

    Raises:
        ValueError: If there is no formula for the distribution.
    """
    sets, weights = enumerate_sets(action_sets, possible)
    return listed_best_probs(sets[None], weights, preferences, possible)


@best_action_probs.register(Independent)
def _(
    action_sets: Independent,
    preferences: Float[Floats, "S A"],
    possible: Bool[Mask, "S A"],
) -> Float[Floats, "S A"]:
    p = np.where(possible, action_sets.availability, 0.0)
    return _independent_best_probs(p, preferences)


@best_action_probs.register(Grouped)
def _(
    action_sets: Grouped,
    preferences: Float[Floats, "S A"],
    possible: Bool[Mask, "S A"],
) -> Float[Floats, "S A"]:
    # Of a group only its best member is ever taken; the best ones are independent.
    order = rank(np.where(possible, preferences, -np.inf))
    best = np.take_along_axis(order, action_sets.is_member[order].argmax(axis=1), 1)
    p = np.zeros_like(preferences)
    table = np.broadcast_to(action_sets.availability, best.shape)
    np.put_along_axis(p, best, table, axis=1)
    return _independent_best_probs(np.where(possible, p, 0.0), preferences)


@best_action_probs.register(Explicit)
def _(
    action_sets: Explicit,
    preferences: Float[Floats, "S A"],
    possible: Bool[Mask, "S A"],
) -> Float[Floats, "S A"]:
    shape = (len(preferences), len(action_sets.sets))
    weights = np.broadcast_to(action_sets.probabilities, shape)
    return listed_best_probs(action_sets.sets[None], weights, preferences, possible)


@singledispatch
def uniform_action_probs(
    action_sets: ActionSets, possible: Bool[Mask, "S A"]
) -> Float[Floats, "S A"]:
    """Probability of each action if one of the available ones is taken at random.

    Args:
        action_sets: Distribution of the action sets, fitted to the states.
        possible: Actions that each state has.

    Raises:
        ValueError: If there is no formula for the distribution.
    """
    sets, weights = enumerate_sets(action_sets, possible)
    probs: Floats = (weights / sets.sum(axis=1)) @ sets
    return probs


@uniform_action_probs.register(Independent)
def _(action_sets: Independent, possible: Bool[Mask, "S A"]) -> Float[Floats, "S A"]:
    p = np.where(possible, action_sets.availability, 0.0)
    return _uniform_member_probs(p, possible.astype(np.float64))


@uniform_action_probs.register(Grouped)
def _(action_sets: Grouped, possible: Bool[Mask, "S A"]) -> Float[Floats, "S A"]:
    size: Floats = possible.astype(np.float64) @ action_sets.is_member
    p = np.where(size > 0, action_sets.availability, 0.0)
    probs: Floats = _uniform_member_probs(p, size)[:, action_sets.groups] * possible
    return probs


@uniform_action_probs.register(Explicit)
def _(action_sets: Explicit, possible: Bool[Mask, "S A"]) -> Float[Floats, "S A"]:
    size = possible.astype(np.float64) @ action_sets.sets.T
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(size > 0, action_sets.probabilities / size, 0.0)
    return normalized((share @ action_sets.sets) * possible)


def enumerate_sets(
    action_sets: ActionSets, possible: Bool[Mask, "S A"]
) -> tuple[Bool[Mask, "K A"], Float[Floats, "S K"]]:
    """List every set that is not empty: for small tasks, as they are 2^A - 1.

    Args:
        action_sets: Distribution of the action sets, fitted to the states.
        possible: Actions that each state has.

    Returns:
        The sets as masks, and the probability of each in every state.
    """
    num_actions = possible.shape[1]
    if num_actions > MAX_ACTIONS:
        raise ValueError(
            f"{num_actions} actions have 2^{num_actions} subsets, and at most "
            f"2^{MAX_ACTIONS} are listed"
        )
    weights = _subset_weights(action_sets, possible)
    return subsets(num_actions)[1:], normalized(weights[:, 1:])


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


@singledispatch
def _subset_weights(
    action_sets: ActionSets, possible: Bool[Mask, "S A"]
) -> Float[Floats, "S K"]:
    """Probability of each of the `subsets`, before conditioning on not being empty."""
    raise ValueError(
        f"there is no formula for {type(action_sets).__name__} action sets of "
        f"{possible.shape[1]} actions: plan with sets sampled from it, "
        "`planning.sampled(mdp, num_sets)`"
    )


@_subset_weights.register(Independent)
def _(action_sets: Independent, possible: Bool[Mask, "S A"]) -> Float[Floats, "S K"]:
    p = np.where(possible, action_sets.availability, 0.0)
    return _product_weights(p)


@_subset_weights.register(Explicit)
def _(action_sets: Explicit, possible: Bool[Mask, "S A"]) -> Float[Floats, "S K"]:
    shape = (len(possible), len(action_sets.sets))
    weights = np.broadcast_to(action_sets.probabilities, shape)
    return _summed_by_subset(action_sets.sets, weights, possible)


@_subset_weights.register(Grouped)
def _(action_sets: Grouped, possible: Bool[Mask, "S A"]) -> Float[Floats, "S K"]:
    shape = (len(possible), action_sets.num_groups)
    weights = _product_weights(np.broadcast_to(action_sets.availability, shape))
    sets = subsets(action_sets.num_groups)[:, action_sets.groups]
    return _summed_by_subset(sets, weights, possible)


def mean_value(
    action_probs: Float[Floats, "*B A"], q: Float[Floats, "*B A"]
) -> Float[Floats, "*B"]:
    """Mean of action values; those of actions that are never taken do not count."""
    mean: Floats = (action_probs * np.where(action_probs > 0, q, 0.0)).sum(axis=-1)
    return mean


def rank(preferences: Float[Floats, "*B A"]) -> Int[Ints, "*B A"]:
    """Actions from the most to the least preferred; equal ones in their own order."""
    return np.argsort(-preferences, axis=-1, kind="stable")


def listed_best_probs(
    masks: Bool[Mask, "#S K A"],
    weights: Float[Floats, "S K"],
    preferences: Float[Floats, "S A"],
    possible: Bool[Mask, "S A"],
) -> Float[Floats, "S A"]:
    """Go down the ranking with all sets at once, crossing off those that are served.

    Args:
        masks: The sets, those of every state or the same for all.
        weights: Probability of each set.
        preferences: What the actions of each state are ranked by.
        possible: Actions that each state has.
    """
    rows = np.arange(len(preferences))
    left, probs = weights.copy(), np.zeros_like(preferences)
    for action in rank(preferences).T:
        offered = masks[rows % len(masks), :, action]
        offered &= possible[rows, action][:, None]
        probs[rows, action] = np.where(offered, left, 0.0).sum(axis=1)
        left[offered] = 0.0
    return normalized(probs)


def normalized(weights: Float[Floats, "S K"]) -> Float[Floats, "S K"]:
    """Condition on a set that is not empty."""
    total = weights.sum(axis=1, keepdims=True)
    check_never_empty(total[:, 0] > 0, np.arange(len(weights)))
    probs: Floats = weights / total
    return probs


def _independent_best_probs(
    p: Float[Floats, "S A"], preferences: Float[Floats, "S A"]
) -> Float[Floats, "S A"]:
    """Go down the ranking: an action is taken if it is in and no better one is.

    With the actions sorted, the best available one is the *first* member of the set, so
    its probabilities are those by which such sets are drawn, `first_member_probs`, and
    the condition that the set is not empty is in them.
    """
    order = rank(preferences)
    first = first_member_probs(np.take_along_axis(p, order, axis=1))
    missed = np.cumprod(1 - first, axis=1)
    missed = np.concatenate([np.ones((len(p), 1)), missed[:, :-1]], axis=1)
    probs = np.empty_like(p)
    np.put_along_axis(probs, order, first * missed, axis=1)
    return probs


def _uniform_member_probs(
    p: Float[Floats, "S G"], size: Float[Floats, "S G"]
) -> Float[Floats, "S G"]:
    """Probability of one member of each independent group to be drawn from the set.

    If group g, of n_g actions, is in the set, the share of each of them is 1 over the
    size of the set, and 1 / n is the integral of t^(n - 1) over [0, 1]. So the share
    is that of the polynomial p_g t^(n_g - 1) prod over h != g of (1 - p_h + p_h t^n_h),
    which Gauss-Legendre quadrature integrates exactly; conditioned on a set that is not
    empty.

    Args:
        p: Probability of each group; 0 for an empty one.
        size: Number of actions in each.
    """
    degree = int(size.sum(axis=1).max()) - 1
    nodes, node_weights = np.polynomial.legendre.leggauss(degree // 2 + 1)
    probs = np.zeros_like(p)
    for t, weight in zip((nodes + 1) / 2, node_weights / 2, strict=True):
        factor = 1 - p + p * t**size
        product = factor.prod(axis=1, keepdims=True)
        probs += weight * p * t ** (size - 1) * product / factor
    with np.errstate(divide="ignore"):
        probs /= -np.expm1(np.log1p(-p).sum(axis=1, keepdims=True))
    return probs


def _product_weights(p: Float[Floats, "S G"]) -> Float[Floats, "S K"]:
    """Probability of each of the `subsets` of independent members."""
    p = p[:, None]
    weights: Floats = np.where(subsets(p.shape[2]), p, 1 - p).prod(axis=2)
    return weights


def _summed_by_subset(
    sets: Bool[Mask, "K A"], weights: Float[Floats, "S K"], possible: Bool[Mask, "S A"]
) -> Float[Floats, "S _"]:
    """Add up the weights of sets that have the same possible actions."""
    bits = 1 << np.arange(possible.shape[1])
    number = (sets & possible[:, None]) @ bits
    summed = np.zeros((len(possible), 1 << possible.shape[1]))
    np.add.at(summed, (np.arange(len(possible))[:, None], number), weights)
    return summed
