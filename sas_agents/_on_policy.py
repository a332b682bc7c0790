"""What SASPG and SASNPG share: rollouts of the current policy and two baselines."""

import warnings
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback, Schedule
from stable_baselines3.common.utils import (
    FloatSchedule,
    explained_variance,
    update_learning_rate,
)
from stable_baselines3.common.vec_env import VecEnv
from torch.nn import functional as F

from sas_agents._algorithm import MaskedAlgorithm
from sas_agents._checks import check_finite_tensor
from sas_agents._episodes import EpisodeBuffer
from sas_agents._estimators import (
    advantages,
    baseline_weights,
    entropy,
    gradient_variance,
    mean_kl,
    q_bar,
    root_mean_square,
    running_scale,
    unit_scale,
)
from sas_agents._masked_ops import sample_softmax
from sas_agents._policies import CnnPolicy, LinearPolicy, MultiInputPolicy, SASPolicy
from sas_agents._scores import Scores, score_norms
from sas_gym.masks import MASK_KEY

# Share of the square of the returns' scale that a rollout replaces.
SCALE_RATE = 0.1
# Samples of a rollout whose scores are measured where that takes a gradient for each.
MEASURED_SCORES = 256
# Steps of one environment after which an episode is taken for one that never ends: more
# than the longest of Atari.
MAX_EPISODE_STEPS = 10_000
# An update that changes the policy by more than this has left what it was measured on.
HUGE_KL = 1.0


# Log probability of an unavailable action while learning. Its exponential is 0, as that
# of minus infinity is, but it needs no care in products with 0, and adding it to the
# logits takes a third of the time of filling it in.
UNAVAILABLE = -1e38


