"""Distributions of the action set: which actions are available now."""

from sas_gym._types import Floats, Ints, Mask
from sas_gym.action_sets._base import ActionSets
from sas_gym.action_sets._correlated import Explicit, Grouped
from sas_gym.action_sets._independent import Independent, as_action_sets
from sas_gym.action_sets._persistent import Markov, PerEpisode

__all__ = [
    "ActionSets",
    "Explicit",
    "Floats",
    "Grouped",
    "Independent",
    "Ints",
    "Markov",
    "Mask",
    "PerEpisode",
    "as_action_sets",
]
