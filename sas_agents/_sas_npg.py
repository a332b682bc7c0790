"""SAS-NPG: the natural policy gradient for stochastic action sets (Algorithm 2)."""

from typing import Any

import torch as th
from stable_baselines3.common.type_aliases import GymEnv, Schedule
from stable_baselines3.common.utils import FloatSchedule, explained_variance
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from sas_agents._features import OneHot
from sas_agents._masked_ops import chosen_log_probs, masked_log_probs
from sas_agents._on_policy import EpisodicAlgorithm
from sas_agents._policies import SASPolicy
from sas_agents._scores import score_dot
from sas_gym.masks import MASK_KEY

# Default length of a step of the policy's parameters. What it reaches is measured by
# tests/benchmarks/learning.py, three seeds per domain; no search is recorded.
LINEAR_RATE = 0.7
NETWORK_RATE = 0.05
# Default rates of w. It is stable below 2 over the largest eigenvalue of the Fisher
# matrix of a step: with one-hot features that is at most 1/2, and mostly much smaller.
W_RATE = 0.1
ONE_HOT_W_RATE = 2.0


class SASNPG(EpisodicAlgorithm):
    """Natural policy gradient, by a compatible fit of the returns.

    Paper: Chandak, Theocharous, Metevier and Thomas (2020), "Reinforcement Learning
    When All Actions are Not Always Available", Algorithm 2. The vector w that fits the
    returns by psi' w is the natural gradient (Lemma 3): no Fisher matrix is formed, and
    the cost is linear in the number of parameters.

    `help(sas_agents)` explains what is logged.

    Args:
        policy: `"LinearPolicy"` (the paper's), `"MlpPolicy"`, `"CnnPolicy"`,
            `"MultiInputPolicy"`, or a class.
        env: The environment, or its id.
        learning_rate: Length of a step of the policy's parameters; may be a schedule.
            Default: 0.7 for a linear policy, 0.05 for networks.
        n_steps: Number of steps in which an environment starts episodes; those it has
            started then are played to their end. Default: as many as make 1024 steps
            of all environments together.
        gamma: Discount.
        w_learning_rate: Rate of w; may be a schedule. Default: 2 for one-hot features,
            with which the Fisher matrix is small, 0.1 for others.
        w_steps: Number of steps on w after a rollout. The paper takes one, after every
            episode.
        center_returns: Whether w fits the returns less their mean. As the score's mean
            is 0, that leaves the solution as it is and takes most of the noise away.
            The paper does without.
        stats_window_size: Number of episodes over which `rollout/` statistics average.
        tensorboard_log: Directory for TensorBoard's files. Default: none are written.
        policy_kwargs: Arguments of the policy; see `SASPolicy`.
        verbose: 0 prints nothing, 1 information, 2 debugging messages.
        seed: Seed of the parameters, the actions and the environment.
        device: Where the tensors are; `"auto"` takes a GPU if there is one.
        _init_setup_model: Whether to build the networks at once.
    """

    # Its steps have one length: it needs more of them, and can do with noisier ones.
    rollout_steps = 1024

    def __init__(
        self,
        policy: str | type[SASPolicy],
        env: GymEnv | str,
        learning_rate: float | Schedule | None = None,
        n_steps: int | None = None,
        gamma: float = 0.99,
        w_learning_rate: float | Schedule | None = None,
        w_steps: int = 10,
        center_returns: bool = True,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: th.device | str = "auto",
        _init_setup_model: bool = True,
    ) -> None:
        if w_steps < 1:
            raise ValueError(f"w_steps must be at least 1, got {w_steps}")
        if learning_rate is None:
            learning_rate = LINEAR_RATE if self.is_linear(policy) else NETWORK_RATE
        self.w_learning_rate = w_learning_rate
        self.w_steps = w_steps
        self.center_returns = center_returns
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
        if self.w_learning_rate is None:
            is_one_hot = isinstance(self.policy.actor.features, OneHot)
            self.w_learning_rate = ONE_HOT_W_RATE if is_one_hot else W_RATE
        self.w_lr_schedule = FloatSchedule(self.w_learning_rate)
        self.w = th.zeros_like(parameters_to_vector(self.policy.actor.parameters()))

    def train(self) -> None:
        """Update w, then the policy, from the last rollout."""
        self.policy.set_training_mode(True)
        obs, actions, returns, _ = self.rollout_buffer.episodes()
        if self.center_returns:
            returns = returns - returns.mean()
        actor, inputs, mask = (
            self.policy.actor,
            self.policy.preprocess(obs),
            obs[MASK_KEY],
        )
        rate = self.lr_schedule(self._current_progress_remaining)
        w_rate = self.w_lr_schedule(self._current_progress_remaining)
        log_probs = masked_log_probs(actor(inputs), mask)
        chosen = chosen_log_probs(log_probs, actions)
        for _ in range(self.w_steps):
            error = returns - score_dot(
                actor, inputs, mask, actions, self._named(self.w)
            )
            gradient = th.autograd.grad(
                chosen, list(actor.parameters()), error / len(error), retain_graph=True
            )
            self.w = self.w + w_rate * parameters_to_vector(gradient)
        norm = self.w.norm()
        if norm > 0:
            theta = parameters_to_vector(actor.parameters()).detach()
            vector_to_parameters(theta + rate * self.w / norm, actor.parameters())
        self._log_policy(log_probs.detach(), mask)
        self.logger.record("train/learning_rate", rate)
        self.logger.record("train/w_learning_rate", w_rate)
        self.logger.record("train/w_norm", norm.item())
        fit = explained_variance((returns - error).cpu().numpy(), returns.cpu().numpy())
        self.logger.record("train/explained_variance_w", fit)

    def _named(self, vector: th.Tensor) -> dict[str, th.Tensor]:
        """Cut a vector into the shapes of the actor's parameters."""
        named = dict(self.policy.actor.named_parameters())
        parts = th.split(vector, [p.numel() for p in named.values()])
        return {
            name: part.view_as(p)
            for (name, p), part in zip(named.items(), parts, strict=True)
        }

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        modules, tensors = super()._get_torch_save_params()
        return modules, [*tensors, "w"]
