"""What SASPG and SASNPG share: rollouts of the current policy and two baselines."""

from typing import Any, ClassVar, Self

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback, Schedule
from stable_baselines3.common.utils import FloatSchedule, update_learning_rate
from stable_baselines3.common.vec_env import VecEnv

from sas_agents._fast import changed_policy, keep_freed_memory
from sas_agents.base._algorithm import MaskedAlgorithm
from sas_agents.base._checks import (
    check_finite_values,
    check_log_interval,
    checked_timesteps,
    rate_at,
)
from sas_agents.base._user_warnings import warn_of_large_inputs
from sas_agents.maths._estimators import (
    advantages,
    baseline_weights,
    q_bar,
    root_mean_square,
    running_scale,
    unit_scale,
)
from sas_agents.maths._masked_ops import gumbel_noise, sample_softmax
from sas_agents.models._mlp import fit_least_squares
from sas_agents.models._model import gradient_step
from sas_agents.policy_gradient._batch import Batch, Scores
from sas_agents.policy_gradient._diagnostics import (
    Warnings,
    record_rollout,
    record_variance,
)
from sas_agents.policy_gradient._episodes import EpisodeBuffer
from sas_agents.policy_gradient._policies import (
    CnnPolicy,
    LinearPolicy,
    MultiInputPolicy,
    SASPolicy,
)
from sas_gym._types import NDArray
from sas_gym.masks import MASK_KEY

# Share of the square of the returns' scale that a rollout replaces.
SCALE_RATE = 0.1
# Samples of a rollout, at most twice as many, on which the policy's change is measured.
MEASURED_CHANGES = 512
# Steps of one environment after which an episode is taken for one that never ends: more
# than the longest of Atari.
MAX_EPISODE_STEPS = 10_000
# Steps of one environment that a rollout has at least, where `n_steps` is not given.
MIN_STEPS = 16


