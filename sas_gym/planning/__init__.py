"""Exact solutions of SAS-MDPs, and what is known of those that have none.

It needs SciPy: `pip install sas-gym[planning]`.
"""

from sas_gym.planning.bellman import Solution
from sas_gym.planning.choice import best_choice, mean_value, uniform_choice
from sas_gym.planning.dynamic_programming import (
    backward_induction,
    policy_evaluation,
    policy_iteration,
    solve,
    value_iteration,
)
from sas_gym.planning.enumeration import enumerate_sets
from sas_gym.planning.linear_program import linear_program
from sas_gym.planning.oblivious import oblivious_policy
from sas_gym.planning.policies import DecisionListPolicy, RandomPolicy
from sas_gym.planning.reference import Reference, reference_return
from sas_gym.planning.returns import normalized_score, optimal_return, random_return
from sas_gym.planning.sampled import SamplingError, sampled, sampling_error
from sas_gym.planning.softmax import (
    Enumeration,
    enumerate_policy,
    fisher_matrix,
    natural_gradient,
    policy_gradient,
)
from sas_gym.tabular import TabularSASMDP

__all__ = [
    "DecisionListPolicy",
    "Enumeration",
    "RandomPolicy",
    "Reference",
    "SamplingError",
    "Solution",
    "TabularSASMDP",
    "backward_induction",
    "best_choice",
    "enumerate_policy",
    "enumerate_sets",
    "fisher_matrix",
    "linear_program",
    "mean_value",
    "natural_gradient",
    "normalized_score",
    "oblivious_policy",
    "optimal_return",
    "policy_evaluation",
    "policy_gradient",
    "policy_iteration",
    "random_return",
    "reference_return",
    "sampled",
    "sampling_error",
    "solve",
    "uniform_choice",
    "value_iteration",
]
