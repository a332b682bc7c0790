"""What the policy gradients log, and the warnings that follow from it."""

from typing import Any

import numpy as np
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv

from sas_agents.base._checks import all_episodes_end
from sas_agents.base._user_warnings import warn_user
from sas_agents.maths._estimators import (
    gradient_variance,
    mean_entropy,
    root_mean_square,
)
from sas_agents.policy_gradient._batch import Batch, Scores
from sas_gym._types import NDArray

# An update that changes the policy by more than this has left what it was measured on.
HUGE_KL = 1.0


def record_rollout(
    logger: Logger, batch: Batch, scores: Scores, weights: NDArray[Any]
) -> None:
    """Record how policy and baselines were before the update, and the new weights."""
    entropy = mean_entropy(scores.logits, scores.probs, scores.log_totals)
    logger.record("train/entropy", entropy)
    set_size = np.count_nonzero(scores.action_mask) / len(batch.actions)
    logger.record("train/action_set_size", set_size)
    # Stable-Baselines3's `explained_variance`, in a third of its time.
    variance = float(batch.returns.var())
    for name, value, weight in zip(
        ("v_hat", "q_bar"), batch.baselines.T, weights.tolist(), strict=True
    ):
        error = batch.returns - value
        loss = root_mean_square(error) ** 2
        unexplained = loss - float(error.mean()) ** 2
        explained = 1 - unexplained / variance if variance > 0 else np.nan
        logger.record(f"train/loss_{name}", loss)
        logger.record(f"train/explained_variance_{name}", explained)
        logger.record(f"train/weight_{name}", weight)


def record_variance(
    logger: Logger,
    batch: Batch,
    scores: Scores,
    norms: NDArray[Any],
    measured: slice,
) -> None:
    """Record the gradient's norm and variance, with and without the baselines.

    Args:
        logger: Where to.
        batch: The rollout.
        scores: Its scores.
        norms: Norms of some of them.
        measured: Of which ones.
    """
    gradient = scores.weighted_sum(batch.advantage) / len(batch.actions)
    norm = float(np.linalg.norm(gradient))
    with_them = gradient_variance(norms, batch.advantage[measured], norm)
    without = gradient_variance(norms, batch.returns[measured], norm)
    logger.record("train/gradient_norm", norm)
    logger.record("train/gradient_variance", with_them)
    logger.record("train/gradient_variance_without_baselines", without)


class Warnings:
    """Warns of what keeps an agent from learning, each thing once."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def of_budget(self, rollout_steps: int, total_timesteps: int) -> None:
        """Warn if a rollout has more steps than all of the training."""
        if 0 < total_timesteps < rollout_steps:
            self._warn(
                "budget",
                f"a rollout has {rollout_steps} steps, more than total_timesteps="
                f"{total_timesteps}: the policy is updated only once; lower n_steps",
            )

    def of_endless_episodes(self, env: VecEnv) -> None:
        """Warn if nothing says that the episodes end."""
        if not all_episodes_end(env):
            self._warn(
                "endless",
                "no time limit was found, and a rollout of whole episodes waits for "
                "the end of each: where one may not end, wrap the environment in "
                "gymnasium.wrappers.TimeLimit, pass max_episode_steps, or train with "
                "whole_episodes=False",
            )

    def of_update(self, batch: Batch, kl: float, norms: NDArray[Any]) -> None:
        """Warn of an update that did nothing, or far too much.

        Args:
            batch: The rollout.
            kl: The KL divergence of the policy from the one that played.
            norms: Norms of the scores.
        """
        if not kl <= HUGE_KL:
            self._warn(
                "kl",
                f"an update changed the policy by a KL divergence of {kl:.3g}, too far "
                "to learn from: lower learning_rate, or set target_kl",
            )
        if not batch.advantage.any():
            self._warn(
                "advantages",
                "all advantages of a rollout are 0, and nothing can be learned from "
                "it: check the rewards (all 0?)",
            )

        elif not norms.any() and np.count_nonzero(batch.probs) > len(batch.probs):
            self._warn(
                "scores",
                "the gradient of the policy is 0 at every step of a rollout, where "
                "there was a choice, and nothing can be learned from it: check the "
                "observations (all 0?)",
            )

    def _warn(self, kind: str, message: str) -> None:
        if kind not in self._given:
            self._given.add(kind)
            warn_user(message)
