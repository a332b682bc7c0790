"""Random small SAS-MDPs, and their solution by enumeration: slow and plain."""

import itertools

import numpy as np
from hypothesis import strategies as st

from sas_gym.action_sets import Explicit, Grouped, Independent
from sas_gym.planning._tabular import TabularSASMDP

LAWS = ("independent", "grouped", "explicit")


def random_law(kind, num_states, num_actions, rng):
    """Return a law whose probabilities, some of them 0 or 1, differ by the state."""
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
    seed, num_states=4, num_actions=3, kind="independent", *, ends=False, **options
):
    """Return a SAS-MDP with tied rewards, and actions that some states lack."""
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.full(num_states, 0.5), (num_states, num_actions))
    if ends:
        transition = 0.9 * transition + 0.1 * np.eye(num_states)[-1]
        options["terminal_states"] = [num_states - 1]
    lacking = (rng.random((num_states, num_actions)) < 0.2) & (
        np.arange(num_actions) != rng.integers(num_actions, size=num_states)[:, None]
    )
    law = random_law(kind, num_states, num_actions, rng)
    for state in range(num_states):
        if not brute_force_law(law, ~lacking[state], state):
            lacking[state] = False
    transition[lacking] = 0.0
    reward = rng.integers(-2, 3, (num_states, num_actions)).astype(float)
    return TabularSASMDP(transition, reward, law, **options)


mdps = st.builds(
    random_mdp,
    seed=st.integers(0, 10**6),
    num_states=st.integers(2, 5),
    num_actions=st.integers(1, 4),
    kind=st.sampled_from(LAWS),
    ends=st.booleans(),
    gamma=st.sampled_from([0.0, 0.5, 0.9]),
)


def brute_force_law(law, possible, state):
    """Return {set: probability} in one state, by the definition of each law."""
    if isinstance(law, Independent):
        weighted = _products(law.availability[state], np.eye(len(possible), dtype=bool))
    elif isinstance(law, Grouped):
        members = np.arange(law.num_groups)[:, None] == law.groups
        weighted = _products(law.availability[state], members)
    else:
        weighted = zip(law.sets, law.probabilities[state], strict=True)
    chances = {}
    for mask, chance in weighted:
        actions = tuple(np.flatnonzero(mask & possible))
        if actions and chance:
            chances[actions] = chances.get(actions, 0.0) + chance
    total = sum(chances.values())
    return {actions: chance / total for actions, chance in chances.items()}


def _products(p, members):
    """Yield each union of groups with the chance of exactly those groups."""
    for bits in itertools.product([False, True], repeat=len(p)):
        chance = np.prod([q if bit else 1 - q for q, bit in zip(p, bits, strict=True)])
        yield members[list(bits)].any(axis=0), chance


def brute_force_laws(mdp):
    """Return {set: probability} of every state."""
    law = getattr(mdp.action_sets, "law", mdp.action_sets)
    return [
        brute_force_law(law, possible, state)
        for state, possible in enumerate(mdp.possible_actions)
    ]


def brute_force_values(mdp, num_sweeps, choose=max):
    """Iterate Bellman's equation with every set written out."""
    laws, v = brute_force_laws(mdp), np.zeros(mdp.num_states)
    transition = mdp.transition_matrix.toarray().reshape(*mdp.reward.shape, -1)
    for _ in range(num_sweeps):
        q = mdp.reward + mdp.gamma * transition @ v
        v = np.array(
            [
                sum(p * choose(q[s, list(actions)]) for actions, p in law.items())
                for s, law in enumerate(laws)
            ]
        )
        v[mdp.is_terminal] = 0.0
    return v
