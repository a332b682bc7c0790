"""SAS-Q: DQN whose maximum is over the available actions."""

from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback, Schedule
from stable_baselines3.common.utils import obs_as_tensor
from torch.nn import functional as F

from sas_agents._algorithm import MaskedAlgorithm
from sas_agents._estimators import td_target
from sas_agents._q_policies import (
    CnnQPolicy,
    LinearQPolicy,
    MultiInputQPolicy,
    SASQPolicy,
)
from sas_gym.masks import MASK_KEY, sample_actions

# Default rates, for Adam; the paper's range is 1e-4 to 1e-2. What they and the other
# defaults reach is measured by tests/benchmarks/learning.py, three seeds per domain; no
# search is recorded.
LINEAR_RATE = 0.02
NETWORK_RATE = 1e-3

LOSSES = {"huber": F.smooth_l1_loss, "squared": lambda q, y: 0.5 * F.mse_loss(q, y)}


class SASQ(MaskedAlgorithm, DQN):
    """Q-learning over the available actions (Boutilier et al., 2018), by a DQN.

    It is masked in four places: the greedy choice, the random choice of epsilon-greedy,
    that of the warm-up, and the maximum in the target. With
    `batch_size=1, train_freq=1, gradient_steps=1, target_update_interval=1,
    learning_starts=0, buffer_size=1, loss="squared", max_grad_norm=inf` and SGD as the
    optimiser it is the online algorithm.

    The arguments are DQN's in DQN's order, and two more. `help(sas_agents)` explains
    what is logged.

    Args:
        policy: `"LinearPolicy"` (the paper's), `"MlpPolicy"`, `"CnnPolicy"`,
            `"MultiInputPolicy"`, or a class.
        env: The environment, or its id.
        learning_rate: Rate of q; may be a schedule. Default: 0.02 for a linear policy,
            0.001 for networks.
        buffer_size: Number of transitions that the replay buffer keeps.
        learning_starts: Number of steps before the first update, with random actions.
        batch_size: Number of transitions of a gradient step.
        tau: Share of the online network that the target network takes over.
        gamma: Discount.
        train_freq: Steps (of each environment) between two updates, or a tuple such as
            `(2, "episode")`.
        gradient_steps: Number of gradient steps of an update; -1 for as many as steps
            were taken since the last one.
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
        max_grad_norm: Largest norm of a gradient, to which longer ones are clipped.
        stats_window_size: Number of episodes over which `rollout/` statistics average.
        tensorboard_log: Directory for TensorBoard's files. Default: none are written.
        policy_kwargs: Arguments of the policy; see `SASQPolicy`.
        verbose: 0 prints nothing, 1 information, 2 debugging messages.
        seed: Seed of the parameters, the exploration and the environment.
        device: Where the tensors are; `"auto"` takes a GPU if there is one.
        _init_setup_model: Whether to build the networks at once.
        double_q: Whether the online network chooses the action that the target network
            evaluates (double Q-learning), among the available ones.
        loss: `"huber"`, as DQN has it, or the paper's `"squared"` error.
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "LinearPolicy": LinearQPolicy,
        "MlpPolicy": SASQPolicy,
        "CnnPolicy": CnnQPolicy,
        "MultiInputPolicy": MultiInputQPolicy,
    }

    replay_buffer: ReplayBuffer
    _last_obs: Any

    def __init__(
        self,
        policy: str | type[SASQPolicy],
        env: GymEnv | str,
        learning_rate: float | Schedule | None = None,
        # Unlike DQN's, which are made for a million steps of one environment, these
        # learn from a few hundred thousand of many.
        buffer_size: int = 100_000,
        learning_starts: int = 1_000,
        batch_size: int = 128,
        tau: float = 1.0,
        gamma: float = 0.99,
        train_freq: int | tuple[int, str] = 1,
        gradient_steps: int = 4,
        replay_buffer_class: type[ReplayBuffer] | None = None,
        replay_buffer_kwargs: dict[str, Any] | None = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        target_update_interval: int = 640,
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
        double_q: bool = False,
        loss: Literal["huber", "squared"] = "huber",
    ) -> None:
        if loss not in LOSSES:
            raise ValueError(f"loss must be one of {sorted(LOSSES)}, got {loss!r}")
        self.double_q = double_q
        self.loss = loss
        policy_class = self.policy_class_of(policy)
        if learning_rate is None:
            is_linear = issubclass(policy_class, LinearQPolicy)
            learning_rate = LINEAR_RATE if is_linear else NETWORK_RATE
        super().__init__(
            policy_class,
            env,
            learning_rate,
            buffer_size,
            learning_starts,
            batch_size,
            tau,
            gamma,
            train_freq,
            gradient_steps,
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
            total_timesteps: Number of steps, of all environments together.
            callback: Called at every step.
            log_interval: Number of episodes between two lines of the log.
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

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Take gradient steps on the error of q against its masked target."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        losses = []
        for _ in range(gradient_steps):
            batch = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            discount = self.gamma if batch.discounts is None else batch.discounts
            with th.no_grad():
                target = td_target(
                    batch.rewards,
                    1 - batch.dones,
                    discount,
                    self.q_net_target(batch.next_observations),
                    self.q_net(batch.next_observations) if self.double_q else None,
                )
            q = self.q_net(batch.observations).gather(1, batch.actions.long())
            loss = LOSSES[self.loss](q, target)
            self.policy.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # untyped in torch
            th.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
            losses.append(loss.item())
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", np.mean(losses))

    def _choose(
        self,
        masked: dict[str, NDArray[Any]],
        state: tuple[NDArray[Any], ...] | None,
        episode_start: NDArray[Any] | None,
        deterministic: bool,
    ) -> tuple[NDArray[Any], tuple[NDArray[Any], ...] | None]:
        """Choose greedily, or epsilon-greedily while learning.

        Each environment decides for itself whether it explores.
        """
        actions, state = self.policy.predict(masked, state, episode_start)
        if deterministic or self.exploration_rate == 0:
            return actions, state
        masks = np.atleast_2d(masked[MASK_KEY])
        rng = self.prediction_rng
        explores = rng.random(len(masks)) < self.exploration_rate
        explored = np.where(explores, sample_actions(masks, rng), actions)
        return explored.reshape(actions.shape), state

    def _sample_action(
        self,
        learning_starts: int,
        action_noise: ActionNoise | None = None,
        n_envs: int = 1,
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Explore: in the warm-up at random, afterwards epsilon-greedily."""
        masks = self._last_obs[MASK_KEY]
        warm_up = self.num_timesteps < learning_starts
        explores = self._explores(len(masks), 1.0 if warm_up else self.exploration_rate)
        actions = self._random_actions(masks)
        if not explores.all():
            with th.no_grad():
                q = self.q_net(obs_as_tensor(self._last_obs, self.device))
            actions = np.where(explores, actions, q.argmax(dim=1).cpu().numpy())
        return actions, actions

    def _store_transition(
        self,
        replay_buffer: ReplayBuffer,
        buffer_action: NDArray[Any],
        new_obs: NDArray[Any] | dict[str, NDArray[Any]],
        reward: NDArray[Any],
        dones: NDArray[Any],
        infos: list[dict[str, Any]],
    ) -> None:
        """Check a step before it is kept."""
        self._check_step(new_obs, reward, dones, infos)
        super()._store_transition(
            replay_buffer, buffer_action, new_obs, reward, dones, infos
        )

    def _explores(self, num_envs: int, probability: float) -> NDArray[np.bool_]:
        """Draw which environments take a random action."""
        return self.action_space.np_random.random(num_envs) < probability

    def _random_actions(self, masks: NDArray[Any]) -> NDArray[np.intp]:
        return sample_actions(masks, self.action_space.np_random)
