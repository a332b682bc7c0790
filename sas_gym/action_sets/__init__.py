"""Distributions of the action set: which actions are available now."""

from sas_gym.action_sets._base import ActionSets
from sas_gym.action_sets._correlated import Explicit, Grouped
from sas_gym.action_sets._independent import Independent
from sas_gym.action_sets._outcomes import Outcomes
from sas_gym.action_sets._persistent import Markov, PerEpisode
from sas_gym.action_sets._things import Things

__all__ = [
    "ActionSets",
    "Explicit",
    "Grouped",
    "Independent",
    "Markov",
    "Outcomes",
    "PerEpisode",
    "Things",
]
