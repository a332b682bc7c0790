"""Value iteration, policy iteration, policy evaluation and backward induction."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from sas_gym._types import Floats
from sas_gym.action_sets._action_probs import (
    best_action_probs,
    mean_value,
    uniform_action_probs,
)
from sas_gym.planning._bellman import (
    Solution,
    action_values,
    check_ends,
    discounted_sums,
    evaluate,
    optimal_backup,
    policy_transitions,
    solution,
    zero_terminal,
)
from sas_gym.planning._policies import DecisionListPolicy, TabularPolicy
from sas_gym.tasks._tabular import TabularSASMDP

# Relative to the largest value: an improvement below this is rounding.
_ROUNDING = 1e-13


def value_iteration(
    mdp: TabularSASMDP, tolerance: float = 1e-9, max_sweeps: int = 1_000_000
) -> Solution:
    """Apply Bellman's optimality operator until the values converge.

    Without a discount this is the stochastic shortest path problem: it converges if
    every policy that may go on for ever has the value minus infinity, as where every
    step costs something (Bertsekas and Tsitsiklis, 1991).

    Args:
        mdp: The SAS-MDP, without a horizon.
        tolerance: Largest error of a value. With a discount it is a bound; without one
            it is one as soon as the greedy policy is optimal.
        max_sweeps: Number of sweeps after which to give up.
    """
    _check_infinite_horizon(mdp)
    v, target = np.zeros(mdp.num_states), tolerance
    for _ in range(max_sweeps):
        new, greedy = optimal_backup(mdp, v)
        change = np.abs(new - v).max()
        v = new
        if change <= target:
            # An error of one backup counts once per step that is still to come.
            target = tolerance / _steps_to_come(mdp, greedy)
            if change <= target:
                return solution(mdp, v, action_values(mdp, v))
    raise RuntimeError(
        f"value iteration has not converged to {tolerance} in {max_sweeps} sweeps"
    )


def policy_iteration(mdp: TabularSASMDP, max_rounds: int = 1000) -> Solution:
    """Evaluate and improve a policy in turn, until there is nothing to improve.

    It starts from the random policy, which comes to an end wherever any policy does.

    Args:
        mdp: The SAS-MDP, without a horizon.
        max_rounds: Number of rounds after which to give up.
    """
    _check_infinite_horizon(mdp)
    action_probs = uniform_action_probs(mdp.action_sets, mdp.possible_actions)
    for _ in range(max_rounds):
        v = evaluate(mdp, action_probs)
        new, greedy = optimal_backup(mdp, v)
        # Changing only what gets better, beyond rounding, keeps ties from cycling.
        better = new - v > _ROUNDING * (1 + np.abs(v).max())
        if not better.any():
            return solution(mdp, v, action_values(mdp, v))
        action_probs = np.where(better[:, None], greedy, action_probs)
    raise RuntimeError(f"policy iteration has not converged in {max_rounds} rounds")


def backward_induction(mdp: TabularSASMDP) -> Solution:
    """Solve a SAS-MDP with a horizon, from its last step to its first."""
    return _backwards(
        mdp, lambda _, q: best_action_probs(mdp.action_sets, q, mdp.possible_actions)
    )


def policy_evaluation(mdp: TabularSASMDP, policy: TabularPolicy) -> Solution:
    """Return the values of a policy, up to the MDP's horizon if it has one.

    Args:
        mdp: The SAS-MDP.
        policy: A policy with `action_probs`.
    """
    action_probs = policy.action_probs(mdp)
    if mdp.horizon is not None:
        steps = np.broadcast_to(action_probs, (mdp.horizon, *mdp.reward.shape))
        return _backwards(mdp, lambda step, _: steps[step])
    if action_probs.ndim == 3:
        raise ValueError(
            "the policy has its own rankings for each step: evaluate it on an MDP with "
            f"horizon={len(action_probs)}"
        )
    v = evaluate(mdp, action_probs)
    return solution(mdp, v, action_values(mdp, v))


def oblivious_policy(mdp: TabularSASMDP) -> DecisionListPolicy:
    """Plan as if every action were always available; then take the best that is.

    A planner that meets action sets only when it acts plans like this.
    `policy_evaluation` on the MDP itself returns the value of such a policy.
    """
    known = mdp.replace(action_sets=1.0)
    return plan(known).policy


def plan(mdp: TabularSASMDP) -> Solution:
    """Solve a SAS-MDP; with a horizon, by backward induction."""
    return policy_iteration(mdp) if mdp.horizon is None else backward_induction(mdp)


def _backwards(
    mdp: TabularSASMDP,
    choose: Callable[[int, Floats], Floats],
) -> Solution:
    """Go from the horizon back to the start.

    Args:
        mdp: The SAS-MDP.
        choose: From a step and its action values to the probability of each action.
    """
    if mdp.horizon is None:
        raise ValueError(
            "the MDP has no horizon: set one with `mdp.replace(horizon=...)`"
        )
    values = np.zeros((mdp.horizon + 1, mdp.num_states))
    q_values = np.zeros((mdp.horizon, *mdp.reward.shape))
    for step in reversed(range(mdp.horizon)):
        q_values[step] = q = action_values(mdp, values[step + 1])
        values[step] = zero_terminal(mdp, mean_value(choose(step, q), q))
    return solution(mdp, values, q_values)


def _steps_to_come(mdp: TabularSASMDP, action_probs: Float[Floats, "S A"]) -> float:
    """Largest expected number of steps under a policy, discounted."""
    if mdp.gamma < 1:
        return 1 / (1 - mdp.gamma)
    return float(discounted_sums(mdp, action_probs, np.ones(mdp.num_states)).max())


def _check_infinite_horizon(mdp: TabularSASMDP) -> None:
    if mdp.horizon is not None:
        raise ValueError(
            f"the MDP has a horizon of {mdp.horizon} steps: use `backward_induction`, "
            "or remove it with `mdp.replace(horizon=None)`"
        )
    if mdp.gamma == 1:
        anything = uniform_action_probs(mdp.action_sets, mdp.possible_actions)
        check_ends(mdp, policy_transitions(mdp, anything), "under any policy")
