"""Environments whose actions are not always available.

Importing the package registers its ids with Gymnasium.
"""

from sas_gym import action_sets, masks, rules
from sas_gym._action_features import ActionFeatures
from sas_gym._catalogue import Catalogue, CatalogueRow, catalogue
from sas_gym._evaluation import RandomPolicy, episode_returns
from sas_gym._flatten_actions import FlattenActions
from sas_gym._registration import SPECS, TAGS, TaskSpec, register, register_all
from sas_gym._wrappers import MaskInObservation, RepairAction, StochasticActionSets
from sas_gym.checking._check_env import check_env
from sas_gym.envs._single import SASEnv
from sas_gym.envs._vector import SASVectorEnv
from sas_gym.tasks._bay_area import BayArea
from sas_gym.tasks._maze import Maze
from sas_gym.tasks._recommender import Recommender
from sas_gym.tasks._routing import Routing
from sas_gym.tasks._san_francisco import SanFrancisco
from sas_gym.tasks._shut_the_box import ShutTheBox
from sas_gym.tasks._task import Task
from sas_gym.tasks._theta_two_theta import ThetaTwoTheta

__version__ = "0.1.0"
__all__ = [
    "SPECS",
    "TAGS",
    "ActionFeatures",
    "BayArea",
    "Catalogue",
    "CatalogueRow",
    "FlattenActions",
    "MaskInObservation",
    "Maze",
    "RandomPolicy",
    "Recommender",
    "RepairAction",
    "Routing",
    "SASEnv",
    "SASVectorEnv",
    "SanFrancisco",
    "ShutTheBox",
    "StochasticActionSets",
    "Task",
    "TaskSpec",
    "ThetaTwoTheta",
    "action_sets",
    "catalogue",
    "check_env",
    "episode_returns",
    "masks",
    "register",
    "rules",
]

register_all()
