"""Environments whose actions are not always available.

Importing the package registers its ids with Gymnasium.
"""

from sas_gym.action_sets import (
    ActionSets,
    Explicit,
    Grouped,
    Independent,
    Markov,
    PerEpisode,
)
from sas_gym.checking import check_env
from sas_gym.dynamics import Dynamics
from sas_gym.envs.routing import Routing
from sas_gym.evaluation import episode_returns, random_policy
from sas_gym.masks import sample_actions
from sas_gym.registration import TASKS, register, register_all
from sas_gym.single_env import SASEnv
from sas_gym.vector_env import SASVectorEnv
from sas_gym.wrappers import MaskInObservation, RepairAction, StochasticActionSets

__version__ = "0.1.0"
__all__ = [
    "TASKS",
    "ActionSets",
    "Dynamics",
    "Explicit",
    "Grouped",
    "Independent",
    "Markov",
    "MaskInObservation",
    "PerEpisode",
    "RepairAction",
    "Routing",
    "SASEnv",
    "SASVectorEnv",
    "StochasticActionSets",
    "check_env",
    "episode_returns",
    "random_policy",
    "register",
    "sample_actions",
]

register_all()
