"""Agents for environments whose actions are not always available."""

from sas_agents.features import FourierBasis
from sas_agents.masking import VecMaskInObservation
from sas_agents.sas_npg import SASNPG
from sas_agents.sas_pg import SASPG
from sas_agents.sas_q import SASQ
from sas_agents.vec_env import LanesVecEnv, make_vec_env

__all__ = [
    "SASNPG",
    "SASPG",
    "SASQ",
    "FourierBasis",
    "LanesVecEnv",
    "VecMaskInObservation",
    "make_vec_env",
]
