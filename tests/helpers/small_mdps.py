"""Random small SAS-MDPs."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.random import Generator

from helpers import brute_force
from sas_gym.action_sets import ActionSets, Explicit, Grouped, Independent
from sas_gym.planning import TabularSASMDP

KINDS = ("independent", "grouped", "explicit")
"""Kinds of distributions of the action sets."""


def random_action_sets(
    kind: str, num_states: int, num_actions: int, rng: Generator
) -> ActionSets:
    """Return a distribution whose probabilities, some 0 or 1, differ by state."""
    if kind == "independent":
        p = rng.random((num_states, num_actions)).round(1)
        p[np.arange(num_states), rng.integers(num_actions, size=num_states)] = 0.5
        return Independent(p)
    if kind == "grouped":
        groups = rng.permutation(np.arange(num_actions) // 2)
        return Grouped(groups, rng.uniform(0.1, 1.0, (num_states, groups.max() + 1)))
    sets = rng.random((6, num_actions)) < 0.5
    sets[np.arange(6), rng.integers(num_actions, size=6)] = True
    return Explicit(sets, rng.dirichlet(np.ones(6), num_states))


def random_mdp(
    seed: int,
    num_states: int = 4,
    num_actions: int = 3,
    kind: str = "independent",
    *,
    ends: bool = False,
    **options: Any,
) -> TabularSASMDP:
    """Return a SAS-MDP with tied rewards, in which some states have fewer actions."""
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.full(num_states, 0.5), (num_states, num_actions))
    if ends:
        transition = 0.9 * transition + 0.1 * np.eye(num_states)[-1]
        options["terminal_states"] = [num_states - 1]
    impossible = (rng.random((num_states, num_actions)) < 0.2) & (
        np.arange(num_actions) != rng.integers(num_actions, size=num_states)[:, None]
    )
    action_sets = random_action_sets(kind, num_states, num_actions, rng)
    for state in range(num_states):
        if not brute_force.set_probs(action_sets, ~impossible[state], state):
            impossible[state] = False
    transition[impossible] = 0.0
    reward = rng.integers(-2, 3, (num_states, num_actions)).astype(float)
    return TabularSASMDP(transition, reward, action_sets, **options)


mdps = st.builds(
    random_mdp,
    seed=st.integers(0, 10**6),
    num_states=st.integers(2, 5),
    num_actions=st.integers(1, 4),
    kind=st.sampled_from(KINDS),
    ends=st.booleans(),
    gamma=st.sampled_from([0.0, 0.5, 0.9]),
)
