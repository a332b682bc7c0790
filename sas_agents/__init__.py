"""Agents for environments whose actions are not always available.

The agents are Stable-Baselines3's in every other respect: what follows explains what
they log. `time/` keys are Stable-Baselines3's.

All agents:
    rollout/ep_rew_mean: Mean undiscounted return of the last `stats_window_size`
        episodes that ended.
    rollout/ep_len_mean: Mean number of steps of the same episodes.
    rollout/success_rate: Share of them with `info["is_success"]`; logged where the
        environment provides it.
    train/learning_rate: Rate of the policy (SASPG), length of a step of its parameters
        (SASNPG), rate of q (SASQ), at the last update.
    train/n_updates: Number of updates so far; for SASQ, of gradient steps.

SASPG and SASNPG, over all steps of the last rollout's episodes, with the policy that
played them:
    train/entropy: Mean entropy of the policy, in nats. It falls from the log of the
        set's size towards 0 as the policy becomes deterministic.
    train/action_set_size: Mean number of available actions.

SASPG, likewise, with the baselines as they were before the update:
    train/value_learning_rate: Rate of v.
    train/q_learning_rate: Rate of q.
    train/loss_v_hat: Mean squared error of v(s) against the returns.
    train/loss_q_bar: Mean squared error of q-bar(s, set) against the returns.
    train/explained_variance_v_hat: Share of the returns' variance that v explains: 1 is
        perfect, 0 no better than a constant, below 0 worse; NaN if all returns are
        equal.
    train/explained_variance_q_bar: The same for q-bar.
    train/weight_v_hat: Weight of v (the paper's lambda_1), after the update.
    train/weight_q_bar: Weight of q-bar (lambda_2), after the update.
    train/gradient_norm: Norm of the mean over steps of score times advantage, the
        policy gradient that the update follows.
    train/gradient_variance: Total variance over steps of score times advantage.
    train/gradient_variance_without_baselines: The same with the return in the
        advantage's place (the mean gradient, equal in expectation, is that with the
        baselines): the difference is what the baselines are worth.

SASNPG, likewise:
    train/w_learning_rate: Rate of w.
    train/w_norm: Norm of w, the natural gradient, after the update.
    train/explained_variance_w: Share of the (centred) returns' variance that psi' w
        explains before the last step on w.

SASQ:
    rollout/exploration_rate: Probability epsilon of a random action.
    train/loss: Mean loss of the gradient steps of the last update.
"""

from sas_agents import _requirements  # noqa: F401  # first: it names a missing extra
from sas_agents._features import FourierBasis
from sas_agents._policies import CnnPolicy, LinearPolicy, MultiInputPolicy, SASPolicy
from sas_agents._q_policies import (
    CnnQPolicy,
    LinearQPolicy,
    MultiInputQPolicy,
    SASQPolicy,
)
from sas_agents._sas_npg import SASNPG
from sas_agents._sas_pg import SASPG
from sas_agents._sas_q import SASQ
from sas_agents._vec_env import VecMaskInObservation, VectorEnvAdapter, make_vec_env

__all__ = [
    "SASNPG",
    "SASPG",
    "SASQ",
    "CnnPolicy",
    "CnnQPolicy",
    "FourierBasis",
    "LinearPolicy",
    "LinearQPolicy",
    "MultiInputPolicy",
    "MultiInputQPolicy",
    "SASPolicy",
    "SASQPolicy",
    "VecMaskInObservation",
    "VectorEnvAdapter",
    "make_vec_env",
]
