"""sb3-contrib's algorithms with their own loops, masked."""

from typing import Any, ClassVar

import torch as th
from sb3_contrib import QRDQN, TRPO, RecurrentPPO
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from sb3_contrib.qrdqn.policies import QRDQNPolicy, QuantileNetwork
from stable_baselines3.common.policies import BasePolicy

from sas_agents._exploration import MaskedExploration
from sas_agents._masked import ACTOR_CRITIC_POLICIES, with_policy_class
from sas_agents._masked_policies import (
    CnnFeatures,
    LinearFeatures,
    MaskedDistribution,
    MaskedFeatures,
    MultiInputFeatures,
)
from sas_agents._masking import FeaturesWithoutMask, MaskedAlgorithm, TensorObs
from sas_gym.masks import MASK_KEY


class MaskedTRPO(MaskedAlgorithm, TRPO):
    """TRPO that never takes an unavailable action; the arguments are those of `TRPO`.

    The policies are those of `MaskedPPO`. Where everything is available it is `TRPO`,
    number by number.
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = ACTOR_CRITIC_POLICIES
    __init__ = with_policy_class(TRPO.__init__)


class MaskedLstmPolicy(MaskedDistribution, RecurrentActorCriticPolicy, MaskedFeatures):
    """An actor and a critic that remember, for a vector.

    They remember the masks, too: who needs a memory because sets last has to see them.
    `mask_in_features=False` makes it remember the states alone.

    Args:
        *args: As for `RecurrentActorCriticPolicy`.
        mask_in_features: Whether the networks see the mask.
        **kwargs: As for `RecurrentActorCriticPolicy`.
    """

    def __init__(
        self, *args: Any, mask_in_features: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(*args, mask_in_features=mask_in_features, **kwargs)


class MaskedCnnLstmPolicy(CnnFeatures, MaskedLstmPolicy):
    """An actor and a critic that remember, for an image."""


class MaskedMultiInputLstmPolicy(MultiInputFeatures, MaskedLstmPolicy):
    """An actor and a critic that remember, for a dict of observations."""


class MaskedLinearLstmPolicy(LinearFeatures, MaskedLstmPolicy):
    """A memory of the paper's features, and linear maps of it."""


class MaskedRecurrentPPO(MaskedAlgorithm, RecurrentPPO):
    """PPO with a memory; the arguments are those of `RecurrentPPO`.

    It is for sets that last, as under `sas_gym.action_sets.Markov`: what was
    unavailable some steps ago then tells what to expect. The policy is
    `"MlpLstmPolicy"`, `"CnnLstmPolicy"`, `"MultiInputLstmPolicy"`, `"LinearLstmPolicy"`
    or a class. Where everything is available, and the masks are not among the features,
    it is `RecurrentPPO`, number by number.
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "MlpLstmPolicy": MaskedLstmPolicy,
        "CnnLstmPolicy": MaskedCnnLstmPolicy,
        "MultiInputLstmPolicy": MaskedMultiInputLstmPolicy,
        "LinearLstmPolicy": MaskedLinearLstmPolicy,
    }


class MaskedQuantileNetwork(FeaturesWithoutMask, QuantileNetwork):
    """Quantiles of the return, of which those of unavailable actions are lowest."""

    def forward(self, obs: TensorObs) -> th.Tensor:
        """Return the quantiles of every action, [B, Q, A]."""
        quantiles = super().forward(obs)
        lowest = th.finfo(quantiles.dtype).min
        return quantiles.masked_fill(obs[MASK_KEY][:, None] == 0, lowest)


class MaskedQRDQNPolicy(FeaturesWithoutMask, QRDQNPolicy):
    """QR-DQN's policy with masked networks, for a vector."""

    def make_quantile_net(self) -> QuantileNetwork:
        """Build a masked quantile network."""
        arguments = self._update_features_extractor(self.net_args)
        return MaskedQuantileNetwork(**arguments).to(self.device)


class MaskedQRDQNCnnPolicy(CnnFeatures, MaskedQRDQNPolicy):
    """QR-DQN's policy for an image."""


class MaskedQRDQNMultiInputPolicy(MultiInputFeatures, MaskedQRDQNPolicy):
    """QR-DQN's policy for a dict of observations."""


class MaskedQRDQNLinearPolicy(LinearFeatures, MaskedQRDQNPolicy):
    """Quantiles that are linear in the paper's features."""


class MaskedQRDQN(MaskedExploration, QRDQN):
    """QR-DQN over the available actions; the arguments are those of `QRDQN`.

    It is masked in four places, as `SASQ` is: the greedy choice, the random choice of
    epsilon-greedy, that of the warm-up, and the maximum in the target. The policy is
    `"LinearPolicy"`, `"MlpPolicy"`, `"CnnPolicy"`, `"MultiInputPolicy"` or a class.
    Where everything is available and nothing is explored it is `QRDQN`, number by
    number; exploration differs in that each environment draws its own coin.
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "LinearPolicy": MaskedQRDQNLinearPolicy,
        "MlpPolicy": MaskedQRDQNPolicy,
        "CnnPolicy": MaskedQRDQNCnnPolicy,
        "MultiInputPolicy": MaskedQRDQNMultiInputPolicy,
    }
    __init__ = with_policy_class(QRDQN.__init__)
