"""The exact mean return of a policy: a rule, a learned policy, or a planned one."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from sas_gym._evaluation import RandomPolicy
from sas_gym._types import Floats, Ints, Mask
from sas_gym.action_sets._set_lists import weighted_sets
from sas_gym.masks import with_mask
from sas_gym.planning._dynamic_programming import policy_evaluation
from sas_gym.planning._lasting import LastingMDP
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
    asked = _Asked(found, policy, max_pairs)
    if not mdp.action_sets.is_sas_mdp:
        lasting = LastingMDP(mdp)
        taken = asked.at_outcomes(lasting)
        return lasting.mean_return(lasting.values(lambda _: taken))
    if isinstance(policy, TabularPolicy):
        return policy_evaluation(mdp, policy).mean_return
    return policy_evaluation(mdp, asked).mean_return


class _Asked:
    """A policy that is asked for its actions in every state and with every set.

    Args:
        problem: The problem that is played.
        policy: The policy.
        max_pairs: Largest number of pairs of a state and a set.
    """

    def __init__(self, problem: Problem, policy: AnyPolicy, max_pairs: int) -> None:
        self._problem, self._policy, self._max_pairs = problem, policy, max_pairs

    def action_probs(self, mdp: TabularSASMDP) -> Float[Floats, "S A"]:
        """Return the probability of each action in every state, over the sets."""
        probs = np.zeros(mdp.reward.shape)
        for part in weighted_sets(mdp.action_sets, mdp.possible_actions):
            is_running = ~mdp.is_terminal[part.state]
            weights = np.where(is_running[:, None], part.weights, 0.0)
            row, number = np.nonzero(weights)
            mask = part.masks[row % len(part.masks), number]
            state, weight = part.state[row], weights[row, number]
            np.add.at(probs, state, weight[:, None] * self._taken(state, mask))
        return probs

    def at_outcomes(self, lasting: LastingMDP) -> Float[Floats, "S K A"]:
        """Return the probability of each action in every state, at every outcome."""
        probs = np.zeros(lasting.masks.shape)
        running = np.flatnonzero(~lasting.mdp.is_terminal)
        mask = lasting.masks[running].reshape(-1, lasting.mdp.num_actions)
        if isinstance(self._policy, RandomPolicy):
            taken = mask / mask.sum(axis=1, keepdims=True)
        else:
            taken = self._taken(np.repeat(running, lasting.num_outcomes), mask)
        probs[running] = taken.reshape(len(running), *lasting.masks.shape[1:])
        return probs

    def _taken(
        self, number: Int[Ints, " N"], mask: Bool[Mask, "N A"]
    ) -> Float[Floats, "N A"]:
        """Return the probabilities with which the policy takes each action."""
        self._max_pairs -= len(number)
        if self._max_pairs < 0:
            raise ValueError(
                "there are more pairs of a state and an action set than max_pairs: "
                "play episodes instead (episode_returns), or raise it"
            )
        if not callable(self._policy):
            raise ValueError(
                f"{self._policy!r} must be a function of observations and masks, or "
                "have action_probs"
            )
        parts = [np.empty((0, mask.shape[1]))]
        for first in range(0, len(number), _PAIRS_AT_ONCE):
            part = slice(first, first + _PAIRS_AT_ONCE)
            observation, int_mask = self._seen(number[part], mask[part])
            answer = np.asarray(self._policy(observation, int_mask))
            parts.append(checked_probs(answer, mask[part]))
        return np.concatenate(parts)

    def _seen(
        self, number: Int[Ints, " N"], mask: Bool[Mask, "N A"]
    ) -> tuple[Any, NDArray[np.int8]]:
        """Return the observations and masks as the environment shows them."""
        task = self._problem.task
        listed = task.states()
        observation: Any = task.observe(number if listed is None else listed[number])
        if self._problem.mask_in_observation:
            observation = with_mask(observation, mask)
        return observation, mask.astype(np.int8)


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
