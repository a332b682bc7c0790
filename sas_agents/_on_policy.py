"""What SASPG and SASNPG share: whole episodes of the current policy."""

from typing import Any, ClassVar

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, Schedule
from stable_baselines3.common.utils import update_learning_rate
from stable_baselines3.common.vec_env import VecEnv

from sas_agents._episodes import EpisodeBuffer
from sas_agents._estimators import entropy
from sas_agents._masking import MaskedAlgorithm, sample_softmax
from sas_agents._policies import CnnPolicy, LinearPolicy, MultiInputPolicy, SASPolicy
from sas_gym.masks import MASK_KEY

# What the base class asks for and our algorithms do not use.
UNUSED: dict[str, Any] = {
    "gae_lambda": 1.0,
    "ent_coef": 0.0,
    "vf_coef": 0.0,
    "max_grad_norm": 0.0,
    "use_sde": False,
    "sde_sample_freq": -1,
}


class EpisodicAlgorithm(MaskedAlgorithm, OnPolicyAlgorithm):
    """An on-policy algorithm that learns from whole episodes of the current policy.

    Args:
        policy: `"LinearPolicy"` (the paper's), `"MlpPolicy"`, `"CnnPolicy"`,
            `"MultiInputPolicy"`, or a class.
        env: The environment, or its id.
        learning_rate: Rate of the policy; may be a schedule.
        n_steps: For how many steps a lane begins episodes; those it has begun then are
            played to their end. By default such that all lanes together have
            `rollout_steps`.
        gamma: Discount.
        **kwargs: As for `OnPolicyAlgorithm`: `tensorboard_log`, `policy_kwargs`,
            `verbose`, `seed`, `device`, `stats_window_size`.
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "LinearPolicy": LinearPolicy,
        "MlpPolicy": SASPolicy,
        "CnnPolicy": CnnPolicy,
        "MultiInputPolicy": MultiInputPolicy,
    }
    rollout_steps: ClassVar[int] = 2048
    policy: SASPolicy
    rollout_buffer: EpisodeBuffer
    observation_space: spaces.Dict
    _last_obs: Any

    def __init__(
        self,
        policy: str | type[SASPolicy],
        env: GymEnv | str,
        learning_rate: float | Schedule,
        n_steps: int | None = None,
        gamma: float = 0.99,
        **kwargs: Any,
    ) -> None:
        if n_steps is not None and n_steps < 1:
            raise ValueError(f"n_steps must be at least 1, got {n_steps}")
        policy_class: Any = self.policy_class_of(policy)
        # Saved with the model, which then goes on as if it had never stopped.
        self.rng = np.random.default_rng(kwargs.get("seed"))
        defaults: dict[str, Any] = {
            "rollout_buffer_class": EpisodeBuffer,
            "supported_action_spaces": (spaces.Discrete,),
        }
        given = {"learning_rate": learning_rate, "n_steps": n_steps, "gamma": gamma}
        super().__init__(policy_class, env, **(UNUSED | defaults | kwargs | given))

    def is_linear(self, policy: str | type[BasePolicy]) -> bool:
        """Return whether a policy is the paper's single layer."""
        return issubclass(self.policy_class_of(policy), LinearPolicy)

    def _setup_model(self) -> None:
        if self.n_steps is None:
            self.n_steps = max(self.rollout_steps // self.n_envs, 1)
        super()._setup_model()
        if self.seed is None:
            self.policy.generator.seed()
        else:
            self.policy.generator.manual_seed(self.seed)

    def collect_rollouts(
        self,
        env: VecEnv,
        callback: BaseCallback,
        rollout_buffer: EpisodeBuffer,
        n_rollout_steps: int,
    ) -> bool:
        """Play until every episode begun in the first steps has ended.

        Returns:
            False if a callback asked to stop.
        """
        self.policy.set_training_mode(False)
        rollout_buffer.reset()
        callback.on_rollout_start()
        # What lanes were playing was begun by an older policy.
        self._last_obs = env.reset()
        scores_of = self.policy.logits_fn()
        while not rollout_buffer.is_complete:
            scores, masks = scores_of(self._last_obs), self._last_obs[MASK_KEY]
            actions = sample_softmax(scores, masks, self.rng)
            new_obs, rewards, dones, infos = env.step(actions)
            self.num_timesteps += env.num_envs
            callback.update_locals(locals())
            if not callback.on_step():
                return False
            self._update_info_buffer(infos, dones)
            rollout_buffer.add(self._last_obs, actions, rewards, dones)
            self._last_obs = new_obs
        callback.update_locals(locals())
        callback.on_rollout_end()
        return True

    def _log_policy(self, log_probs: th.Tensor, action_mask: th.Tensor) -> None:
        """Record what the policy is like inside the sets, for tensors [B, A]."""
        self._n_updates += 1
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/entropy", entropy(log_probs).mean().item())
        set_size = action_mask.sum(dim=-1).float().mean().item()
        self.logger.record("train/action_set_size", set_size)

    def _schedule(
        self, name: str, optimizer: th.optim.Optimizer, schedule: Schedule
    ) -> None:
        """Set and record an optimiser's rate for the current progress."""
        rate = schedule(self._current_progress_remaining)
        update_learning_rate(optimizer, rate)
        self.logger.record(f"train/{name}", rate)

    def _ascend(self, objective: th.Tensor) -> th.Tensor:
        """Take a step up the sum of an objective [B]; return its mean gradient's norm.

        The sum is divided by the number of steps that a rollout asks for. A constant
        leaves the direction of its expectation alone; dividing by the number of steps
        or episodes that came, which depends on what happened, would not.
        """
        descend(self.policy.optimizer, -objective.sum() / (self.n_steps * self.n_envs))
        gradients: Any = [p.grad for p in self.policy.actor.parameters()]
        per_sample = self.n_steps * self.n_envs / len(objective)
        return th.nn.utils.get_total_norm(gradients) * per_sample


def descend(optimizer: th.optim.Optimizer, loss: th.Tensor) -> None:
    """Take one step of an optimiser."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
