"""Exact solutions of SAS-MDPs, and reference returns of problems without one.

It needs SciPy: `pip install sas-gym[planning]`.
"""

from sas_gym import _sparse  # noqa: F401  # first: it names a missing extra
from sas_gym.action_sets._action_probs import (
    best_action_probs,
    mean_value,
    uniform_action_probs,
)
from sas_gym.action_sets._set_lists import enumerate_sets
from sas_gym.planning._bellman import Solution
from sas_gym.planning._dynamic_programming import (
    backward_induction,
    oblivious_policy,
    policy_evaluation,
    policy_iteration,
    value_iteration,
)
from sas_gym.planning._exact_gradient import (
    Enumeration,
    enumerate_policy,
    fisher_matrix,
    natural_gradient,
    policy_gradient,
)
from sas_gym.planning._lasting import LastingSolution
from sas_gym.planning._linear_program import linear_program
from sas_gym.planning._policies import DecisionListPolicy, TabularPolicy
from sas_gym.planning._policy_return import policy_return
from sas_gym.planning._returns import (
    BestRule,
    Reference,
    best_rule,
    informed_return,
    normalized_score,
    optimal_return,
    random_return,
    reference_return,
    rule_score,
)
from sas_gym.planning._sampled_sets import SamplingError, sampled, sampling_error
from sas_gym.planning._solve import solve
from sas_gym.tasks._tabular import TabularSASMDP

__all__ = [
    "BestRule",
    "DecisionListPolicy",
    "Enumeration",
    "LastingSolution",
    "Reference",
    "SamplingError",
    "Solution",
    "TabularPolicy",
    "TabularSASMDP",
    "backward_induction",
    "best_action_probs",
    "best_rule",
    "enumerate_policy",
    "enumerate_sets",
    "fisher_matrix",
    "informed_return",
    "linear_program",
    "mean_value",
    "natural_gradient",
    "normalized_score",
    "oblivious_policy",
    "optimal_return",
    "policy_evaluation",
    "policy_gradient",
    "policy_iteration",
    "policy_return",
    "random_return",
    "reference_return",
    "rule_score",
    "sampled",
    "sampling_error",
    "solve",
    "uniform_action_probs",
    "value_iteration",
]
