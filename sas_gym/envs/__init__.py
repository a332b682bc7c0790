"""The tasks, one a file: a class's docstring is its page."""

from sas_gym.envs.bay_area import BayArea
from sas_gym.envs.maze import Maze
from sas_gym.envs.recommender import Recommender
from sas_gym.envs.routing import Routing
from sas_gym.envs.san_francisco import SanFrancisco
from sas_gym.envs.theta_two_theta import ThetaTwoTheta

__all__ = ["BayArea", "Maze", "Recommender", "Routing", "SanFrancisco", "ThetaTwoTheta"]