class Batch(NamedTuple):
    """A rollout to learn from, with its returns in units of the returns' scale."""

    inputs: Any
    """Encoded observations without their masks, a tensor or a dict of them."""
    action_mask: th.Tensor
    """The action sets, one row per step."""
    mask_bias: th.Tensor
    """What removes unavailable actions when it is added to the logits."""
    actions: th.Tensor
    """The actions taken."""
    probs: th.Tensor
    """The policy that took them, one row per step."""
    log_probs: th.Tensor
    """Its log, `UNAVAILABLE` where the action was."""
    returns: th.Tensor
    """The return of each step."""
    baselines: th.Tensor
    """v and q-bar, one row per step."""
    advantage: th.Tensor
    """Returns plus the weighted baselines."""
    num_episodes: int
    """How many episodes ended."""


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
        batch_size: int | None,
        n_epochs: int,
        gamma: float,
        gae_lambda: float,
        critic_learning_rate: float | Schedule,
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
        self._warned: set[str] = set()
        super().__init__(
            self.policy_class_of(policy),
            env,
            learning_rate,
            n_steps,  # type: ignore[arg-type]  # `_setup_model` replaces None
            gamma,
            gae_lambda,
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

    def is_linear(self, policy: str | type[BasePolicy]) -> bool:
        """Return whether a policy is the paper's single layer."""
        return issubclass(self.policy_class_of(policy), LinearPolicy)

    def _setup_model(self) -> None:
        if self.n_steps is None:
            self.n_steps = max(self.rollout_steps // self.n_envs, 1)
        super()._setup_model()
        self.baseline_weights = self.baseline_weights.to(self.device)
        self.critic_lr_schedule = FloatSchedule(self.critic_learning_rate)

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

        The loop is Stable-Baselines3's: `collect_rollouts`, then `train`. It takes more
        steps than asked for by less than one rollout.

        Args:
            total_timesteps: Number of steps, of all environments together.
            callback: Called at every step.
            log_interval: Number of rollouts between two lines of the log.
            tb_log_name: Name of the run in TensorBoard. Default: the class's name.
            reset_num_timesteps: Whether to count the steps from 0 again.
            progress_bar: Whether to show a progress bar.
        """
        num_steps = self.n_steps * self.n_envs
        if total_timesteps < num_steps:
            self._warn(
                f"a rollout has {num_steps} steps, more than total_timesteps="
                f"{total_timesteps}: the policy is updated only once; lower n_steps"
            )
        name = type(self).__name__ if tb_log_name is None else tb_log_name
        return super().learn(
            total_timesteps,
            callback,
            log_interval,
            name,
            reset_num_timesteps,
            progress_bar,
        )

    def _warn(self, message: str) -> None:
        """Warn, once."""
        if message not in self._warned:
            self._warned.add(message)
            warnings.warn(message, stacklevel=3)

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
        self.policy.set_training_mode(False)
        rollout_buffer.reset()
        callback.on_rollout_start()
        if self.whole_episodes:
            # The episodes under way were started by an older policy.
            self._last_obs = env.reset()
            self._check_reset(self._last_obs)
        logits_of = self.policy.logits_fn()
        while not rollout_buffer.is_complete:
            logits, masks = logits_of(self._last_obs), self._last_obs[MASK_KEY]
            actions = sample_softmax(logits, masks, self.rng)
            new_obs, rewards, dones, infos = env.step(actions)
            self.num_timesteps += env.num_envs
            callback.update_locals(locals())
            if not callback.on_step():
                return False
            # Others end in time only if they are short: their mean would be biased.
            ended = np.flatnonzero(rollout_buffer.counting & dones).tolist()
            self._update_info_buffer(
                [infos[i] for i in ended], np.ones(len(ended), dtype=bool)
            )
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
        self.policy.set_training_mode(True)
        batch = self._batch()
        self._set_rates()
        scores = Scores(
            self.policy.actor, batch.inputs, batch.action_mask, batch.actions
        )
        norms, measured = self._score_norms(batch, scores)
        self._log_variance(batch, scores, norms, measured)
        self._update_policy_and_critics(batch, scores, norms)
        if self.adapt_weights:
            best = baseline_weights(
                norms, batch.returns[measured], batch.baselines[measured], self.ridge
            )
            kept = self.weight_decay**batch.num_episodes
            self.baseline_weights = kept * self.baseline_weights + (1 - kept) * best
        self._log(batch)
        self._check_update(batch)

    def _update_policy_and_critics(
        self, batch: Batch, scores: Scores, norms: th.Tensor
    ) -> None:
        """Take the algorithm's own steps on a rollout.

        Args:
            batch: The rollout.
            scores: Its scores.
            norms: The norms of these, or of a share of them.
        """
        raise NotImplementedError

    @th.no_grad()
    def _batch(self) -> Batch:
        """Return the last rollout with its returns, baselines and advantages."""
        buffer, policy = self.rollout_buffer, self.policy
        obs = buffer.observations()
        inputs, mask = policy.encode(obs), obs[MASK_KEY]
        mask_bias = th.where(mask == 0, UNAVAILABLE, 0.0)
        log_probs = (policy.actor(inputs) + mask_bias).log_softmax(dim=-1)
        probs = log_probs.exp()
        v = policy.value_net(inputs)[:, 0]
        q = q_bar(policy.q_net(inputs), probs)
        returns = self._returns(v)
        check_finite_tensor(
            "the returns are", returns, self.num_timesteps, "check the rewards"
        )
        check_finite_tensor(
            "the values are", v, self.num_timesteps, "check the observations"
        )
        baselines = th.stack([v, q], dim=1)
        if self.normalize:
            baselines = baselines * self._rescale(returns)
            returns = returns / (self.return_scale or 1.0)
        return Batch(
            inputs,
            mask,
            mask_bias,
            buffer.actions(),
            probs,
            log_probs,
            returns,
            baselines,
            advantages(returns, baselines, self.baseline_weights),
            buffer.num_episodes(),
        )

    def _returns(self, values: th.Tensor) -> th.Tensor:
        """Return the rollout's returns, for the values of its states."""
        if self.whole_episodes:
            return self.rollout_buffer.returns()
        cut = self.policy.encode(self.rollout_buffer.cut_observations(self._last_obs))
        cut_values = self.policy.value_net(cut)[:, 0]
        scale = self.return_scale or 1.0
        return self.rollout_buffer.returns(
            values.double().cpu().numpy() * scale,
            cut_values.double().cpu().numpy() * scale,
        )

    def _rescale(self, returns: th.Tensor) -> float:
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
        for critic in (self.policy.value_net, self.policy.q_net):
            for parameter in critic.output_layer.parameters():
                parameter.data *= factor
        return factor

    def _score_norms(self, batch: Batch, scores: Scores) -> tuple[th.Tensor, slice]:
        """Return the norms of the scores, and of which samples they are."""
        if scores.is_linear:
            return scores.linear_norms(), slice(None)
        part = slice(None, None, max(len(batch.actions) // MEASURED_SCORES, 1))
        norms = score_norms(
            self.policy.actor,
            rows(batch.inputs, part),
            batch.action_mask[part],
            batch.actions[part],
        )
        return norms, part

    def _set_rates(self) -> None:
        rate = self.lr_schedule(self._current_progress_remaining)
        critic_rate = self.critic_lr_schedule(self._current_progress_remaining)
        self.logger.record("train/learning_rate", rate)
        self.logger.record("train/critic_learning_rate", critic_rate)
        update_learning_rate(self.policy.optimizer, rate)
        update_learning_rate(self.policy.value_optimizer, critic_rate)
        update_learning_rate(self.policy.q_optimizer, critic_rate)

    def _minibatches(self, size: int) -> list[Any]:
        """Cut a random order of the steps into minibatches of indices."""
        if self.batch_size is None or self.batch_size >= size:
            return [slice(None)]
        order = th.as_tensor(self.rng.permutation(size), device=self.device)
        return list(th.split(order, self.batch_size))

    def _fit_critics(self, batch: Batch, part: Any) -> None:
        """Take a step on (G - v)^2 / 2 and on (G - q-bar)^2 / 2, the policy fixed."""
        inputs, returns = rows(batch.inputs, part), batch.returns[part]
        probs, policy = batch.probs[part], self.policy
        v = policy.value_net.differentiable(inputs)
        error = (v.detach()[:, 0] - returns) / len(returns)
        policy.value_net.backward(inputs, v, error[:, None])
        policy.value_optimizer.step()
        q = policy.q_net.differentiable(inputs)
        error = (q_bar(q.detach(), probs) - returns) / len(returns)
        policy.q_net.backward(inputs, q, error[:, None] * probs)
        policy.q_optimizer.step()

    def _unit(self, advantage: th.Tensor) -> th.Tensor:
        """Return advantages in units of their own size, if that is wanted."""
        return unit_scale(advantage) if self.normalize else advantage

    @th.no_grad()
    def _kl(self, batch: Batch) -> float:
        """Return the mean divergence of the policy from the one that played."""
        logits = self.policy.actor(batch.inputs) + batch.mask_bias
        kl = mean_kl(batch.probs, batch.log_probs, logits.log_softmax(dim=-1))
        return kl.item()

    def _check_update(self, batch: Batch) -> None:
        """Stop at NaN; warn of an update that did nothing, or far too much."""
        for network in (self.policy.actor, self.policy.value_net, self.policy.q_net):
            parameters = th.cat([p.detach().reshape(-1) for p in network.parameters()])
            cure = "lower learning_rate and critic_learning_rate"
            check_finite_tensor("parameters are", parameters, self.num_timesteps, cure)
        kl = self._kl(batch)
        self.logger.record("train/kl", kl)
        if not kl <= HUGE_KL:
            self._warn(
                f"an update changed the policy by a KL divergence of {kl:.3g}, too far "
                "to learn from: lower learning_rate, or set target_kl"
            )
        if not batch.advantage.any():
            self._warn(
                "all advantages of a rollout are 0, and nothing can be learned from "
                "it: check the rewards (all 0?)"
            )

    def _log(self, batch: Batch) -> None:
        """Record the number of updates, and how policy and baselines were before."""
        record = self.logger.record
        self._n_updates += 1
        record("train/n_updates", self._n_updates, exclude="tensorboard")
        record("train/entropy", entropy(batch.log_probs).mean().item())
        set_size = batch.action_mask.sum(dim=-1).float().mean().item()
        record("train/action_set_size", set_size)
        record("train/return_scale", self.return_scale)
        returns = batch.returns.cpu().numpy()
        for name, value, weight in zip(
            ("v_hat", "q_bar"), batch.baselines.T, self.baseline_weights, strict=True
        ):
            explained = explained_variance(value.cpu().numpy(), returns)
            record(f"train/loss_{name}", F.mse_loss(value, batch.returns).item())
            record(f"train/explained_variance_{name}", explained)
            record(f"train/weight_{name}", weight.item())

    def _log_variance(
        self, batch: Batch, scores: Scores, norms: th.Tensor, measured: slice
    ) -> None:
        """Record the gradient's norm and variance, with and without the baselines."""
        norm = (scores.weighted_sum(batch.advantage) / len(batch.actions)).norm()
        with_them = gradient_variance(norms, batch.advantage[measured], norm)
        without = gradient_variance(norms, batch.returns[measured], norm)
        self.logger.record("train/gradient_norm", norm.item())
        self.logger.record("train/gradient_variance", with_them.item())
        self.logger.record("train/gradient_variance_without_baselines", without.item())

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        modules, tensors = super()._get_torch_save_params()
        optimizers = ["policy.value_optimizer", "policy.q_optimizer"]
        return modules + optimizers, [*tensors, "baseline_weights"]


def rows(inputs: Any, part: Any) -> Any:
    """Take rows of encoded observations, a tensor or a dict of them."""
    if isinstance(inputs, dict):
        return {key: value[part] for key, value in inputs.items()}
    return inputs[part]
