"""What SASPG and SASNPG share: rollouts of whole episodes of the current policy."""

from typing import Any, ClassVar, Self

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback, Schedule
from stable_baselines3.common.utils import update_learning_rate
from stable_baselines3.common.vec_env import VecEnv

from sas_agents._algorithm import MaskedAlgorithm
from sas_agents._episodes import EpisodeBuffer
from sas_agents._estimators import entropy
from sas_agents._masked_ops import sample_softmax
from sas_agents._policies import CnnPolicy, LinearPolicy, MultiInputPolicy, SASPolicy
from sas_gym.masks import MASK_KEY


class EpisodicAlgorithm(MaskedAlgorithm, OnPolicyAlgorithm):
    """An on-policy algorithm that learns from whole episodes of the current policy.

    `SASPG` and `SASNPG` document the arguments.
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "LinearPolicy": LinearPolicy,
        "MlpPolicy": SASPolicy,
        "CnnPolicy": CnnPolicy,
        "MultiInputPolicy": MultiInputPolicy,
    }
    # Steps of a rollout, of all environments together, where `n_steps` is not given: as
    # many as PPO in SB3 takes of one environment.
    rollout_steps: ClassVar[int] = 2048
    # SB3 uses nothing of these two classes beyond what ours have.
    policy: SASPolicy  # type: ignore[assignment]
    rollout_buffer: EpisodeBuffer  # type: ignore[assignment]
    observation_space: spaces.Dict
    _last_obs: Any

    def __init__(
        self,
        policy: str | type[SASPolicy],
        env: GymEnv | str,
        learning_rate: float | Schedule,
        n_steps: int | None,
        gamma: float,
        stats_window_size: int,
        tensorboard_log: str | None,
        policy_kwargs: dict[str, Any] | None,
        verbose: int,
        seed: int | None,
        device: th.device | str,
        _init_setup_model: bool,
    ) -> None:
        if n_steps is not None and n_steps < 1:
            raise ValueError(f"n_steps must be at least 1, got {n_steps}")
        # Saved with the model, which then continues as if it had never stopped.
        self.rng = np.random.default_rng(seed)
        super().__init__(
            self.policy_class_of(policy),
            env,
            learning_rate,
            n_steps,  # type: ignore[arg-type]  # `_setup_model` replaces None
            gamma,
            # Required by the base class; our algorithms do not use them.
            gae_lambda=1.0,
            ent_coef=0.0,
            vf_coef=0.0,
            max_grad_norm=0.0,
            use_sde=False,
            sde_sample_freq=-1,
            rollout_buffer_class=EpisodeBuffer,  # type: ignore[arg-type]  # see above
            stats_window_size=stats_window_size,
            tensorboard_log=tensorboard_log,
            policy_kwargs=policy_kwargs,
            verbose=verbose,
            seed=seed,
            device=device,
            _init_setup_model=_init_setup_model,
            supported_action_spaces=(spaces.Discrete,),
        )

    def is_linear(self, policy: str | type[BasePolicy]) -> bool:
        """Return whether a policy is the paper's single layer."""
        return issubclass(self.policy_class_of(policy), LinearPolicy)

    def _setup_model(self) -> None:
        if self.n_steps is None:
            self.n_steps = max(self.rollout_steps // self.n_envs, 1)
        super()._setup_model()

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 1,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Learn until this many steps have been taken and the last rollout is complete.

        The loop is Stable-Baselines3's: `collect_rollouts`, then `train`.

        Args:
            total_timesteps: Number of steps, of all environments together.
            callback: Called at every step.
            log_interval: Number of rollouts between two lines of the log.
            tb_log_name: Name of the run in TensorBoard. Default: the class's name.
            reset_num_timesteps: Whether to count the steps from 0 again.
            progress_bar: Whether to show a progress bar.
        """
        name = type(self).__name__ if tb_log_name is None else tb_log_name
        return super().learn(
            total_timesteps,
            callback,
            log_interval,
            name,
            reset_num_timesteps,
            progress_bar,
        )

    def collect_rollouts(  # type: ignore[override]  # whole episodes need their buffer
        self,
        env: VecEnv,
        callback: BaseCallback,
        rollout_buffer: EpisodeBuffer,
        n_rollout_steps: int,
    ) -> bool:
        """Play until every episode that started in the first steps has ended.

        Returns:
            False if a callback asked to stop.
        """
        self.policy.set_training_mode(False)
        rollout_buffer.reset()
        callback.on_rollout_start()
        # The episodes under way were started by an older policy.
        self._last_obs = env.reset()
        self._check_reset(self._last_obs)
        logits_of = self.policy.logits_fn()
        while not rollout_buffer.is_complete:
            logits, masks = logits_of(self._last_obs), self._last_obs[MASK_KEY]
            actions = sample_softmax(logits, masks, self.rng)
            new_obs, rewards, dones, infos = env.step(actions)
            self.num_timesteps += env.num_envs
            self._check_step(new_obs, rewards, dones, infos)
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
        """Record the number of updates and what the policy is like inside the sets."""
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
        """Take a step up the sum of an objective; return its mean gradient's norm.

        The sum is divided by the number of steps that a rollout asks for. A constant
        leaves the direction of its expectation alone; dividing by the number of steps
        or episodes that came, which depends on what happened, would not.

        Args:
            objective: One entry per step of the rollout.
        """
        descend(self.policy.optimizer, -objective.sum() / (self.n_steps * self.n_envs))
        gradients: Any = [p.grad for p in self.policy.actor.parameters()]
        per_sample = self.n_steps * self.n_envs / len(objective)
        return th.nn.utils.get_total_norm(gradients) * per_sample


def descend(optimizer: th.optim.Optimizer, loss: th.Tensor) -> None:
    """Take one step of an optimiser."""
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]  # untyped in torch
    optimizer.step()
