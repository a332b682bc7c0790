"""The recommender by fitted backward induction: an approximation of its optimum."""

import numpy as np
from numpy.random import Generator

from sas_gym.action_sets import Floats, Ints
from sas_gym.planning._action_probs import best_action_probs, mean_value
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
    visited: by a myopic policy at first, then by the plan itself; the choices of half
    the users are distorted, for variety.

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
        score = task.expected_profit
        for _ in range(_NUM_SWEEPS):
            state = task.reset(num_contexts, rng)
            visited = []
            for _ in range(task.num_recommendations):
                visited.append(state)
                scores = _distorted(score(state), rng)
                action = best_available(task, scores, rng)
                state, _, _ = task.transition(state, action, rng)
            for left, state in enumerate(reversed(visited), start=1):
                self._fit(left, state)
            score = self.q_values

    def values(self, state: States) -> Floats:
        """Fitted values of contexts that have equally many recommendations left, [...].

        Args:
            state: Contexts, [..., num_topics + 1].
        """
        first = state.reshape(-1, state.shape[-1])[0]
        values: Floats = self._features(state) @ self._weights[self._left(first)]
        return values

    def q_values(self, state: States) -> Floats:
        """Look one recommendation ahead: values of all products, [N, A]."""
        parts = np.array_split(state, 1 + len(state) // _CHUNK)
        return np.concatenate([self._ahead(part) for part in parts])

    def best_values(self, q: Floats) -> Floats:
        """Mean over the action sets of the best of action values, [N, A] to [N]."""
        return mean_value(best_action_probs(self.task.action_sets, q), q)

    def _fit(self, left: int, state: States) -> None:
        target = self.best_values(self.q_values(state))
        x = self._features(state)
        gram = x.T @ x + _RIDGE * len(x) * np.eye(x.shape[1])
        self._weights[left] = np.linalg.solve(gram, x.T @ target)

    def _features(self, state: States) -> Floats:
        interest = state[..., :-1]
        hidden = np.maximum(interest @ self._slope + self._offset, 0)
        return np.concatenate([np.ones_like(state[..., :1]), interest, hidden], axis=-1)

    def _ahead(self, state: States) -> Floats:
        task = self.task
        bought = task.drift(state[:, None], np.arange(task.num_actions), True)
        # A refusal leads to one place for all products of a topic: try one of each.
        _, one_each = np.unique(task.topic, return_index=True)
        refused = task.drift(state[:, None], one_each, False)
        probability = task.purchase_probability(state)
        if_bought = task.profit + self.values(bought)
        if_refused = self.values(refused)[:, task.topic]
        return probability * if_bought + (1 - probability) * if_refused

    def _left(self, state: States) -> int:
        return round(float(state[-1]) * self.task.num_recommendations)


def best_available(task: Recommender, scores: Floats, rng: Generator) -> Ints:
    """Draw action sets and take the best product of each, [N]."""
    law = task.action_sets
    row = rng.random((len(scores), law.num_uniforms(task.num_actions)))
    mask = law.sets_from(row, None)
    actions: Ints = np.where(mask, scores, -np.inf).argmax(axis=1)
    return actions


def _distorted(scores: Floats, rng: Generator) -> Floats:
    """Distort the scores of every second user at random, [N, A]."""
    factor = np.exp(rng.normal(size=scores.shape))
    factor[1::2] = 1.0
    return scores * factor
