"""sb3-contrib's algorithms with their own loops, masked."""

from typing import ClassVar

from sb3_contrib import QRDQN, TRPO, RecurrentPPO
from stable_baselines3.common.policies import BasePolicy

from sas_agents.base._algorithm import MaskedAlgorithm
from sas_agents.base._exploration import MaskedExploration
from sas_agents.masked._algorithms import ACTOR_CRITIC_POLICIES, with_policy_class
from sas_agents.masked._contrib_policies import (
    MaskedCnnLstmPolicy,
    MaskedLinearLstmPolicy,
    MaskedLstmPolicy,
    MaskedMultiInputLstmPolicy,
    MaskedQRDQNCnnPolicy,
    MaskedQRDQNLinearPolicy,
    MaskedQRDQNMultiInputPolicy,
    MaskedQRDQNPolicy,
)


class MaskedTRPO(MaskedAlgorithm, TRPO):
    """TRPO that never takes an unavailable action; the arguments are those of `TRPO`.

    The policies are those of `MaskedPPO`. Where everything is available it is `TRPO`,
    bit for bit. As in sb3-contrib, `sub_sampling_factor` does not work on dicts, which
    all our observations are: leave it at 1.
    """

    behaviour_version: ClassVar[int] = 1
    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = ACTOR_CRITIC_POLICIES
    __init__ = with_policy_class(TRPO.__init__)


class MaskedRecurrentPPO(MaskedAlgorithm, RecurrentPPO):
    """PPO with a memory; the arguments are those of `RecurrentPPO`.

    It is for sets that last, as under `sas_gym.action_sets.Markov` and `PerEpisode`:
    what was unavailable some steps ago then says what to expect. A memory pays where
    the present mask does not show that anyway: for actions of other states. Where it
    does, `MaskedPPO` with `mask_in_features=True` knows as much and learns faster.

    The policy is `"MlpLstmPolicy"`, `"CnnLstmPolicy"`, `"MultiInputLstmPolicy"`,
    `"LinearLstmPolicy"` or a class. Where everything is available, and with
    `mask_in_features=False`, it is `RecurrentPPO`, bit for bit.
    """

    behaviour_version: ClassVar[int] = 1
    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "LinearLstmPolicy": MaskedLinearLstmPolicy,
        "MlpLstmPolicy": MaskedLstmPolicy,
        "CnnLstmPolicy": MaskedCnnLstmPolicy,
        "MultiInputLstmPolicy": MaskedMultiInputLstmPolicy,
    }
    __init__ = with_policy_class(RecurrentPPO.__init__)


class MaskedQRDQN(MaskedExploration, QRDQN):
    """QR-DQN over the available actions; the arguments are those of `QRDQN`.

    It is masked in four places, as `SASQ` is: the greedy choice, the random choice of
    epsilon-greedy, that of the warm-up, and the maximum in the target. The policy is
    `"LinearPolicy"`, `"MlpPolicy"`, `"CnnPolicy"`, `"MultiInputPolicy"` or a class.
    Where everything is available it is `QRDQN`, bit for bit but for the exploration, in
    which each environment decides for itself.
    """

    behaviour_version: ClassVar[int] = 1
    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "LinearPolicy": MaskedQRDQNLinearPolicy,
        "MlpPolicy": MaskedQRDQNPolicy,
        "CnnPolicy": MaskedQRDQNCnnPolicy,
        "MultiInputPolicy": MaskedQRDQNMultiInputPolicy,
    }
    __init__ = with_policy_class(QRDQN.__init__)
