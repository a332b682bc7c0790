"""SAS-Q: DQN whose maximum is over the available actions."""

import warnings
from typing import Any, ClassVar, Self

import torch as th
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
from torch.nn import functional as F

from sas_agents._checks import check_finite_tensor, checked_timesteps
from sas_agents._estimators import root_mean_square, running_scale, td_target
from sas_agents._exploration import MaskedExploration
from sas_agents._q_policies import (
    CnnQPolicy,
    LinearQPolicy,
    MultiInputQPolicy,
    SASQPolicy,
)

# Default rates, for Adam, at the start: they fall to 0 in the course of training, as
# the last iterate is unstable otherwise.
LINEAR_RATE = 0.016
NETWORK_RATE = 1e-3
# Steps of all environments together per gradient step, by default.
STEPS_PER_UPDATE = 64
# Share of the square of the targets' scale that a minibatch replaces.
SCALE_RATE = 0.01


class SASQ(MaskedExploration, DQN):
    """Q-learning over the available actions (Boutilier et al., 2018), by a DQN.

    It is masked in four places: the greedy choice, the random choice of epsilon-greedy,
    that of the warm-up, and the maximum in the target. The loss is the squared error,
    whose minimum is the mean that q is (DQN's Huber loss has one near the median), in
    units of the targets' size: so the scale of the rewards does not matter. With
    `batch_size=1, train_freq=1, gradient_steps=1, tau=1, target_update_interval=1,
    learning_starts=0, buffer_size=1, normalize=False, double_q=False,
    max_grad_norm=inf`, one environment and SGD as the optimiser it is the online
    algorithm.

    The arguments are DQN's in DQN's order, and two more. `help(sas_agents)` explains
    what is logged.

    Args:
        policy: `"LinearPolicy"` (the paper's), `"MlpPolicy"`, `"CnnPolicy"`,
            `"MultiInputPolicy"`, or a class.
        env: The environment, or its id.
        learning_rate: Rate of q; may be a schedule. Default: from 0.016 for a linear
            policy, 0.001 for networks, it falls linearly to 0.
        buffer_size: Number of transitions that the replay buffer keeps.
        learning_starts: Number of steps before the first update, with random actions.
        batch_size: Number of transitions of a gradient step.
        tau: Share of the online network that the target network takes over at each of
            its updates. Copies of it as it is at one moment (1, DQN's default) have
            errors that the maximum picks out: with a copy every 1,280 steps, the values
            of 4 of 12 runs in the maze grew until the way to the goal was lost.
        gamma: Discount.
        train_freq: Steps (of each environment) between two updates, or a tuple such as
            `(2, "episode")`. Default: such that, with the default of
            `gradient_steps`, there is one gradient step per 64 steps of all
            environments together, however many they are.
        gradient_steps: Number of gradient steps of an update; -1 for as many as steps
            were taken since the last one. Default: as for `train_freq`.
        replay_buffer_class: Class of the replay buffer. Default: `DictReplayBuffer`.
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
            evaluates (double Q-learning), among the available ones.
        normalize: Whether q is measured in units of the targets' size.
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "LinearPolicy": LinearQPolicy,
        "MlpPolicy": SASQPolicy,
        "CnnPolicy": CnnQPolicy,
        "MultiInputPolicy": MultiInputQPolicy,
    }

    replay_buffer: ReplayBuffer

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
        double_q: bool = True,
        normalize: bool = True,
    ) -> None:
        self.double_q = double_q
        self.normalize = normalize
        # Root mean square of the targets so far, the unit of q; 0 before there are any.
        self.target_scale = 0.0
        policy_class = self.policy_class_of(policy)
        if learning_rate is None:
            is_linear = issubclass(policy_class, LinearQPolicy)
            rate = LINEAR_RATE if is_linear else NETWORK_RATE
            learning_rate = LinearSchedule(rate, 0.0, 1.0)
        super().__init__(
            policy_class,
            env,
            learning_rate,
            buffer_size,
            learning_starts,
            batch_size,
            tau,
            gamma,
            train_freq,  # type: ignore[arg-type]  # `_setup_model` replaces None
            gradient_steps,  # type: ignore[arg-type]  # likewise
            replay_buffer_class,
            replay_buffer_kwargs,
            optimize_memory_usage,
            n_steps,
            target_update_interval,
            exploration_fraction,
            exploration_initial_eps,
            exploration_final_eps,
            max_grad_norm,
            stats_window_size,
            tensorboard_log,
            policy_kwargs,
            verbose,
            seed,
            device,
            _init_setup_model,
        )

    def _setup_model(self) -> None:
        if self.train_freq is None:
            self.train_freq = max(STEPS_PER_UPDATE // self.n_envs, 1)
        if self.gradient_steps is None:
            self.gradient_steps = max(self.n_envs // STEPS_PER_UPDATE, 1)
        super()._setup_model()

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 4,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Learn from this many steps.

        Args:
            total_timesteps: Number of steps, of all environments together; 0 for none.
            callback: Called at every step.
            log_interval: Number of episodes between two lines of the log.
            tb_log_name: Name of the run in TensorBoard. Default: the class's name.
            reset_num_timesteps: Whether to count the steps from 0 again.
            progress_bar: Whether to show a progress bar.
        """
        total_timesteps = checked_timesteps(total_timesteps)
        if 0 < total_timesteps <= self.learning_starts:
            warnings.warn(
                f"nothing is learned before step learning_starts={self.learning_starts}"
                f", and total_timesteps={total_timesteps}: lower learning_starts",
                stacklevel=2,
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

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Take gradient steps on the error of q against its masked target."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        losses = []
        for _ in range(gradient_steps):
            batch = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            target = self._target(batch)
            q = self.q_net(batch.observations).gather(1, batch.actions.long())
            loss = 0.5 * F.mse_loss(q, target)
            self.policy.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # untyped in torch
            th.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
            losses.append(loss.detach())
        mean_loss = th.stack(losses).mean()
        cure = "check rewards and observations, or lower learning_rate"
        check_finite_tensor("the loss is", mean_loss, self.num_timesteps, cure)
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", mean_loss.item())
        self.logger.record("train/target_scale", self.target_scale)

    @th.no_grad()
    def _target(self, batch: ReplayBufferSamples) -> th.Tensor:
        """Return the targets in units of the scale, after it has followed them."""
        if self.normalize and self.target_scale == 0.0:
            self.target_scale = root_mean_square(batch.rewards)
        scale = self.target_scale or 1.0
        target = td_target(
            batch.rewards / scale,
            1 - batch.dones,
            self.gamma if batch.discounts is None else batch.discounts,
            self.q_net_target(batch.next_observations),
            self.q_net(batch.next_observations) if self.double_q else None,
        )
        if self.normalize and self.target_scale > 0.0:
            target = target * self._rescale(scale * root_mean_square(target))
        return target

    def _rescale(self, size: float) -> float:
        """Let the scale follow the targets' size; return the old scale over the new.

        q is the scale times a network. Its last layer, which is linear, takes up what
        the scale changes, so that q stays as it is (van Hasselt et al., 2016).
        """
        if size > th.finfo(th.float32).max:
            raise ValueError(
                f"the targets have grown to {size:.3g} after {self.num_timesteps} "
                "steps, beyond single precision: check rewards and observations, or "
                "lower learning_rate"
            )
        old = self.target_scale
        self.target_scale = running_scale(old, size, SCALE_RATE)
        factor = old / self.target_scale
        for network in (self.q_net, self.q_net_target):
            for parameter in network.q_net[-1].parameters():
                parameter.data *= factor
        return factor
