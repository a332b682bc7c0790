"""The recommender's optimum from both sides."""

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from sas_gym.action_sets import Floats, Mask
from sas_gym.planning.approximations._recommender import FittedPlan, best_available


class Bounds(NamedTuple):
    """Numbers whose means bound the optimal mean return, one a user."""

    promised: Floats
    """What the plan expects of a user, [N]."""
    lower: Floats
    """Unbiased estimates of what the plan earns, [N]."""
    upper_excess: Floats
    """By how much the optimum may exceed the promise: its mean is a bound, [M]."""


def bounds(
    plan: FittedPlan, num_users: int, num_searches: int, slack: float, seed: int
) -> Bounds:
    """Bound the optimal return of the recommender from below and from above.

    Args:
        plan: A fitted plan.
        num_users: Number N of users for the lower bound.
        num_searches: Number M of users for the upper bound.
        slack: As for `relaxed_excess`.
        seed: Seed of the users.
    """
    rng = np.random.default_rng(seed)
    promised, lower = earned(plan, num_users, rng)
    return Bounds(promised, lower, relaxed_excess(plan, num_searches, slack, rng))


def earned(plan: FittedPlan, num_users: int, rng: Generator) -> tuple[Floats, Floats]:
    """Play a plan and estimate its mean return, with little noise.

    What a user brings differs from what the plan expects by luck, which has mean 0 and
    is left out, and by the plan's own errors: by how much looking ahead from a context
    on the way exceeds its fitted value. So the promise and these errors add up to an
    unbiased estimate of what the policy earns.

    Returns:
        What the plan promises at the first context, [N], and what it earns, [N].
    """
    task = plan.task
    state = task.reset(num_users, rng)
    q = plan.q_values(state)
    promised = plan.best_values(q)
    total = promised.copy()
    for _ in range(task.num_recommendations - 1):
        action = best_available(task, q, rng)
        state, _, _ = task.transition(state, action, rng)
        q = plan.q_values(state)
        total += plan.best_values(q) - plan.values(state)
    return promised, total


def relaxed_excess(
    plan: FittedPlan, num_users: int, slack: float, rng: Generator
) -> Floats:
    """Let somebody who knows the future beat the plan, at a price.

    An information relaxation (Brown, Smith and Sun, 2010): whoever knows all sets and
    all of a user's luck in advance does at least as well as any policy, and still does
    if every bit of luck, measured by the plan's values, is taken away again. What is
    left to gain on the promise is the sum of the plan's errors in the contexts on the
    way, less the gap of each choice to the best one in its set. The best way is found
    by search. Where a gap exceeds what errors can make good, the search is cut.

    Args:
        plan: A fitted plan.
        num_users: Number N of users.
        slack: More than the plan is ever wrong by upwards, a recommendation.
        rng: Source of the users, their luck and the sets.

    Returns:
        The best gain on the promise for each user, [N].
    """
    task, law = plan.task, plan.task.action_sets
    state, user = task.reset(num_users, rng), np.arange(num_users)
    gain = np.zeros(num_users)
    for step in range(task.num_recommendations):
        q = plan.q_values(state)
        if step:
            gain += plan.best_values(q) - plan.values(state)
        uniforms = rng.random((num_users, law.num_uniforms(task.num_actions)))
        mask = law.sets_from(uniforms, None)[user]
        best = np.where(mask, q, -np.inf).max(axis=1, keepdims=True)
        gap = np.where(mask, best - q, np.inf)
        luck = rng.random(num_users)[user]
        bought = luck[:, None] < task.purchase_probability(state)
        to_come = task.num_recommendations - 1 - step
        tried = _distinct(plan, gap, bought) & (gap <= slack * to_come)
        node, action = tried.nonzero()
        user, gain = user[node], gain[node] - gap[node, action]
        state = task.drift(state[node], action, bought[node, action])
    most = np.full(num_users, -np.inf)
    np.maximum.at(most, user, gain)
    return most


def _distinct(plan: FittedPlan, gap: Floats, bought: Mask) -> Mask:
    """Of refused products of one topic, which lead to one context, keep the best."""
    distinct = bought.copy()
    rows = np.arange(len(gap))
    for topic in range(plan.task.num_topics):
        (members,) = np.nonzero(plan.task.topic == topic)
        refused = np.where(bought[:, members], np.inf, gap[:, members])
        distinct[rows, members[refused.argmin(axis=1)]] = True
    return distinct
