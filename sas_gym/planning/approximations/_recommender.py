"""The recommender's optimum: fitted backward induction, and bounds on both sides."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.random import Generator

from sas_gym._types import Floats, Ints, Mask
from sas_gym.action_sets._action_probs import best_action_probs, mean_value
from sas_gym.tasks._recommender import Recommender
from sas_gym.tasks._task import States

_CHUNK = 100
_NUM_SWEEPS = 3
# Random features max(x . slope + offset, 0), with kinks spread over the contexts.
_SLOPE, _OFFSET = 1.5, 0.5
_RIDGE = 1e-6


class FittedPlan:
    """Action values of the recommender, by a fit of the values of contexts.

    The value of a context with a number of recommendations left is a least-squares fit
    on random features. Given the fit for one recommendation less, its targets are exact
    means over the user's decision and the action set. The contexts are those that are
    visited: by a myopic policy at first, then by the plan itself; the preferences of
    half the users are distorted, for variety.

    Args:
        task: The recommender.
        num_contexts: Number of contexts in each fit.
        num_features: Number of random features.
        seed: Seed of all draws.
    """

    def __init__(
        self, task: Recommender, num_contexts: int, num_features: int, seed: int
    ) -> None:
        self.task = task
        rng = np.random.default_rng(seed)
        self._slope = rng.normal(scale=_SLOPE, size=(task.num_topics, num_features))
        self._offset = rng.normal(scale=_OFFSET, size=num_features)
        size = 1 + task.num_topics + num_features
        self._weights = np.zeros((task.num_recommendations + 1, size))
        preferences_of = task.expected_profit
        for _ in range(_NUM_SWEEPS):
            state = task.reset(num_contexts, rng)
            visited = []
            for _ in range(task.num_recommendations):
                visited.append(state)
                preferences = _distorted(preferences_of(state), rng)
                action = best_available(task, preferences, rng)
                state, _, _ = task.transition(state, action, rng)
            for left, state in enumerate(reversed(visited), start=1):
                self._fit(left, state)
            preferences_of = self.q_values

    def values(self, state: Float[Floats, "*B X"]) -> Float[Floats, "*B"]:
        """Fitted values of contexts that all have as many recommendations left."""
        first = state.reshape(-1, state.shape[-1])[0]
        values: Floats = self._features(state) @ self._weights[self._left(first)]
        return values

    def q_values(self, state: States) -> Float[Floats, "N A"]:
        """Look one recommendation ahead: values of all products."""
        parts = np.array_split(state, 1 + len(state) // _CHUNK)
        return np.concatenate([self._ahead(part) for part in parts])

    def best_values(self, q: Float[Floats, "N A"]) -> Float[Floats, " N"]:
        """Mean over the action sets of the best of the action values."""
        possible = np.ones(q.shape, dtype=bool)
        return mean_value(best_action_probs(self.task.action_sets, q, possible), q)

    def _fit(self, left: int, state: States) -> None:
        target = self.best_values(self.q_values(state))
        x = self._features(state)
        gram = x.T @ x + _RIDGE * len(x) * np.eye(x.shape[1])
        self._weights[left] = np.linalg.solve(gram, x.T @ target)

    def _features(self, state: Float[Floats, "*B X"]) -> Float[Floats, "*B F"]:
        interest = state[..., :-1]
        hidden = np.maximum(interest @ self._slope + self._offset, 0)
        return np.concatenate([np.ones_like(state[..., :1]), interest, hidden], axis=-1)

    def _ahead(self, state: States) -> Float[Floats, "N A"]:
        task = self.task
        bought = task.drift(state[:, None], np.arange(task.num_actions), True)
        # A refusal leads to the same context for all products of a topic: try one each.
        _, one_each = np.unique(task.topic, return_index=True)
        refused = task.drift(state[:, None], one_each, False)
        probability = task.purchase_probability(state)
        if_bought = task.profit + self.values(bought)
        if_refused = self.values(refused)[:, task.topic]
        return probability * if_bought + (1 - probability) * if_refused

    def _left(self, state: Float[Floats, " X"]) -> int:
        return round(float(state[-1]) * self.task.num_recommendations)


class Bounds(NamedTuple):
    """Samples whose means bound the optimal mean return."""

    predicted: Float[Floats, " N"]
    """Return that the plan predicts for each user."""
    lower: Float[Floats, " N"]
    """Unbiased estimates of the plan's return."""
    upper_excess: Float[Floats, " M"]
    """By how much the optimum may exceed the prediction: its mean is a bound."""


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
    predicted, lower = plan_returns(plan, num_users, rng)
    return Bounds(predicted, lower, relaxed_excess(plan, num_searches, slack, rng))


