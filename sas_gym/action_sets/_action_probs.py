"""How often each action is taken, over all action sets that may come.

A backup of a SAS-MDP needs no more of the distribution of the action sets than this:
the value of a state is the mean of its action values, weighted by the probability that
each action is the one taken from the set that comes. Independent groups of actions have
closed forms; other distributions are listed.
"""

from functools import singledispatch

import numpy as np
from jaxtyping import Bool, Float, Int

from sas_gym._types import Floats, Ints, Mask
from sas_gym.action_sets._base import ActionSets
from sas_gym.action_sets._independent import Independent, first_member_probs
from sas_gym.action_sets._set_lists import Groups, groups_of, normalized, weighted_sets


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
        preferences: Ranks of the actions of each state: the largest is taken first.
        possible: Actions that each state has.

    Raises:
        ValueError: If the sets last, or if there is no formula and no list of them.
    """
    groups = groups_of(action_sets, possible)
    if groups is not None:
        p = _best_member_probs(groups, preferences, possible)
        return _independent_best_probs(p, preferences)
    probs = np.empty_like(preferences)
    for state, masks, weights in weighted_sets(action_sets, possible):
        probs[state] = listed_best_probs(
            masks, weights, preferences[state], possible[state]
        )
    return probs


@best_action_probs.register(Independent)
def _(
    action_sets: Independent,
    preferences: Float[Floats, "S A"],
    possible: Bool[Mask, "S A"],
) -> Float[Floats, "S A"]:
    p = np.where(possible, action_sets.availability, 0.0)
    return _independent_best_probs(p, preferences)


@singledispatch
def uniform_action_probs(
    action_sets: ActionSets, possible: Bool[Mask, "S A"]
) -> Float[Floats, "S A"]:
    """Probability of each action if one of the available ones is taken at random.

    Args:
        action_sets: Distribution of the action sets, fitted to the states.
        possible: Actions that each state has.

    Raises:
        ValueError: If the sets last, or if there is no formula and no list of them.
    """
    groups = groups_of(action_sets, possible)
    if groups is not None:
        return _uniform_of_groups(groups, possible)
    probs = np.empty(possible.shape)
    for state, masks, weights in weighted_sets(action_sets, possible):
        size = np.maximum(masks.sum(axis=2), 1)
        probs[state] = ((weights / size)[:, None] @ masks)[:, 0]
    return probs


@uniform_action_probs.register(Independent)
def _(action_sets: Independent, possible: Bool[Mask, "S A"]) -> Float[Floats, "S A"]:
    p = np.where(possible, action_sets.availability, 0.0)
    return _uniform_member_probs(p, possible.astype(np.float64))


def mean_value(
    action_probs: Float[Floats, "*B A"], q: Float[Floats, "*B A"]
) -> Float[Floats, "*B"]:
    """Mean of action values; actions that are never taken do not count."""
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
    """Take the most preferred action of each listed set.

    Args:
        masks: The sets of every state, or the same sets for all.
        weights: Probability of each set.
        preferences: Ranks of the actions of each state: the largest is taken first.
        possible: Actions that each state has.
    """
    num_states, num_actions = preferences.shape
    place = np.empty((num_states, num_actions), dtype=np.int16)
    np.put_along_axis(place, rank(preferences), np.arange(num_actions)[None], axis=1)
    place = np.where(possible, place, num_actions)[:, None]
    place = np.where(masks, place, np.int16(num_actions))
    best = place.argmin(axis=2)
    is_empty = place.min(axis=2) == num_actions
    probs = np.zeros(preferences.shape)
    rows = np.arange(num_states)[:, None]
    np.add.at(probs, (rows, best), np.where(is_empty, 0.0, weights))
    return normalized(probs)


def _best_member_probs(
    groups: Groups, preferences: Float[Floats, "S A"], possible: Bool[Mask, "S A"]
) -> Float[Floats, "S A"]:
    """Return each group's probability at its best member, and 0 at the others.

    Of a group only its best member is ever taken, and the best members of different
    groups are independent.
    """
    rows, num_actions = np.arange(len(possible))[:, None], possible.shape[1]
    order = rank(np.where(possible, preferences, -np.inf))
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(num_actions)[None], axis=1)
    place = np.where(possible, place, num_actions)
    best_place = np.full(place.shape, num_actions)
    np.minimum.at(best_place, (rows, groups.leader), place)
    is_best = place == np.take_along_axis(best_place, groups.leader, axis=1)
    return np.where(is_best, groups.availability, 0.0)


def _independent_best_probs(
    p: Float[Floats, "S A"], preferences: Float[Floats, "S A"]
) -> Float[Floats, "S A"]:
    """Go down the ranking: an action is taken if it is in and no better one is.

    With the actions sorted, the best available one is the *first* member of the set, so
    `first_member_probs`, by which such sets are drawn, gives its probabilities, and the
    condition that the set is not empty is in them.
    """
    order = rank(preferences)
    first = first_member_probs(np.take_along_axis(p, order, axis=1))
    missed = np.cumprod(1 - first, axis=1)
    missed = np.concatenate([np.ones((len(p), 1)), missed[:, :-1]], axis=1)
    probs = np.empty_like(p)
    np.put_along_axis(probs, order, first * missed, axis=1)
    return probs


def _uniform_of_groups(
    groups: Groups, possible: Bool[Mask, "S A"]
) -> Float[Floats, "S A"]:
    """Share the probability of each group's draw among its possible members."""
    rows = np.arange(len(possible))[:, None]
    size = np.zeros(possible.shape)
    np.add.at(size, (rows, groups.leader), possible)
    p = np.zeros(possible.shape)
    np.maximum.at(p, (rows, groups.leader), groups.availability)
    of_leaders = _uniform_member_probs(p, size)
    probs: Floats = np.take_along_axis(of_leaders, groups.leader, axis=1) * possible
    return probs


def _uniform_member_probs(
    p: Float[Floats, "S G"], size: Float[Floats, "S G"]
) -> Float[Floats, "S G"]:
    """Probability of one member of each independent group to be drawn from the set.

    If group g, of n_g actions, is in the set, the share of each of them is 1 over the
    size of the set, and 1 / n is the integral of t^(n - 1) over [0, 1]. So the share is
    the integral of the polynomial

        p_g t^(n_g - 1) prod over h != g of (1 - p_h + p_h t^n_h),

    which Gauss-Legendre quadrature integrates exactly. It is divided by the probability
    of a set that is not empty.

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
