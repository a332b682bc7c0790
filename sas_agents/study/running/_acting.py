"""How a trained policy acts: the actions that it takes, and their probabilities."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sas_agents.study.definition._algorithms import Algorithm
from sas_gym.masks import sample_actions

Probabilities = Callable[[Any, NDArray[np.int8]], NDArray[np.float64]]
"""From observations and action masks [N, A] to probabilities of the actions [N, A]."""


class Actor:
    """A trained policy, acting greedily or by its own random choice.

    Args:
        algorithm: How the algorithm acts, and how masks reach it.
        model: A model with `predict`, or a function from observations and masks to
            actions.
        greedy: Whether to take the best action instead of a drawn one. A function acts
            as it does.
        seed: Seed of the actions that replace unavailable ones.
    """

    def __init__(
        self, algorithm: Algorithm, model: Any, greedy: bool, seed: int = 0
    ) -> None:
        self.algorithm = algorithm
        self.model = model
        self.greedy = greedy
        self.memory: Any = None
        self._rng = np.random.default_rng(seed)
        self._is_function = not hasattr(model, "predict")
        if self._is_function and not callable(model):
            raise TypeError(
                f"{algorithm.location} must return a policy: an object with `predict` "
                "as Stable-Baselines3's models have it, or a function from "
                f"observations and action masks to actions; got {model!r}"
            )
        self._by_argument = not self._is_function and check_predict(algorithm, model)

    def actions(
        self,
        observation: Any,
        masks: NDArray[np.int8],
        episode_starts: NDArray[np.bool_] | None = None,
    ) -> NDArray[Any]:
        """Return an available action for each environment.

        Args:
            observation: The observations.
            masks: The action masks.
            episode_starts: Where an episode starts, and a memory anew.
        """
        if self._is_function:
            return self._checked(np.asarray(self.model(observation, masks)), masks)
        actions, self.memory = self.model.predict(
            observation,
            state=self.memory,
            episode_start=episode_starts,
            deterministic=self.greedy,
            **({"action_masks": masks} if self._by_argument else {}),
        )
        if self.algorithm.mask == "repair":
            is_taken = np.take_along_axis(masks, actions[:, None], axis=1)[:, 0] == 1
            return np.where(is_taken, actions, sample_actions(masks, self._rng))
        return self._checked(np.asarray(actions), masks)

    def _checked(self, actions: NDArray[Any], masks: NDArray[np.int8]) -> NDArray[Any]:
        """Raise an error for an action that is not available."""
        if actions.ndim != 1:  # Of several dimensions: the environment checks it.
            return actions
        if actions.shape != masks.shape[:1] or actions.dtype.kind not in "iu":
            raise ValueError(
                f"{self.algorithm.location} must choose {len(masks)} whole numbers, "
                f"one action per environment; got {actions.dtype} of shape "
                f"{actions.shape}"
            )
        is_inside = (actions >= 0) & (actions < masks.shape[1])
        taken = np.take_along_axis(masks, np.where(is_inside, actions, 0)[:, None], 1)
        wrong = np.flatnonzero(~is_inside | (taken[:, 0] != 1))
        if wrong.size:
            raise ValueError(
                f"{self.algorithm.location} chose the unavailable action "
                f"{actions[wrong[0]]}: choose where the action mask is 1, or write "
                'mask = "repair" to have unavailable actions replaced'
            )
        return actions

    def probabilities(self) -> Probabilities | None:
        """Return the policy as probabilities, or `None` if it does not tell them."""
        if self.greedy:
            return self._chosen
        if hasattr(self.model, "action_probs"):
            told: Probabilities = self.model.action_probs
            return told
        policy = getattr(self.model, "policy", None)
        if self.algorithm.mask == "repair" or not _has_probabilities(policy):
            return None
        return lambda obs, masks: _softmax_probs(
            policy, obs, masks if self._by_argument else None
        )

    def _chosen(self, observation: Any, masks: NDArray[np.int8]) -> NDArray[np.float64]:
        """Return probabilities of 1 for the actions of a deterministic policy.

        An unavailable action is replaced by any available one.
        """
        if self._is_function or self.algorithm.mask != "repair":
            actions = self.actions(observation, masks)
            chosen: NDArray[np.float64] = np.eye(masks.shape[1])[actions]
            return chosen
        actions, _ = self.model.predict(observation, deterministic=True)
        is_taken = np.take_along_axis(masks, actions[:, None], axis=1) == 1
        uniform = masks / masks.sum(axis=1, keepdims=True)
        spread: NDArray[np.float64]
        spread = np.where(is_taken, np.eye(masks.shape[1])[actions], uniform)
        return spread


WAYS = {"sampled": False, "greedy": True}
"""The ways to act by their names, and whether they are greedy."""


def check_predict(algorithm: Algorithm, model: Any) -> bool:
    """Return whether `predict` of a model is given the masks as an argument.

    Raises:
        ValueError: If there is no other way for them, and it does not take them.
    """
    if algorithm.mask not in ("info", "method"):
        return False
    if "action_masks" not in signature(model.predict).parameters:
        raise ValueError(
            f"`predict` of {algorithm.location} must have an argument action_masks, as "
            f'mask = "{algorithm.mask}" keeps the mask out of the observation; or '
            'write mask = "observation" or mask = "repair"'
        )
    return True


def _has_probabilities(policy: Any) -> bool:
    from stable_baselines3.common.policies import ActorCriticPolicy

    is_softmax = hasattr(policy, "masked_logits")
    has_memory = hasattr(policy, "lstm_actor")
    known = is_softmax or isinstance(policy, ActorCriticPolicy)
    if not known:  # MaskablePPO's is a class of its own.
        known = hasattr(policy, "get_distribution")
    return known and not has_memory


def _softmax_probs(
    policy: Any, observation: Any, masks: NDArray[np.int8] | None
) -> NDArray[np.float64]:
    """Return the probabilities of a Stable-Baselines3 policy with discrete actions."""
    import torch as th

    policy.set_training_mode(False)
    with th.no_grad():
        tensors, _ = policy.obs_to_tensor(observation)
        if hasattr(policy, "get_distribution"):
            given = () if masks is None else (masks,)
            probs = policy.get_distribution(tensors, *given).distribution.probs
        else:
            probs = policy.masked_logits(tensors).softmax(dim=-1)
    found: NDArray[np.float64] = probs.cpu().numpy().astype(np.float64)
    return found


def has_memory(model: Any) -> bool:
    """Return whether a model's policy has a memory."""
    return hasattr(getattr(model, "policy", None), "lstm_actor")
