"""Agents for environments whose actions are not always available."""

from sas_agents._features import FourierBasis
from sas_agents._masking import VecMaskInObservation
from sas_agents._sas_npg import SASNPG
from sas_agents._sas_pg import SASPG
from sas_agents._sas_q import SASQ
from sas_agents._vec_env import VectorEnvAdapter, make_vec_env

__all__ = [
    "SASNPG",
    "SASPG",
    "SASQ",
    "FourierBasis",
    "VecMaskInObservation",
    "VectorEnvAdapter",
    "make_vec_env",
]