class PolicyGradientAlgorithm(MaskedAlgorithm, OnPolicyAlgorithm):
    """An algorithm that learns from rollouts of the current policy, with two baselines.

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
    policy_class: type[SASPolicy]
    policy: SASPolicy  # type: ignore[assignment]  # ours has all that SB3 uses
    rollout_buffer: EpisodeBuffer  # type: ignore[assignment]  # likewise
    observation_space: spaces.Dict
    _last_obs: Any

    def __init__(
        self,
        *,
        policy: str | type[SASPolicy],
        env: GymEnv | str,
        learning_rate: float | Schedule,
        n_steps: int | None,
        batch_size: int | None,
        n_epochs: int,
        gamma: float,
        gae_lambda: float | None,
        critic_learning_rate: float | Schedule | None,
        whole_episodes: bool,
        normalize: bool,
        baseline_weights: tuple[float, float],
        adapt_weights: bool,
        weight_decay: float,
        ridge: float,
        stats_window_size: int,
        tensorboard_log: str | None,
        policy_kwargs: dict[str, Any] | None,
        verbose: int,
        seed: int | None,
        device: th.device | str,
        _init_setup_model: bool,
    ) -> None:
        policy_class = self.policy_class_of(policy)
        if gae_lambda is None:
            gae_lambda = policy_class.defaults.gae_lambda
        self.batch_size = batch_size
        self.n_epochs = n_epochs
        self.critic_learning_rate = critic_learning_rate
        self.whole_episodes = whole_episodes
        self.normalize = normalize
        self.baseline_weights = th.tensor(baseline_weights, dtype=th.float32)
        self.adapt_weights = adapt_weights
        self.weight_decay = weight_decay
        self.ridge = ridge
        # Root mean square of the returns so far; 0 before there are any.
        self.return_scale = 0.0
        # Saved with the model, which then continues as if it had never stopped.
        self.rng = np.random.default_rng(seed)
        self._warnings = Warnings()
        super().__init__(
            policy=policy_class,
            env=env,
            learning_rate=learning_rate,
            n_steps=n_steps,  # type: ignore[arg-type]  # `_setup_model` replaces None
            gamma=gamma,
            gae_lambda=gae_lambda,
            # Required by the base class; our algorithms do not use them.
            ent_coef=0.0,
            vf_coef=0.0,
            max_grad_norm=0.0,
            use_sde=False,
            sde_sample_freq=-1,
            rollout_buffer_class=EpisodeBuffer,  # type: ignore[arg-type]  # see above
            rollout_buffer_kwargs={"whole_episodes": whole_episodes},
            stats_window_size=stats_window_size,
            tensorboard_log=tensorboard_log,
            policy_kwargs=policy_kwargs,
            verbose=verbose,
            seed=seed,
            device=device,
            _init_setup_model=_init_setup_model,
            supported_action_spaces=(spaces.Discrete,),
        )

    def _set_defaults(self) -> None:
        if self.n_steps is None:
            self.n_steps = max(self.rollout_steps // self.n_envs, MIN_STEPS)
        if self.batch_size is None and not self.whole_episodes:
            parts = self.policy_class.defaults.num_minibatches
            self.batch_size = max(self.n_steps * self.n_envs // parts, 1)

    def _setup_model(self) -> None:
        super()._setup_model()
        keep_freed_memory()
        if self.whole_episodes and self.env is not None:
            self._warnings.of_endless_episodes(self.env)
        if self.critic_learning_rate is None:
            critics = self.policy.value_net, self.policy.q_net
            self.critic_learning_rate = self.policy.defaults.critic_rate(*critics)
        if self.critic_learning_rate is not None:
            self.critic_lr_schedule = FloatSchedule(self.critic_learning_rate)

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int | None = 1,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Learn until this many steps have been taken and the last rollout is complete.

        The loop is Stable-Baselines3's: `collect_rollouts`, then `train`. It takes more
        steps than asked for by less than one rollout.

        Args:
            total_timesteps: Number of steps, of all environments together; 0 for none.
            callback: Called at every step.
            log_interval: Number of rollouts between two lines of the log; None for no
                log.
            tb_log_name: Name of the run in TensorBoard. Default: the class's name.
            reset_num_timesteps: Whether to count the steps from 0 again.
            progress_bar: Whether to show a progress bar.
        """
        total_timesteps = checked_timesteps(total_timesteps)
        check_log_interval(log_interval)
        self._warnings.of_budget(self.n_steps * self.n_envs, total_timesteps)
        name = type(self).__name__ if tb_log_name is None else tb_log_name
        return super().learn(
            total_timesteps,
            callback,
            log_interval,  # type: ignore[arg-type]  # SB3 takes None, too
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
        """Play until the rollout is complete.

        Returns:
            False if a callback asked to stop.
        """
        rollout_buffer.reset()
        callback.on_rollout_start()
        if self.whole_episodes:
            # The episodes under way were started by an older policy.
            self._last_obs = env.reset()
            self._check_reset(self._last_obs)
        logits_of = self.policy.logits_fn()
        noise = gumbel_noise((env.num_envs, int(self.policy.action_space.n)), self.rng)
        while not rollout_buffer.is_complete:
            logits, masks = logits_of(self._last_obs), self._last_obs[MASK_KEY]
            actions = sample_softmax(logits, masks, next(noise))
            new_obs, rewards, dones, infos = env.step(actions)
            self.num_timesteps += env.num_envs
            callback.update_locals(locals())
            if not callback.on_step():
                return False
            # Others end in time only if they are short: their mean would be biased.
            self._update_info_buffer(infos, rollout_buffer.counting & dones)
            rollout_buffer.add(self._last_obs, actions, rewards, dones, infos)
            self._last_obs = new_obs
            if rollout_buffer.num_steps > n_rollout_steps + MAX_EPISODE_STEPS:
                raise ValueError(
                    f"an episode has not ended after {MAX_EPISODE_STEPS} steps: give "
                    "the environment a time limit (max_episode_steps), or train with "
                    "whole_episodes=False"
                )
        callback.update_locals(locals())
        callback.on_rollout_end()
        return True

    def train(self) -> None:
        """Update policy, critics and baseline weights from the last rollout."""
        encoder = self.policy.encoder
        # An untrained policy and untrained critics do not depend on the observations.
        is_first = encoder.waits_for_statistics
        if is_first:
            encoder.observe(self.rollout_buffer.observations())
        elif self._n_updates == 0 and self.policy.normalizes:
            warn_of_large_inputs(encoder, self.rollout_buffer.observations())
        # The checks find an overflow, and say what to do about it.
        with np.errstate(all="ignore"):
            batch, kl, norms = self._update()
        self._warnings.of_update(batch, kl, norms)
        if encoder.normalizes and not is_first:
            encoder.observe(self.rollout_buffer.observations())

    def _update(self) -> tuple[Batch, float, NDArray[Any]]:
        """Learn from the last rollout.

        Returns:
            The rollout, how far the policy moved, and norms of the scores.
        """
        batch, scores = self._batch()
        norms, measured = scores.norms()
        record_variance(self.logger, batch, scores, norms, measured)
        self._set_rates()
        advantage = unit_scale(batch.advantage) if self.normalize else batch.advantage
        kl = self._update_policy(batch._replace(advantage=advantage), scores, norms)
        self._fit_critics(batch)
        weights = self.baseline_weights.numpy(force=True)
        if self.adapt_weights:
            best = baseline_weights(
                norms, batch.returns[measured], batch.baselines[measured], self.ridge
            )
            kept = self.weight_decay ** self.rollout_buffer.num_episodes()
            weights = kept * weights + (1 - kept) * best
            self.baseline_weights = th.from_numpy(weights.astype(np.float32))
        record_rollout(self.logger, batch, scores, weights)
        self._n_updates += 1
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/return_scale", self.return_scale)
        self.logger.record("train/kl", kl)
        return batch, kl, norms

    def _update_policy(
        self, batch: Batch, scores: Scores, norms: NDArray[Any]
    ) -> float:
        """Take the algorithm's own steps on a rollout.

        Args:
            batch: The rollout, its advantages in units of their size where wanted.
            scores: Its scores.
            norms: The norms of these, or of a share of them.

        Returns:
            The KL divergence of the policy from the one that played.
        """
        raise NotImplementedError

    def _batch(self) -> tuple[Batch, Scores]:
        """Return the last rollout with returns and advantages, and its scores."""
        buffer, policy = self.rollout_buffer, self.policy
        actions = buffer.actions()
        # Shuffled before anything large is made of them.
        order = self.rng.permutation(len(actions))
        obs = {k: rows.take(order, axis=0) for k, rows in buffer.observations().items()}
        inputs = policy.encoder.encode(obs)
        scores = Scores(policy.actor, inputs, obs[MASK_KEY], actions[order])
        v = policy.value_net.outputs(inputs)[:, 0]
        q = q_bar(policy.q_net.outputs(inputs), scores.probs)
        cut_values, steps = self._cut_values(), self.num_timesteps
        values = np.concatenate([v, q, cut_values])
        name, cure = "the critics' values are", "check the observations"
        check_finite_values(name, values, steps, cure)
        in_time = np.empty(len(v))
        in_time[order] = v
        scale = self.return_scale or 1.0
        returns = buffer.returns(scale * in_time, scale * cut_values)[order]
        check_finite_values("the returns are", returns, steps, "check the rewards")
        baselines = np.stack([v, q], axis=1)
        if self.normalize:
            baselines *= self._rescale(returns)
            returns /= self.return_scale or 1.0
        weights = self.baseline_weights.numpy(force=True)
        batch = Batch(
            inputs=inputs,
            actions=scores.actions,
            logits=scores.logits,
            probs=scores.probs,
            returns=returns,
            baselines=baselines,
            advantage=advantages(returns, baselines, weights),
        )
        return batch, scores

    def _cut_values(self) -> NDArray[np.float64]:
        """Return v of the states whose values replace what a rollout cuts off."""
        if self.whole_episodes:
            return np.empty(0)
        cut = self.rollout_buffer.cut_observations(self._last_obs)
        inputs = self.policy.encoder.encode(cut)
        return self.policy.value_net.outputs(inputs)[:, 0].astype(np.float64)

    def _rescale(self, returns: NDArray[Any]) -> float:
        """Let the scale follow the returns; return the old scale over the new.

        v and q are the scale times a network. Its last layer, which is linear, takes up
        what the scale changes, so that v and q stay as they are (van Hasselt et al.,
        2016).
        """
        old = self.return_scale
        self.return_scale = running_scale(old, root_mean_square(returns), SCALE_RATE)
        if old == 0.0:
            return 1.0
        factor = old / self.return_scale
        self.policy.value_net.scale_outputs(factor)
        self.policy.q_net.scale_outputs(factor)
        return factor

    def _set_rates(self) -> None:
        progress = self._current_progress_remaining
        rate = rate_at("learning_rate", self.lr_schedule, progress)
        self.logger.record("train/learning_rate", rate)
        update_learning_rate(self.policy.optimizer, rate)
        if self.critic_learning_rate is None:
            return
        rate = rate_at("critic_learning_rate", self.critic_lr_schedule, progress)
        self.logger.record("train/critic_learning_rate", rate)
        update_learning_rate(self.policy.value_optimizer, rate)
        update_learning_rate(self.policy.q_optimizer, rate)

    def _fit_critics(self, batch: Batch) -> None:
        """Fit v and q-bar to the returns, the policy fixed."""
        v, q = self.policy.value_net, self.policy.q_net
        only = np.ones((len(batch.returns), 1), dtype=np.float32)
        if self.critic_learning_rate is None:
            v_errors, q_errors = batch.returns - batch.baselines.T
            fit_least_squares(v, batch.inputs, only, v_errors)
            fit_least_squares(q, batch.inputs, batch.probs, q_errors)
            return
        for part in batch.minibatches(self.batch_size, self.n_epochs):
            inputs, returns = part.inputs, part.returns
            optimizer = self.policy.value_optimizer
            gradient_step(v, optimizer, inputs, only[: len(returns)], returns)
            optimizer = self.policy.q_optimizer
            gradient_step(q, optimizer, inputs, part.probs, returns)

    def _kl(self, batch: Batch) -> float:
        """Return the mean divergence of the policy from the one that played."""
        every = max(len(batch.actions) // MEASURED_CHANGES, 1)
        measured = batch.rows(slice(None, None, every))
        logits = self.policy.actor.outputs(measured.inputs)
        return changed_policy(measured.probs, logits - measured.logits).kl

    def _excluded_save_params(self) -> list[str]:
        """Leave out objects that the constructor makes again."""
        return [*super()._excluded_save_params(), "_warnings", "rollout_buffer_class"]

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        modules, tensors = super()._get_torch_save_params()
        optimizers = ["policy.value_optimizer", "policy.q_optimizer"]
        return modules + optimizers, [*tensors, "baseline_weights"]
