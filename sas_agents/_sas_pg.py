"""SAS-PG: the policy gradient for stochastic action sets (Algorithm 1)."""

from typing import Any

import torch as th
from stable_baselines3.common.type_aliases import GymEnv, Schedule
from stable_baselines3.common.utils import FloatSchedule, explained_variance
from torch.nn import functional as F

from sas_agents._estimators import (
    advantages,
    baseline_weights,
    gradient_variance,
    q_bar,
)
from sas_agents._masked_ops import chosen_log_probs, masked_log_probs
from sas_agents._on_policy import EpisodicAlgorithm, descend
from sas_agents._policies import SASPolicy
from sas_agents._scores import score_norms
from sas_gym.masks import MASK_KEY

# Default rates of the policy, of v and of q, for Adam. The paper's ranges (5e-5 to 5e-3
# for the policy, 1e-4 to 1e-2 for the critics) are for SGD after every episode. What
# these reach is measured by tests/benchmarks/learning.py, three seeds per domain; no
# search is recorded.
LINEAR_RATES = 0.2, 1.0, 1.0
NETWORK_RATES = 0.01, 0.02, 0.02


class SASPG(EpisodicAlgorithm):
    """Policy gradient with two baselines, weighted for least variance.

    Paper: Chandak, Theocharous, Metevier and Thomas (2020), "Reinforcement Learning
    When All Actions are Not Always Available", Algorithm 1. What differs: a rollout may
    have many episodes, and the weights then keep as much of their old values as they
    would episode by episode; the critics that serve as baselines are those of the
    rollouts before, which keeps the gradient unbiased; the optimiser is Adam, unless
    `policy_kwargs` names another.

    `help(sas_agents)` explains what is logged.

    Args:
        policy: `"LinearPolicy"` (the paper's), `"MlpPolicy"`, `"CnnPolicy"`,
            `"MultiInputPolicy"`, or a class.
        env: The environment, or its id.
        learning_rate: Rate of the policy; may be a schedule, as all rates may. Default:
            0.2 for a linear policy, 0.01 for networks.
        n_steps: Number of steps in which an environment starts episodes; those it has
            started then are played to their end. Default: as many as make 2048 steps
            of all environments together.
        gamma: Discount.
        value_learning_rate: Rate of v. Default: 1 for a linear policy, 0.02 for
            networks.
        q_learning_rate: Rate of q; default likewise.
        critic_steps: Number of steps on v and on q after a rollout. The paper takes
            one, after every episode.
        baseline_weights: The weights of v and of q-bar at the start (the paper's).
        adapt_weights: Whether they adapt. (-1, 0) without is the baseline v alone,
            (0, -1) is q-bar alone, (0, 0) none.
        weight_decay: Share of the old weights that is kept after an episode (the
            paper's).
        ridge: Diagonal term of the weights' equation, relative to its diagonal; "small"
            in the paper.
        stats_window_size: Number of episodes over which `rollout/` statistics average.
        tensorboard_log: Directory for TensorBoard's files. Default: none are written.
        policy_kwargs: Arguments of the policy; see `SASPolicy`.
        verbose: 0 prints nothing, 1 information, 2 debugging messages.
        seed: Seed of the parameters, the actions and the environment.
        device: Where the tensors are; `"auto"` takes a GPU if there is one.
        _init_setup_model: Whether to build the networks at once.
    """

    def __init__(
        self,
        policy: str | type[SASPolicy],
        env: GymEnv | str,
        learning_rate: float | Schedule | None = None,
        n_steps: int | None = None,
        gamma: float = 0.99,
        value_learning_rate: float | Schedule | None = None,
        q_learning_rate: float | Schedule | None = None,
        critic_steps: int = 10,
        baseline_weights: tuple[float, float] = (-0.5, -0.5),
        adapt_weights: bool = True,
        weight_decay: float = 0.999,
        ridge: float = 1e-3,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: th.device | str = "auto",
        _init_setup_model: bool = True,
    ) -> None:
        rates = LINEAR_RATES if self.is_linear(policy) else NETWORK_RATES
        learning_rate, self.value_learning_rate, self.q_learning_rate = (
            default if rate is None else rate
            for rate, default in zip(
                (learning_rate, value_learning_rate, q_learning_rate),
                rates,
                strict=True,
            )
        )
        self.critic_steps = critic_steps
        self.baseline_weights = th.tensor(baseline_weights)
        self.adapt_weights = adapt_weights
        self.weight_decay = weight_decay
        self.ridge = ridge
        super().__init__(
            policy,
            env,
            learning_rate,
            n_steps,
            gamma,
            stats_window_size,
            tensorboard_log,
            policy_kwargs,
            verbose,
            seed,
            device,
            _init_setup_model,
        )

    def _setup_model(self) -> None:
        super()._setup_model()
        self.baseline_weights = self.baseline_weights.to(self.device)
        self.value_lr_schedule = FloatSchedule(self.value_learning_rate)
        self.q_lr_schedule = FloatSchedule(self.q_learning_rate)

    def train(self) -> None:
        """Update policy, critics and weights from the last rollout."""
        self.policy.set_training_mode(True)
        obs, actions, returns, num_episodes = self.rollout_buffer.episodes()
        inputs, mask = self.policy.preprocess(obs), obs[MASK_KEY]
        log_probs = masked_log_probs(self.policy.actor(inputs), mask)
        probs = log_probs.detach().exp()
        with th.no_grad():
            v = self.policy.value_net(inputs)[:, 0]
            q = q_bar(self.policy.q_net(inputs), probs)
        baselines = th.stack([v, q], dim=1)
        advantage = advantages(returns, baselines, self.baseline_weights)
        norms = score_norms(self.policy.actor, inputs, mask, actions)

        self._set_rates()
        gradient_norm = self._ascend(advantage * chosen_log_probs(log_probs, actions))
        self._fit_critics(inputs, probs, returns)
        if self.adapt_weights:
            best = baseline_weights(norms, returns, baselines, self.ridge)
            kept = self.weight_decay**num_episodes
            self.baseline_weights = kept * self.baseline_weights + (1 - kept) * best
        self._log_policy(log_probs.detach(), mask)
        self._log_baselines(returns, baselines, advantage, norms, gradient_norm)

    def _set_rates(self) -> None:
        policy = self.policy
        self._schedule("learning_rate", policy.optimizer, self.lr_schedule)
        self._schedule(
            "value_learning_rate", policy.value_optimizer, self.value_lr_schedule
        )
        self._schedule("q_learning_rate", policy.q_optimizer, self.q_lr_schedule)

    def _fit_critics(self, inputs: Any, probs: th.Tensor, returns: th.Tensor) -> None:
        """Take steps on (G - v)^2 / 2 and (G - q-bar)^2 / 2, the policy held fixed."""
        for _ in range(self.critic_steps):
            v = self.policy.value_net(inputs)[:, 0]
            q = q_bar(self.policy.q_net(inputs), probs)
            descend(self.policy.value_optimizer, 0.5 * F.mse_loss(v, returns))
            descend(self.policy.q_optimizer, 0.5 * F.mse_loss(q, returns))

    def _log_baselines(
        self,
        returns: th.Tensor,
        baselines: th.Tensor,
        advantage: th.Tensor,
        norms: th.Tensor,
        gradient_norm: th.Tensor,
    ) -> None:
        names = "v_hat", "q_bar"
        for name, value, weight in zip(
            names, baselines.T, self.baseline_weights, strict=True
        ):
            explained = explained_variance(value.cpu().numpy(), returns.cpu().numpy())
            self.logger.record(f"train/loss_{name}", F.mse_loss(value, returns).item())
            self.logger.record(f"train/explained_variance_{name}", explained)
            self.logger.record(f"train/weight_{name}", weight.item())
        with_them = gradient_variance(norms, advantage, gradient_norm)
        without = gradient_variance(norms, returns, gradient_norm)
        self.logger.record("train/gradient_norm", gradient_norm.item())
        self.logger.record("train/gradient_variance", with_them.item())
        self.logger.record("train/gradient_variance_without_baselines", without.item())

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        modules, tensors = super()._get_torch_save_params()
        optimizers = ["policy.value_optimizer", "policy.q_optimizer"]
        return modules + optimizers, [*tensors, "baseline_weights"]
