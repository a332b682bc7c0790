"""Planning that ignores availability."""

import numpy as np

from sas_gym.planning._dynamic_programming import solve
from sas_gym.planning._policies import DecisionListPolicy
from sas_gym.planning._tabular import TabularSASMDP


def oblivious_policy(mdp: TabularSASMDP) -> DecisionListPolicy:
    """Plan as if every action were always available; then take the best that is.

    It is what a planner does that knows of action sets only when it acts. What it loses
    by that, `policy_evaluation` on the MDP itself tells.
    """
    always = np.where(mdp.possible_actions, 1.0, 0.0)
    return solve(mdp.replace(action_sets=always)).policy
