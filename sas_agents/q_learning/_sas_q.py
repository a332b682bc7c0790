"""SAS-Q: DQN whose maximum is over the available actions."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import (
    GymEnv,
    MaybeCallback,
    ReplayBufferSamples,
    Schedule,
)
from stable_baselines3.common.utils import LinearSchedule

from sas_agents.base._checks import check_log_interval, checked_timesteps
from sas_agents.base._exploration import MaskedExploration
from sas_agents.base._replay_buffer import FastDictReplayBuffer
from sas_agents.base._user_warnings import warn_of_large_inputs, warn_user
from sas_agents.maths._estimators import root_mean_square, running_scale, td_target
from sas_agents.maths._masked_ops import best_actions
from sas_agents.models._features import ArrayObs
from sas_agents.models._model import Model, as_array, gradient_step
from sas_agents.q_learning._policies import (
    CnnQPolicy,
    LinearQPolicy,
    MultiInputQPolicy,
    SASQPolicy,
)
from sas_gym.masks import MASK_KEY

# Share of the square of the targets' scale that a minibatch replaces.
SCALE_RATE = 0.01
# Steps after which new observations enter the statistics, if no update comes before.
MAX_UNOBSERVED = 64


class SASQ(MaskedExploration, DQN):
    """Q-learning over the available actions (Boutilier et al., 2018), by a DQN.

    It is masked in four places: the greedy choice, the random choice of epsilon-greedy,
    that of the warm-up, and the maximum in the target. The loss is the squared error,
    whose minimum is the mean that q is (DQN's Huber loss has one near the median), in
    units of the targets' size: so the scale of the rewards does not matter. With
    `batch_size=1, train_freq=1, gradient_steps=1, tau=1, target_update_interval=1,
    learning_starts=0, buffer_size=1, normalize=False, double_q=False,
    max_grad_norm=inf`, one environment and SGD as the optimiser it is the online
    algorithm; the paper's features of a bounded Box are those of
    `policy_kwargs={"features_extractor_kwargs": {"order": 3}}`.

    The arguments are DQN's in DQN's order, and two more. `help(sas_agents)` explains
    what is logged.

    Args:
        policy: `"LinearPolicy"` (the paper's), `"MlpPolicy"`, `"CnnPolicy"`,
            `"MultiInputPolicy"`, or a class.
        env: The environment, or its id.
        learning_rate: Rate of q; may be a schedule. Default: from 0.064 for a linear
            policy, 0.001 for networks, it falls linearly to 0.
        buffer_size: Number of transitions that the replay buffer keeps.
        learning_starts: Number of steps before the first update, with random actions.
        batch_size: Number of transitions of a gradient step.
        tau: Share of the online network that the target network takes over at each of
            its updates. A copy of the online network (1, DQN's default) keeps errors
            that the maximum picks out, and the values may grow without bound.
        gamma: Discount.
        train_freq: Steps (of each environment) between two updates, or a tuple such as
            `(2, "episode")`. Default: such that, with the default of
            `gradient_steps`, there is one gradient step per 64 steps (linear) or 8
            (networks) of all environments together, however many they are.
        gradient_steps: Number of gradient steps of an update; -1 for as many as steps
            were taken since the last one. Default: as for `train_freq`.
        replay_buffer_class: Class of the replay buffer. Default: `DictReplayBuffer`,
            with a faster way to the same samples.
        replay_buffer_kwargs: Arguments of the replay buffer.
        optimize_memory_usage: Must be `False` unless `replay_buffer_class` supports it:
            Stable-Baselines3's buffer for dict observations does not.
        n_steps: Must be 1: Stable-Baselines3 has no n-step returns for dict
            observations.
        target_update_interval: Number of steps, of all environments together, between
            two updates of the target network.
        exploration_fraction: Share of the training in which epsilon falls.
        exploration_initial_eps: Epsilon at the start.
        exploration_final_eps: Epsilon after that share; the paper's range is 0.05 to
            0.15.
        max_grad_norm: Largest norm of a gradient, to which longer ones are clipped, in
            units of the targets' size.
        stats_window_size: Number of episodes over which `rollout/` statistics average.
        tensorboard_log: Directory for TensorBoard's files. Default: none are written.
        policy_kwargs: Arguments of the policy; see `SASQPolicy`.
        verbose: 0 prints nothing, 1 information, 2 debugging messages.
        seed: Seed of the parameters, the exploration and the environment.
        device: Where the tensors are; `"auto"` takes a GPU if there is one.
        _init_setup_model: Whether to build the networks at once.
        double_q: Whether the online network chooses the action that the target network
            evaluates (double Q-learning), among the available ones. `"clipped"` takes
            the smaller of both networks' values of that action (Fujimoto et al., 2018):
            what only one of them overestimates is not passed on.
        normalize: Whether q is measured in units of the targets' size.
    """

    behaviour_version: ClassVar[int] = 3
    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "LinearPolicy": LinearQPolicy,
        "MlpPolicy": SASQPolicy,
        "CnnPolicy": CnnQPolicy,
        "MultiInputPolicy": MultiInputQPolicy,
    }

    replay_buffer: ReplayBuffer
    policy_class: type[SASQPolicy]
    policy: SASQPolicy  # type: ignore[assignment]  # ours has all that DQN uses
    q_net: Model  # type: ignore[assignment]  # likewise
    q_net_target: Model  # type: ignore[assignment]  # likewise

    def __init__(
        self,
        policy: str | type[SASQPolicy],
        env: GymEnv | str,
        learning_rate: float | Schedule | None = None,
        # Unlike DQN's, which are made for a million steps of one environment, these
        # learn from a few hundred thousand of many.
        buffer_size: int = 100_000,
        learning_starts: int = 1_000,
        batch_size: int = 1024,
        tau: float = 0.2,
        gamma: float = 0.99,
        train_freq: int | tuple[int, str] | None = None,
        gradient_steps: int | None = None,
        replay_buffer_class: type[ReplayBuffer] | None = None,
        replay_buffer_kwargs: dict[str, Any] | None = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        target_update_interval: int = 256,
        exploration_fraction: float = 0.3,
        exploration_initial_eps: float = 1.0,
        exploration_final_eps: float = 0.05,
        max_grad_norm: float = 10,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: th.device | str = "auto",
        _init_setup_model: bool = True,
        *,
        double_q: bool | Literal["clipped"] = "clipped",
        normalize: bool = True,
    ) -> None:
        self.double_q = double_q
        self.normalize = normalize
        # Root mean square of the targets so far, the unit of q; 0 before there are any.
        self.target_scale = 0.0
        # Observations that the encoder's statistics do not contain yet.
        self._new_obs: list[ArrayObs] = []
        policy_class = self.policy_class_of(policy)
        if learning_rate is None:
            # It falls to 0, as the last iterate is unstable otherwise.
            rate = policy_class.defaults.learning_rate
            learning_rate = LinearSchedule(rate, 0.0, 1.0)
        super().__init__(
            policy=policy_class,
            env=env,
            learning_rate=learning_rate,
            buffer_size=buffer_size,
            learning_starts=learning_starts,
            batch_size=batch_size,
            tau=tau,
            gamma=gamma,
            train_freq=train_freq,  # type: ignore[arg-type]  # `_setup_model` replaces None
            gradient_steps=gradient_steps,  # type: ignore[arg-type]  # likewise
            replay_buffer_class=replay_buffer_class,
            replay_buffer_kwargs=replay_buffer_kwargs,
            optimize_memory_usage=optimize_memory_usage,
            n_steps=n_steps,
            target_update_interval=target_update_interval,
            exploration_fraction=exploration_fraction,
            exploration_initial_eps=exploration_initial_eps,
            exploration_final_eps=exploration_final_eps,
            max_grad_norm=max_grad_norm,
            stats_window_size=stats_window_size,
            tensorboard_log=tensorboard_log,
            policy_kwargs=policy_kwargs,
            verbose=verbose,
            seed=seed,
            device=device,
            _init_setup_model=_init_setup_model,
        )

    def _set_defaults(self) -> None:
        steps = self.policy_class.defaults.steps_per_update
        if self.train_freq is None:
            self.train_freq = max(steps // self.n_envs, 1)
        if self.gradient_steps is None:
            self.gradient_steps = max(self.n_envs // steps, 1)
        # For n-step returns SB3 chooses a class, and says what is wrong with them.
        if self.replay_buffer_class is None and self.n_steps == 1:
            self.replay_buffer_class = FastDictReplayBuffer

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int | None = 4,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Learn from this many steps.

        Args:
            total_timesteps: Number of steps, of all environments together; 0 for none.
            callback: Called at every step.
            log_interval: Number of episodes between two lines of the log; None for no
                log.
            tb_log_name: Name of the run in TensorBoard. Default: the class's name.
            reset_num_timesteps: Whether to count the steps from 0 again.
            progress_bar: Whether to show a progress bar.
        """
        total_timesteps = checked_timesteps(total_timesteps)
        check_log_interval(log_interval)
        if 0 < total_timesteps <= self.learning_starts:
            warn_user(
                f"nothing is learned before step learning_starts={self.learning_starts}"
                f", and total_timesteps={total_timesteps}: lower learning_starts"
            )
        name = type(self).__name__ if tb_log_name is None else tb_log_name
        return super().learn(
            total_timesteps,
            callback,
            log_interval,  # type: ignore[arg-type]  # SB3 takes None, too
            name,
            reset_num_timesteps,
            progress_bar,
        )

    def _greedy_actions(self, obs: ArrayObs) -> NDArray[np.intp]:
        values = self.q_net.outputs(self.policy.encoder.encode(obs))
        return best_actions(values, obs[MASK_KEY])

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Take gradient steps on the error of q against its masked target."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        self._observe()
        losses = []
        for _ in range(gradient_steps):
            batch = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            # The checks find an overflow, and say what to do about it.
            with np.errstate(all="ignore"):
                losses.append(self._gradient_step(batch))
        mean_loss = sum(losses) / len(losses)
        if not math.isfinite(mean_loss):
            raise ValueError(
                f"the loss is not finite (NaN or infinite) after {self.num_timesteps} "
                "steps: check rewards and observations, or lower learning_rate"
            )
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", mean_loss)
        self.logger.record("train/target_scale", self.target_scale)

    def _store_transition(
        self,
        replay_buffer: ReplayBuffer,
        buffer_action: NDArray[Any],
        new_obs: NDArray[Any] | dict[str, NDArray[Any]],
        reward: NDArray[Any],
        dones: NDArray[Any],
        infos: Sequence[dict[str, Any]],
    ) -> None:
        """Store a step of every environment, and keep its observations to observe."""
        keys = self.policy.encoder.normalizer.keys
        self._new_obs.append({key: self._last_obs[key] for key in keys})
        if len(self._new_obs) >= MAX_UNOBSERVED:
            self._observe()
        super()._store_transition(
            replay_buffer, buffer_action, new_obs, reward, dones, infos
        )

    def _observe(self) -> None:
        """Add the observations since the last update to the encoder's statistics."""
        if not self._new_obs:
            return
        encoder = self.policy.encoder
        obs = {
            key: np.concatenate([one[key] for one in self._new_obs])
            for key in encoder.normalizer.keys
        }
        self._new_obs = []
        encoder.observe(obs)
        is_trained = self._n_updates > 0 or self.num_timesteps <= self.learning_starts
        if self.policy.normalizes and not is_trained:
            warn_of_large_inputs(encoder, obs)

    def _gradient_step(self, batch: ReplayBufferSamples) -> float:
        """Take a step on a minibatch; return half its mean squared error."""
        if self.normalize and self.target_scale == 0.0:
            self.target_scale = root_mean_square(as_array(batch.rewards))
        target = self._target(batch)
        if self.normalize and self.target_scale > 0.0:
            self._rescale(root_mean_square(target))
        obs, actions = arrays(batch.observations), as_array(batch.actions[:, 0])
        inputs, weights = self.policy.encoder.encode_chosen(obs, actions)
        return gradient_step(
            self.q_net,
            self.policy.optimizer,
            inputs,
            weights,
            target / (self.target_scale or 1.0),
            self.max_grad_norm,
        )

    def _target(self, batch: ReplayBufferSamples) -> NDArray[Any]:
        """Return the targets of a minibatch, in the unit of the rewards."""
        next_obs = arrays(batch.next_observations)
        inputs, mask = self.policy.encoder.encode(next_obs), next_obs[MASK_KEY]
        chooser = self.q_net if self.double_q else self.q_net_target
        values = chooser.outputs(inputs)
        best = np.arange(len(values)), best_actions(values, mask)
        next_q = values[best]
        if self.double_q:
            evaluated = self.q_net_target.outputs(inputs)[best]
            is_clipped = self.double_q == "clipped"
            next_q = np.minimum(next_q, evaluated) if is_clipped else evaluated
        discounts = batch.discounts
        return td_target(
            as_array(batch.rewards[:, 0]),
            1 - as_array(batch.dones[:, 0]),
            self.gamma if discounts is None else as_array(discounts[:, 0]),
            next_q * (self.target_scale or 1.0),
        )

    def _rescale(self, size: float) -> None:
        """Let the scale follow the targets' size, and leave q as it is.

        q is the scale times a network, whose outputs take up the change of the scale
        (van Hasselt et al., 2016).
        """
        if size > th.finfo(th.float32).max:
            raise ValueError(
                f"the targets have grown to {size:.3g} after {self.num_timesteps} "
                "steps, beyond single precision: check rewards and observations, or "
                "lower learning_rate"
            )
        old = self.target_scale
        self.target_scale = running_scale(old, size, SCALE_RATE)
        for network in (self.q_net, self.q_net_target):
            network.scale_outputs(old / self.target_scale)


def arrays(tensors: Any) -> ArrayObs:
    """Return a dict of tensors as arrays."""
    return {key: as_array(value) for key, value in tensors.items()}
