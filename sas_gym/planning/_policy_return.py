"""The exact mean return of a policy: a rule, a learned policy, or a planned one."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from sas_gym._types import Floats, Ints, Mask
from sas_gym.action_sets._action_probs import enumerate_sets
from sas_gym.masks import with_mask
from sas_gym.planning._dynamic_programming import policy_evaluation
from sas_gym.planning._policies import TabularPolicy
from sas_gym.planning._problem import Problem, ProblemLike
from sas_gym.tasks._tabular import TabularSASMDP

MAX_PAIRS = 1_000_000
"""Largest number of pairs of a state and a set at which a policy is asked."""

_PAIRS_AT_ONCE = 16_384
_ROUNDING = 1e-4

AnyPolicy = TabularPolicy | Callable[[Any, NDArray[np.int8]], NDArray[Any]]
"""A policy with `action_probs`, or a function of batched observations and masks.

The function returns one action per row, or one row of action probabilities.
"""


def policy_return(
    problem: ProblemLike,
    policy: AnyPolicy,
    gamma: float = 1.0,
    *,
    max_pairs: int = MAX_PAIRS,
) -> float:
    """Compute the exact mean return of an episode under a policy.

    The policy is asked once for every pair of a state and an action set, in batches,
    and then evaluated by the planner, without any sampling. It must depend on the
    observation and the mask alone: not on time, a memory or a draw of its own. A policy
    that draws its actions returns their probabilities instead.

    Args:
        problem: A task, an environment of `sas_gym` or its id. Its action sets and its
            time limit count.
        policy: A function of batched observations and action masks, as the environment
            returns them, that returns one action [N] or the action probabilities [N, A]
            per row: a rule of `sas_gym.rules`, or a learned policy. Or a policy with
            `action_probs`, such as `RandomPolicy` or a planner's.
        gamma: Discount of the return.
        max_pairs: Largest number of pairs to ask for.

    Raises:
        ValueError: If the task has no tabular form, if there are too many pairs, or if
            the policy takes an unavailable action.

    Example:
        >>> import sas_gym
        >>> env = "SAS/SanFrancisco-v0"
        >>> round(policy_return(env, lambda observation, mask: mask.argmax(axis=1)), 3)
        9.117
        >>> round(policy_return(env, sas_gym.RandomPolicy()), 3)
        0.341
    """
    found = Problem(problem)
    mdp = found.required_tabular(gamma)
    if not isinstance(policy, TabularPolicy):
        policy = _AskedPolicy(found, policy, max_pairs)
    return policy_evaluation(mdp, policy).mean_return


class _Pairs(NamedTuple):
    """Pairs of a state and an action set that comes there."""

    state: Int[Ints, " N"]
    """Number of each state."""
    mask: Bool[Mask, "N A"]
    """Each action set."""
    weight: Float[Floats, " N"]
    """Probability of the set in the state."""


class _AskedPolicy:
    """A function of observations and masks, as the action probabilities of states.

    Args:
        problem: What is played.
        policy: The function.
        max_pairs: Largest number of pairs of a state and a set.
    """

    def __init__(
        self,
        problem: Problem,
        policy: Callable[[Any, NDArray[np.int8]], NDArray[Any]],
        max_pairs: int,
    ) -> None:
        self._problem, self._policy, self._max_pairs = problem, policy, max_pairs

    def action_probs(self, mdp: TabularSASMDP) -> Float[Floats, "S A"]:
        """Ask the policy at every pair; return its mean over the sets."""
        probs = np.zeros(mdp.reward.shape)
        for pairs in _pairs(mdp, self._max_pairs):
            taken = self._taken(pairs)
            np.add.at(probs, pairs.state, pairs.weight[:, None] * taken)
        return probs

    def _taken(self, pairs: _Pairs) -> Float[Floats, "N A"]:
        """Return the probabilities with which the policy takes each action."""
        task = self._problem.task
        observation: Any = task.observe(pairs.state)
        mask = pairs.mask.astype(np.int8)
        if self._problem.mask_in_observation:
            observation = with_mask(observation, pairs.mask)
        return checked_probs(np.asarray(self._policy(observation, mask)), pairs.mask)


def checked_probs(
    answer: NDArray[Any], mask: Bool[Mask, "N A"]
) -> Float[Floats, "N A"]:
    """Return a policy's actions or probabilities as probabilities, or raise an error.

    Args:
        answer: One action per row of masks, or one row of probabilities.
        mask: The action sets.
    """
    if answer.shape == mask.shape[:1] and answer.dtype.kind in "iu":
        inside = (answer >= 0) & (answer < mask.shape[1])
        probs = (
            np.where(inside, answer, -1)[:, None] == np.arange(mask.shape[1])
        ) * 1.0
    elif answer.shape == mask.shape and answer.dtype.kind == "f":
        probs = answer.astype(np.float64)
    else:
        raise ValueError(
            "a policy must return one action per row of masks, integers of shape "
            f"{mask.shape[:1]}, or their probabilities, floats of shape {mask.shape}; "
            f"got shape {answer.shape} of {answer.dtype}"
        )
    total = probs.sum(axis=1, where=mask)
    wrong = ~(np.abs(total - 1) < _ROUNDING) | (probs < 0).any(axis=1)
    wrong |= (np.where(mask, 0.0, probs) != 0).any(axis=1)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"the policy must take available actions only, with probabilities that sum "
            f"to 1: it returned {answer[row].tolist()} where the actions "
            f"{np.flatnonzero(mask[row]).tolist()} are available"
        )
    normalized: Floats = probs / total[:, None]
    return normalized


def _pairs(mdp: TabularSASMDP, max_pairs: int) -> Iterator[_Pairs]:
    """Yield every pair of a state that is not final and a set that may come there."""
    sets, weights = enumerate_sets(mdp.action_sets, mdp.possible_actions)
    weights[mdp.is_terminal] = 0.0
    row, column = np.nonzero(weights)
    if len(row) > max_pairs:
        raise ValueError(
            f"there are {len(row)} pairs of a state and an action set, and at most "
            f"{max_pairs} are asked for: play episodes instead (episode_returns), or "
            "raise max_pairs"
        )
    for first in range(0, len(row), _PAIRS_AT_ONCE):
        part = slice(first, first + _PAIRS_AT_ONCE)
        state, number = row[part], column[part]
        yield _Pairs(state, sets[number], weights[state, number])
