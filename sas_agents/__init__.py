"""Agents for environments whose actions are not always available."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sas_agents._features import FourierBasis
from sas_agents._masked import MaskedA2C, MaskedPPO
from sas_agents._masking import VecMaskInObservation
from sas_agents._sas_npg import SASNPG
from sas_agents._sas_pg import SASPG
from sas_agents._sas_q import SASQ
from sas_agents._vec_env import VectorEnvAdapter, make_vec_env

if TYPE_CHECKING:
    from sas_agents._masked_contrib import MaskedQRDQN as MaskedQRDQN
    from sas_agents._masked_contrib import MaskedRecurrentPPO as MaskedRecurrentPPO
    from sas_agents._masked_contrib import MaskedTRPO as MaskedTRPO

__all__ = [
    "SASNPG",
    "SASPG",
    "SASQ",
    "FourierBasis",
    "MaskedA2C",
    "MaskedPPO",
    "VecMaskInObservation",
    "VectorEnvAdapter",
    "make_vec_env",
]

# They need sb3-contrib, which comes with an extra: loaded when first asked for.
_CONTRIB = ("MaskedQRDQN", "MaskedRecurrentPPO", "MaskedTRPO")


def __getattr__(name: str) -> Any:
    if name not in _CONTRIB:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module("sas_agents._masked_contrib")
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{name} needs sb3-contrib: pip install 'sas-gym[contrib]'"
        ) from error
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_CONTRIB])
