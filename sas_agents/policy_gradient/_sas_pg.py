"""SAS-PG: the policy gradient for stochastic action sets (Algorithm 1)."""

from typing import Any, ClassVar

import torch as th
from stable_baselines3.common.type_aliases import GymEnv, Schedule

from sas_agents._fast import changed_policy, clipped_gradient, take_step
from sas_agents.policy_gradient._batch import Batch, Scores
from sas_agents.policy_gradient._on_policy import PolicyGradientAlgorithm
from sas_agents.policy_gradient._policies import SASPolicy
from sas_gym._types import NDArray


class SASPG(PolicyGradientAlgorithm):
    """Policy gradient with two baselines, weighted for least variance.

    Paper: Chandak, Theocharous, Metevier and Thomas (2020), "Reinforcement Learning
    When All Actions are Not Always Available", Algorithm 1. What differs, so that it
    learns on problems that nobody has tuned it for: a rollout is a fixed number of
    steps, and v replaces what follows the last one; the policy takes several steps on a
    rollout, while it stays close to the one that played; linear critics are fitted by
    least squares; returns and advantages are measured in units of their own size, so
    that the scale of the rewards does not matter; the optimiser is Adam. The critics
    that serve as baselines are those of the rollouts before.

    The paper's algorithm, to the letter, is `whole_episodes=True, n_epochs=1,
    normalize=False, clip_range=None, target_kl=None` with
    `"LinearPolicy"`, a `critic_learning_rate`, one environment, `n_steps=1` and
    `policy_kwargs={"optimizer_class": torch.optim.SGD}`; for a bounded Box, which has a
    Fourier basis, also with its order of the paper, by
    `"features_extractor_kwargs": {"order": 3}` in `policy_kwargs`.

    `help(sas_agents)` explains what is logged.

    Args:
        policy: `"LinearPolicy"` (the paper's), `"MlpPolicy"`, `"CnnPolicy"`,
            `"MultiInputPolicy"`, or a class.
        env: The environment, or its id.
        learning_rate: Rate of the policy; may be a schedule, as both rates may.
            Default: 0.05 for a linear policy, 0.001 for networks.
        n_steps: Number of steps of each environment in a rollout. Default: as many as
            make 2048 steps of all environments together, and at least 16.
        batch_size: Number of steps in a minibatch. Default: a quarter of a rollout for
            a linear policy, an eighth for networks; all of it with `whole_episodes`.
        n_epochs: Number of passes through a rollout. Default: 2 for a linear policy, 10
            for networks.
        gamma: Discount.
        gae_lambda: Weight of the longer returns in the lambda-return: 1 for all rewards
            of a rollout, 0 for one reward and the next value. Default: 0.8 for a linear
            policy, 0.9 for networks, whose v is less to be relied on.
        clip_range: How far the probability of an action may move, as a ratio, before
            its gradient is cut off; None for no such limit.
        critic_learning_rate: Rate of v and q. Default: 0.001 for networks; a linear
            policy needs none, as least squares fit its critics.
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
        target_kl: The steps of the policy end when its KL divergence from the one that
            played is larger than this; None for no such limit.
        stats_window_size: Number of episodes over which `rollout/` statistics average.
        tensorboard_log: Directory for TensorBoard's files. Default: none are written.
        policy_kwargs: Arguments of the policy; see `SASPolicy`.
        verbose: 0 prints nothing, 1 information, 2 debugging messages.
        seed: Seed of the parameters, the actions and the environment.
        device: Where the tensors are; `"auto"` takes a GPU if there is one.
        _init_setup_model: Whether to build the networks at once.
    """

    behaviour_version: ClassVar[int] = 3

    def __init__(
        self,
        policy: str | type[SASPolicy],
        env: GymEnv | str,
        learning_rate: float | Schedule | None = None,
        n_steps: int | None = None,
        batch_size: int | None = None,
        n_epochs: int | None = None,
        gamma: float = 0.99,
        gae_lambda: float | None = None,
        clip_range: float | None = 0.2,
        critic_learning_rate: float | Schedule | None = None,
        whole_episodes: bool = False,
        normalize: bool = True,
        baseline_weights: tuple[float, float] = (-0.5, -0.5),
        adapt_weights: bool = True,
        weight_decay: float = 0.999,
        ridge: float = 1e-3,
        target_kl: float | None = 0.06,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: th.device | str = "auto",
        _init_setup_model: bool = True,
    ) -> None:
        defaults = self.policy_class_of(policy).defaults
        if learning_rate is None:
            learning_rate = defaults.learning_rate
        if n_epochs is None:
            n_epochs = defaults.n_epochs
        self.clip_range = clip_range
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

    def _update_policy(
        self, batch: Batch, scores: Scores, norms: NDArray[Any]
    ) -> float:
        # The sum over a rollout is divided by the number of steps that it asks for. A
        # constant leaves the direction of its expectation alone; the number of steps
        # that came, which for whole episodes depends on what happened, would not.
        share = len(batch.actions) / (self.n_steps * self.n_envs)
        scaled = batch._replace(advantage=share * batch.advantage)
        num_steps = 0
        for part in scaled.minibatches(self.batch_size, self.n_epochs):
            if not self._improve(part):
                break
            num_steps += 1
        self.logger.record("train/policy_steps", num_steps)
        return self._kl(batch)

    def _improve(self, batch: Batch) -> bool:
        """Take a step of the policy on a minibatch, if it is still close enough.

        Returns:
            Whether a step was taken.
        """
        actor = self.policy.actor
        tangent = actor.tangent(batch.inputs)
        policy = changed_policy(batch.probs, tangent.outputs - batch.logits)
        if self.target_kl is not None and policy.kl > self.target_kl:
            return False
        gradient = clipped_gradient(
            policy, batch.probs, batch.actions, batch.advantage, self.clip_range
        )
        actor.set_gradient(tangent.vjp(gradient))
        take_step(self.policy.optimizer)
        return True
