"""Agents for environments whose actions are not always available.

SASPG, SASNPG and SASQ are the paper's. The masked ones are Stable-Baselines3's and
sb3-contrib's own algorithms with their own loops and arguments, only that their
policies never take an unavailable action. Those marked * need `sas-gym[contrib]`.

Can I use?

=================== ======== ============= =========== === ===== ====== =======
agent               Discrete MultiDiscrete MultiBinary Box image dict   memory
=================== ======== ============= =========== === ===== ====== =======
SASPG, SASNPG       yes      no            no          no  yes   yes    no
SASQ                yes      no            no          no  yes   yes    no
MaskedPPO           yes      yes           yes         no  yes   yes    no
MaskedA2C           yes      yes           yes         no  yes   yes    no
MaskedTRPO*         yes      yes           yes         no  yes   yes    no
MaskedRecurrentPPO* yes      yes           no          no  yes   yes    LSTM
MaskedQRDQN*        yes      no            no          no  yes   yes    no
=================== ======== ============= =========== === ===== ====== =======

The columns up to Box are action spaces, image and dict are observations: policies
`"LinearPolicy"` and `"MlpPolicy"` are for a vector or a number, `"CnnPolicy"` for an
image, `"MultiInputPolicy"` for a dict; with a memory `"MlpLstmPolicy"` and so on.
`"TwoTowerPolicy"` scores very many Discrete actions by their features, for MaskedPPO,
MaskedA2C and MaskedTRPO. Where the table says no, `sas_gym.FlattenActions` numbers the
combinations of MultiDiscrete and MultiBinary actions.

With one row of features per action in the observation, under the key `action_features`
or the keys of `policy_kwargs={"action_keys": [...]}`, one network scores every action
by its row, in SASPG, SASNPG, SASQ, MaskedPPO, MaskedA2C and MaskedTRPO; features that
never change go into `policy_kwargs={"action_features": array}`.
`sas_gym.ActionFeatures` adds rows to any environment. Networks of SASPG, SASNPG and
SASQ normalise the numbers of observations by running statistics; for the masked ones
there is Stable-Baselines3's `VecNormalize`.

All take vector environments: those of `make_vec_env`, `DummyVecEnv`, `SubprocVecEnv`,
with `VecNormalize(norm_obs_keys=...)` and `VecFrameStack` below the masks. Agents and
the environments of callbacks such as `EvalCallback` take the mask from
`obs["action_mask"]`, `info["action_mask"]` or a method `action_masks()`; `make_vec_env`
and `MaskInObservation` take any other place by `mask=`.
`evaluate_policy` and `predict` need it in the observation, where `make_vec_env`,
`sas_gym.MaskInObservation` and `VecMaskInObservation` put it, or in
`predict(..., action_masks=...)`. The mask of several dimensions has one entry per value
of each, one dimension after the other. The networks do not see the mask unless
`policy_kwargs={"mask_in_features": True}` says so, which is the default with a memory.

A mask holds 0 and 1; other values are refused. Only `DummyVecEnv`, if you make one
yourself, casts the masks in observations to the type of their space before an agent
sees them, so that 0.5, 256 and NaN become 0: `sas_gym.check_env`, `make_vec_env` and
agents that are given the single environment find these values.

One seed gives one training, to the last bit, on one machine with one number of threads:
with one environment or many, with evaluations or without, and when it continues as
`MaskedAlgorithm.save` says. Between one thread and two it is the same with linear
policies; with networks it may differ in the last digits, as long sums are split between
threads (SB3's orthogonal initialisation is one of them).
Small networks are fastest with `OMP_NUM_THREADS=1`.

What follows explains what the agents log. The masked ones log what their originals do;
`time/` keys are Stable-Baselines3's.

All agents:
    rollout/ep_rew_mean: Mean undiscounted return of the last `stats_window_size`
        episodes that ended.
    rollout/ep_len_mean: Mean number of steps of the same episodes.
    rollout/success_rate: Share of them with `info["is_success"]`; logged where the
        environment provides it.
    train/learning_rate: Rate of the policy (SASPG), length of a step of its parameters
        where `target_kl` is None (SASNPG), rate of q (SASQ), at the last update.
    train/n_updates: Number of rollouts learned from so far; for SASQ, of gradient
        steps.

SASPG and SASNPG, over all steps of the last rollout that count, with the policy that
played them and the baselines as they were before the update; returns are in units of
`train/return_scale`:
    train/critic_learning_rate: Rate of v and q, if they have one.
    train/entropy: Mean entropy of the policy, in nats. It falls from the log of the
        set's size towards 0 as the policy becomes deterministic.
    train/action_set_size: Mean number of available actions.
    train/kl: Mean KL divergence of the policy after the update from the one before. If
        it is 0, nothing is learned; steps of 0.01 to 0.1 are usual.
    train/return_scale: Running root mean square of the returns.
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

SASPG:
    train/policy_steps: Number of gradient steps of the policy on the last rollout,
        before it was as far from where it started as `target_kl` allows.

SASNPG:
    train/step_length: Length of the last step of the policy's parameters.
    train/w_norm: Norm of w, the natural gradient, after the update.
    train/explained_variance_w: Share of the advantages' variance that psi' w explains.

SASQ:
    rollout/exploration_rate: Probability epsilon of a random action.
    train/loss: Mean loss of the gradient steps of the last update, in units of the
        square of `train/target_scale`.
    train/target_scale: Running root mean square of the targets.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sas_gym import __version__ as __version__  # one distribution, one version
from sas_gym._arguments import require_extra

if TYPE_CHECKING:
    from sas_agents.masked._algorithms import MaskedA2C as MaskedA2C
    from sas_agents.masked._algorithms import MaskedPPO as MaskedPPO
    from sas_agents.masked._contrib import MaskedQRDQN as MaskedQRDQN
    from sas_agents.masked._contrib import MaskedRecurrentPPO as MaskedRecurrentPPO
    from sas_agents.masked._contrib import MaskedTRPO as MaskedTRPO
    from sas_agents.masked._contrib_policies import MaskedLstmPolicy as MaskedLstmPolicy
    from sas_agents.masked._contrib_policies import (
        MaskedQRDQNPolicy as MaskedQRDQNPolicy,
    )
    from sas_agents.masked._policies import (
        MaskedActorCriticPolicy as MaskedActorCriticPolicy,
    )
    from sas_agents.masked._two_tower import TwoTowerPolicy as TwoTowerPolicy
    from sas_agents.models._features import FourierBasis as FourierBasis
    from sas_agents.policy_gradient._policies import CnnPolicy as CnnPolicy
    from sas_agents.policy_gradient._policies import LinearPolicy as LinearPolicy
    from sas_agents.policy_gradient._policies import (
        MultiInputPolicy as MultiInputPolicy,
    )
    from sas_agents.policy_gradient._policies import SASPolicy as SASPolicy
    from sas_agents.policy_gradient._sas_npg import SASNPG as SASNPG
    from sas_agents.policy_gradient._sas_pg import SASPG as SASPG
    from sas_agents.q_learning._policies import CnnQPolicy as CnnQPolicy
    from sas_agents.q_learning._policies import LinearQPolicy as LinearQPolicy
    from sas_agents.q_learning._policies import MultiInputQPolicy as MultiInputQPolicy
    from sas_agents.q_learning._policies import SASQPolicy as SASQPolicy
    from sas_agents.q_learning._sas_q import SASQ as SASQ
    from sas_agents.vec_env._mask_in_observation import (
        VecMaskInObservation as VecMaskInObservation,
    )
    from sas_agents.vec_env._vec_env import VectorEnvAdapter as VectorEnvAdapter
    from sas_agents.vec_env._vec_env import make_vec_env as make_vec_env

# The module of each public name, which is imported when the name is first used.
_MODULES = {
    "masked._algorithms": ("MaskedA2C", "MaskedPPO"),
    "masked._policies": ("MaskedActorCriticPolicy",),
    "masked._two_tower": ("TwoTowerPolicy",),
    "models._features": ("FourierBasis",),
    "policy_gradient._policies": (
        "CnnPolicy",
        "LinearPolicy",
        "MultiInputPolicy",
        "SASPolicy",
    ),
    "policy_gradient._sas_npg": ("SASNPG",),
    "policy_gradient._sas_pg": ("SASPG",),
    "q_learning._policies": (
        "CnnQPolicy",
        "LinearQPolicy",
        "MultiInputQPolicy",
        "SASQPolicy",
    ),
    "q_learning._sas_q": ("SASQ",),
    "vec_env._mask_in_observation": ("VecMaskInObservation",),
    "vec_env._vec_env": ("VectorEnvAdapter", "make_vec_env"),
}
# The same of the names that need sb3-contrib.
_CONTRIB_MODULES = {
    "masked._contrib": ("MaskedQRDQN", "MaskedRecurrentPPO", "MaskedTRPO"),
    "masked._contrib_policies": ("MaskedLstmPolicy", "MaskedQRDQNPolicy"),
}
_MODULE_OF = {
    name: module
    for modules in (_MODULES, _CONTRIB_MODULES)
    for module, names in modules.items()
    for name in names
}
_CONTRIB = {name for names in _CONTRIB_MODULES.values() for name in names}
_HAS_CONTRIB = find_spec("sb3_contrib") is not None

__all__ = sorted(  # depends on the extras that are installed
    name for name in _MODULE_OF if _HAS_CONTRIB or name not in _CONTRIB
)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_extra("agents", "stable_baselines3", "torch")
    try:
        module = import_module(f"{__name__}.{_MODULE_OF[name]}")
    except ModuleNotFoundError as error:
        if name not in _CONTRIB:
            raise
        raise ImportError(
            f"{name} needs sb3-contrib: pip install 'sas-gym[contrib]'"
        ) from error
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
