"""The laws of the action set: which actions are available now."""

from sas_gym.action_sets.base import ActionSets, Floats, Ints, Mask
from sas_gym.action_sets.explicit import Explicit
from sas_gym.action_sets.grouped import Grouped
from sas_gym.action_sets.independent import Independent, as_action_sets
from sas_gym.action_sets.lasting import Markov, PerEpisode

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
