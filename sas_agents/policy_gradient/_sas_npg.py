"""SAS-NPG: the natural policy gradient for stochastic action sets (Algorithm 2)."""

from typing import Any, ClassVar

import numpy as np
import torch as th
from stable_baselines3.common.type_aliases import GymEnv, Schedule
from stable_baselines3.common.utils import FloatSchedule, explained_variance

from sas_agents.base._checks import rate_at
from sas_agents.maths._estimators import conjugate_gradients, root_mean_square
from sas_agents.models._model import as_array
from sas_agents.policy_gradient._batch import Batch, Scores
from sas_agents.policy_gradient._on_policy import PolicyGradientAlgorithm
from sas_agents.policy_gradient._policies import SASPolicy
from sas_gym._types import Array, NDArray

# A step may change the policy by so much more than it should before it is halved, and
# so often.
KL_TOLERANCE = 1.5
MAX_HALVINGS = 10


class SASNPG(PolicyGradientAlgorithm):
    """Natural policy gradient, by a compatible fit of the returns.

    Paper: Chandak, Theocharous, Metevier and Thomas (2020), "Reinforcement Learning
    When All Actions are Not Always Available", Algorithm 2. The vector w that fits the
    returns by psi' w is the natural gradient (Lemma 3): no Fisher matrix is formed, and
    the cost is linear in the number of parameters.

    What differs, so that it learns on problems that nobody has tuned it for: w fits the
    returns less SASPG's two baselines, which leaves its expectation alone, as the score
    has mean 0 in every state and set; it is fitted by conjugate gradients, which need
    no rate; a step has the length with which the policy changes by `target_kl`; and
    rollouts, returns and units are SASPG's.

    The paper's algorithm, to the letter, is `whole_episodes=True, normalize=False,
    baseline_weights=(0, 0), adapt_weights=False, w_learning_rate=..., w_steps=1,
    w_memory=1, target_kl=None` with `"LinearPolicy"`, one environment and `n_steps=1`;
    for a bounded Box, which has a Fourier basis, also with its order of the paper, by
    `policy_kwargs={"features_extractor_kwargs": {"order": 3}}`.

    `help(sas_agents)` explains what is logged.

    Args:
        policy: `"LinearPolicy"` (the paper's), `"MlpPolicy"`, `"CnnPolicy"`,
            `"MultiInputPolicy"`, or a class.
        env: The environment, or its id.
        learning_rate: Length of a step of the policy's parameters where `target_kl` is
            None, and not used otherwise; may be a schedule, as all rates may.
        n_steps: Number of steps of each environment in a rollout. Default: as many as
            make 2048 steps of all environments together, and at least 16.
        batch_size: Number of steps in a minibatch of critics that have a rate. Default:
            a quarter of a rollout for a linear policy, an eighth for networks; all of
            it with `whole_episodes`.
        n_epochs: Number of passes of such critics through a rollout.
        gamma: Discount.
        gae_lambda: Weight of the longer returns in the lambda-return: 1 for all rewards
            of a rollout, 0 for one reward and the next value. Default: 0.8 for a linear
            policy, 0.9 for networks, whose v is less to be relied on.
        critic_learning_rate: Rate of v and q. Default: 0.001 for networks; a linear
            policy needs none, as least squares fit its critics.
        w_learning_rate: Rate of plain gradient steps on w, as in the paper. Default:
            conjugate gradients.
        w_steps: Number of steps on w after a rollout. Default: 6 for a linear policy,
            10 for networks.
        w_memory: Share of w from which the fit to a rollout starts.
        damping: Diagonal term of the equation of w, relative to the mean of as many
            eigenvalues as there are parameters, or samples if these are fewer.
        whole_episodes: Whether a rollout consists of the whole episodes that start in
            its first `n_steps` steps, and the returns are the sums of their rewards,
            as in the paper's Lemma 1.
        normalize: Whether returns and advantages are measured in units of their size.
        baseline_weights: The weights of v and of q-bar at the start (the paper's).
        adapt_weights: Whether they adapt. (-1, 0) without is the baseline v alone,
            (0, -1) is q-bar alone, (0, 0) none.
        weight_decay: Share of the old weights that is kept after an episode (the
            paper's).
        ridge: Diagonal term of the weights' equation, relative to its diagonal; "small"
            in the paper.
        target_kl: KL divergence of the policy from the one that played, after a step;
            may be a schedule. None for steps of length `learning_rate`.
        stats_window_size: Number of episodes over which `rollout/` statistics average.
        tensorboard_log: Directory for TensorBoard's files. Default: none are written.
        policy_kwargs: Arguments of the policy; see `SASPolicy`.
        verbose: 0 prints nothing, 1 information, 2 debugging messages.
        seed: Seed of the parameters, the actions and the environment.
        device: Where the tensors are; `"auto"` takes a GPU if there is one.
        _init_setup_model: Whether to build the networks at once.
    """

    behaviour_version: ClassVar[int] = 4

    def __init__(
        self,
        policy: str | type[SASPolicy],
        env: GymEnv | str,
        learning_rate: float | Schedule = 0.7,
        n_steps: int | None = None,
        batch_size: int | None = None,
        n_epochs: int = 10,
        gamma: float = 0.99,
        gae_lambda: float | None = None,
        critic_learning_rate: float | Schedule | None = None,
        w_learning_rate: float | Schedule | None = None,
        w_steps: int | None = None,
        w_memory: float = 0.0,
        damping: float = 1.0,
        whole_episodes: bool = False,
        normalize: bool = True,
        baseline_weights: tuple[float, float] = (-0.5, -0.5),
        adapt_weights: bool = True,
        weight_decay: float = 0.999,
        ridge: float = 1e-3,
        target_kl: float | Schedule | None = 0.01,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: th.device | str = "auto",
        _init_setup_model: bool = True,
    ) -> None:
        self.w_learning_rate = w_learning_rate
        if w_steps is None:
            w_steps = self.policy_class_of(policy).defaults.w_steps
        self.w_steps = w_steps
        self.w_memory = w_memory
        self.damping = damping
        self.target_kl = target_kl
        super().__init__(
            policy=policy,
            env=env,
            learning_rate=learning_rate,
            n_steps=n_steps,
            batch_size=batch_size,
            n_epochs=n_epochs,
            gamma=gamma,
            gae_lambda=gae_lambda,
            critic_learning_rate=critic_learning_rate,
            whole_episodes=whole_episodes,
            normalize=normalize,
            baseline_weights=baseline_weights,
            adapt_weights=adapt_weights,
            weight_decay=weight_decay,
            ridge=ridge,
            stats_window_size=stats_window_size,
            tensorboard_log=tensorboard_log,
            policy_kwargs=policy_kwargs,
            verbose=verbose,
            seed=seed,
            device=device,
            _init_setup_model=_init_setup_model,
        )

    def _setup_model(self) -> None:
        super()._setup_model()
        if self.w_learning_rate is not None:
            self.w_lr_schedule = FloatSchedule(self.w_learning_rate)
        if self.target_kl is not None:
            self.kl_schedule = FloatSchedule(self.target_kl)
        self.w = th.zeros(self.policy.actor.theta.size, device=self.device)

    def _update_policy(
        self, batch: Batch, scores: Scores, norms: NDArray[Any]
    ) -> float:
        w = self._fitted_w(scores, norms, batch.advantage)
        self.w = th.from_numpy(w).to(self.device)
        fitted, curvature = scores.moments(w)
        fit = explained_variance(fitted, batch.advantage)
        self.logger.record("train/explained_variance_w", fit)
        norm = float(np.linalg.norm(w))
        self.logger.record("train/w_norm", norm)
        step, kl = self._step(batch, norm, curvature)
        self.logger.record("train/step_length", step * norm)
        return kl

    def _fitted_w(
        self, scores: Scores, norms: NDArray[Any], advantage: NDArray[Any]
    ) -> NDArray[Any]:
        """Return the w for which psi' w fits the advantages."""
        size = len(advantage)
        w: NDArray[Any] = self.w_memory * as_array(self.w)
        if self.w_learning_rate is not None:
            progress = self._current_progress_remaining
            rate = rate_at("w_learning_rate", self.w_lr_schedule, progress)
            for _ in range(self.w_steps):
                error = advantage - scores.dot(w)
                w = w + rate * scores.weighted_sum(error) / size
            return w
        # Relative to the mean of the eigenvalues of the scores' second moment that can
        # differ from 0. With more parameters than samples w fits the noise otherwise.
        damping = self.damping * root_mean_square(norms) ** 2 / min(len(w), size)

        def product(vector: Array) -> Array:
            return scores.weighted_sum(scores.dot(vector)) / size + damping * vector

        error = advantage - scores.dot(w) if self.w_memory else advantage
        gradient = scores.weighted_sum(error) / size
        w += conjugate_gradients(product, gradient, self.w_steps)
        return w

    def _step(self, batch: Batch, norm: float, curvature: float) -> tuple[float, float]:
        """Move the policy along w.

        Returns:
            How far, in units of w, and the KL divergence from the policy before.
        """
        if norm > 0 and self.target_kl is None:
            step = self.lr_schedule(self._current_progress_remaining) / norm
            self._move(step)
            return step, self._kl(batch)
        if curvature > 0:
            return self._step_by_kl(batch, curvature)
        return 0.0, 0.0

    def _step_by_kl(self, batch: Batch, curvature: float) -> tuple[float, float]:
        """Step as far as the KL divergence allows; return both."""
        progress = self._current_progress_remaining
        target = rate_at("target_kl", self.kl_schedule, progress)
        theta = self.policy.actor.theta.copy()
        step = float(np.sqrt(2 * target / curvature))
        for _ in range(MAX_HALVINGS):
            self._move(step)
            kl = self._kl(batch)
            if kl <= KL_TOLERANCE * target:
                break
            self.policy.actor.set_theta(theta)
            step, kl = step / 2, 0.0
        return step, kl

    def _move(self, step: float) -> None:
        actor = self.policy.actor
        actor.set_theta(actor.theta + np.float32(step) * as_array(self.w))

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        modules, tensors = super()._get_torch_save_params()
        return modules, [*tensors, "w"]