def plan_returns(
    plan: FittedPlan, num_users: int, rng: Generator
) -> tuple[Float[Floats, " N"], Float[Floats, " N"]]:
    """Play a plan and estimate its mean return, with little noise.

    The return of a user differs from what the plan predicts by noise of mean 0, which
    is left out, and by the plan's own errors: by how much looking ahead from a visited
    context exceeds its fitted value. So the prediction and these errors add up to an
    unbiased estimate of the policy's return.

    Returns:
        What the plan predicts at the first context, and the estimated return.
    """
    task = plan.task
    state = task.reset(num_users, rng)
    q = plan.q_values(state)
    predicted = plan.best_values(q)
    total = predicted.copy()
    for _ in range(task.num_recommendations - 1):
        action = best_available(task, q, rng)
        state, _, _ = task.transition(state, action, rng)
        q = plan.q_values(state)
        total += plan.best_values(q) - plan.values(state)
    return predicted, total


def relaxed_excess(
    plan: FittedPlan, num_users: int, slack: float, rng: Generator
) -> Float[Floats, " M"]:
    """Let somebody who knows the future beat the plan, at a price.

    An information relaxation (Brown, Smith and Sun, 2010): whoever knows all sets and
    all of a user's decisions in advance does at least as well as any policy, and still
    does if each advantage of that knowledge, measured by the plan's values, is taken
    away again. What is left to gain on the prediction is the sum of the plan's errors
    in the visited contexts, less the gap of each action to the best one in its set. The
    best sequence is found by search. Where a gap exceeds what errors can make good, the
    search is cut.

    Args:
        plan: A fitted plan.
        num_users: Number of users.
        slack: More than the plan ever underestimates, per recommendation.
        rng: Source of the users, their decisions and the sets.

    Returns:
        The largest gain on the prediction for each user.
    """
    task = plan.task
    state, user = task.reset(num_users, rng), np.arange(num_users)
    gain = np.zeros(num_users)
    for step in range(task.num_recommendations):
        q = plan.q_values(state)
        if step:
            gain += plan.best_values(q) - plan.values(state)
        mask = _draw_sets(task, num_users, rng)[user]
        best = np.where(mask, q, -np.inf).max(axis=1, keepdims=True)
        gap = np.where(mask, best - q, np.inf)
        threshold = rng.random(num_users)[user]
        bought = threshold[:, None] < task.purchase_probability(state)
        to_come = task.num_recommendations - 1 - step
        tried = _distinct(task, gap, bought) & (gap <= slack * to_come)
        node, action = tried.nonzero()
        user, gain = user[node], gain[node] - gap[node, action]
        state = task.drift(state[node], action, bought[node, action])
    most = np.full(num_users, -np.inf)
    np.maximum.at(most, user, gain)
    return most


def best_available(
    task: Recommender, preferences: Float[Floats, "N A"], rng: Generator
) -> Int[Ints, " N"]:
    """Draw action sets and take the most preferred product of each."""
    mask = _draw_sets(task, len(preferences), rng)
    actions: Ints = np.where(mask, preferences, -np.inf).argmax(axis=1)
    return actions


def _draw_sets(task: Recommender, num_sets: int, rng: Generator) -> Bool[Mask, "N A"]:
    shape = (num_sets, task.action_sets.num_uniforms(task.num_actions))
    return task.action_sets.sets_from(rng.random(shape), None, None)


def _distorted(
    preferences: Float[Floats, "N A"], rng: Generator
) -> Float[Floats, "N A"]:
    """Distort the preferences of every second user at random."""
    factor = np.exp(rng.normal(size=preferences.shape))
    factor[1::2] = 1.0
    return preferences * factor


def _distinct(
    task: Recommender, gap: Float[Floats, "N A"], bought: Bool[Mask, "N A"]
) -> Bool[Mask, "N A"]:
    """Of refused products of one topic, which lead to one context, keep the best."""
    distinct = bought.copy()
    rows = np.arange(len(gap))
    for topic in range(task.num_topics):
        (members,) = np.nonzero(task.topic == topic)
        refused = np.where(bought[:, members], np.inf, gap[:, members])
        distinct[rows, members[refused.argmin(axis=1)]] = True
    return distinct
