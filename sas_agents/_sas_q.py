"""SAS-Q: DQN whose maximum is over the available actions."""

from typing import Any, ClassVar, Literal

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3 import DQN
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv
from stable_baselines3.common.utils import obs_as_tensor
from torch.nn import functional as F

from sas_agents._estimators import td_target
from sas_agents._masking import MaskedAlgorithm
from sas_agents._q_policies import (
    CnnQPolicy,
    LinearQPolicy,
    MultiInputQPolicy,
    SASQPolicy,
)
from sas_gym.masks import MASK_KEY, sample_actions

# Unlike DQN's, which are made for a million steps of one lane, these learn from a few
# hundred thousand of many.
DEFAULTS: dict[str, Any] = {
    "buffer_size": 100_000,
    "learning_starts": 1_000,
    "batch_size": 128,
    "train_freq": 1,
    "gradient_steps": 4,
    "target_update_interval": 640,
    "exploration_fraction": 0.3,
}
LINEAR_RATE = 0.02
NETWORK_RATE = 1e-3

LOSSES = {"huber": F.smooth_l1_loss, "squared": lambda q, y: 0.5 * F.mse_loss(q, y)}


class SASQ(MaskedAlgorithm, DQN):
    """Q-learning over the available actions (Boutilier et al., 2018), by a DQN.

    It is masked in four places: the greedy choice, the random choice of epsilon-greedy,
    that of the warm-up, and the maximum in the target. With
    `batch_size=1, train_freq=1, gradient_steps=1, target_update_interval=1,
    learning_starts=0, buffer_size=1, loss="squared", max_grad_norm=inf` and SGD for
    optimiser it is the online algorithm.

    Args:
        policy: `"LinearPolicy"` (the paper's), `"MlpPolicy"`, `"CnnPolicy"`,
            `"MultiInputPolicy"`, or a class.
        env: The environment, or its id.
        double_q: Whether the online network chooses the action that the target network
            evaluates (double Q-learning), among the available ones.
        loss: `"huber"`, as DQN has it, or the paper's `"squared"` error.
        **kwargs: As for `DQN`, over `DEFAULTS`. The rate is high for a linear policy
            and low for networks.
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "LinearPolicy": LinearQPolicy,
        "MlpPolicy": SASQPolicy,
        "CnnPolicy": CnnQPolicy,
        "MultiInputPolicy": MultiInputQPolicy,
    }

    _last_obs: Any

    def __init__(
        self,
        policy: str | type[SASQPolicy],
        env: GymEnv | str,
        *,
        double_q: bool = False,
        loss: Literal["huber", "squared"] = "huber",
        **kwargs: Any,
    ) -> None:
        if loss not in LOSSES:
            raise ValueError(f"loss must be one of {sorted(LOSSES)}, got {loss!r}")
        self.double_q = double_q
        self.loss = loss
        policy_class: Any = self.policy_class_of(policy)
        is_linear = issubclass(policy_class, LinearQPolicy)
        rate = {"learning_rate": LINEAR_RATE if is_linear else NETWORK_RATE}
        super().__init__(policy_class, env, **(DEFAULTS | rate | kwargs))

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
            loss.backward()
            th.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
            losses.append(loss.item())
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", np.mean(losses))

    def _choose(
        self,
        masked: dict[str, NDArray[Any]],
        state: Any,
        episode_start: Any,
        deterministic: bool,
    ) -> tuple[Any, Any]:
        """Choose greedily, or epsilon-greedily while learning.

        Each lane explores by a coin of its own.
        """
        actions, state = self.policy.predict(masked, state, episode_start)
        if deterministic or self.exploration_rate == 0:
            return actions, state
        masks = np.atleast_2d(masked[MASK_KEY])
        explores = self._coins(len(masks), self.exploration_rate)
        explored = np.where(explores, self._random_actions(masks), actions)
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
        explores = self._coins(len(masks), 1.0 if warm_up else self.exploration_rate)
        actions = self._random_actions(masks)
        if not explores.all():
            with th.no_grad():
                q = self.q_net(obs_as_tensor(self._last_obs, self.device))
            actions = np.where(explores, actions, q.argmax(dim=1).cpu().numpy())
        return actions, actions

    def _coins(self, number: int, chance: float) -> NDArray[np.bool_]:
        return self.action_space.np_random.random(number) < chance

    def _random_actions(self, masks: NDArray[Any]) -> NDArray[np.intp]:
        return sample_actions(masks, self.action_space.np_random)
