"""Stable-Baselines3's actor-critic algorithms with their own loops, masked."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar, TypeVar, cast

from stable_baselines3 import A2C, PPO
from stable_baselines3.common.policies import BasePolicy

from sas_agents.base._algorithm import MaskedAlgorithm
from sas_agents.masked._policies import (
    MaskedActorCriticCnnPolicy,
    MaskedActorCriticPolicy,
    MaskedLinearActorCriticPolicy,
    MaskedMultiInputActorCriticPolicy,
)
from sas_agents.masked._two_tower import TwoTowerPolicy

Init = TypeVar("Init", bound=Callable[..., None])

ACTOR_CRITIC_POLICIES: dict[str, type[BasePolicy]] = {
    "LinearPolicy": MaskedLinearActorCriticPolicy,
    "MlpPolicy": MaskedActorCriticPolicy,
    "CnnPolicy": MaskedActorCriticCnnPolicy,
    "MultiInputPolicy": MaskedMultiInputActorCriticPolicy,
    "TwoTowerPolicy": TwoTowerPolicy,
}


def with_policy_class(init: Init) -> Init:
    """Return a constructor that resolves a policy's name; its signature is unchanged.

    Stable-Baselines3 takes `"MlpPolicy"` and `"CnnPolicy"` for a mistake where the
    observation is a dict, as all of ours are: so it is given the class.
    """

    @wraps(init)
    def resolving(self: Any, policy: Any, *args: Any, **kwargs: Any) -> None:
        init(self, self.policy_class_of(policy), *args, **kwargs)

    return cast("Init", resolving)


class MaskedPPO(MaskedAlgorithm, PPO):
    """PPO that never takes an unavailable action; the arguments are those of `PPO`.

    The policy is `"LinearPolicy"`, `"MlpPolicy"`, `"CnnPolicy"`, `"MultiInputPolicy"`,
    `"TwoTowerPolicy"` or a class. Where everything is available it is `PPO`, bit for
    bit.
    """

    behaviour_version: ClassVar[int] = 1
    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = ACTOR_CRITIC_POLICIES
    __init__ = with_policy_class(PPO.__init__)


class MaskedA2C(MaskedAlgorithm, A2C):
    """A2C that never takes an unavailable action; the arguments are those of `A2C`.

    The policies are those of `MaskedPPO`. Where everything is available it is `A2C`,
    bit for bit.
    """

    behaviour_version: ClassVar[int] = 1
    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = ACTOR_CRITIC_POLICIES
    __init__ = with_policy_class(A2C.__init__)
