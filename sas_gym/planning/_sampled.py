"""Planning with any law, by sets sampled from it, at a stated error."""

from typing import NamedTuple

import numpy as np

from sas_gym.action_sets import Floats, Mask
from sas_gym.action_sets._confined import Confined
from sas_gym.planning._action_probs import best_action_probs
from sas_gym.planning._bellman import Solution, discounted_sums
from sas_gym.planning._sampled_sets import SampledSets
from sas_gym.planning._tabular import TabularSASMDP


def sampled(mdp: TabularSASMDP, num_sets: int, seed: int = 0) -> TabularSASMDP:
    """Replace an MDP's law by sets drawn from it, independently in every state.

    Every planner then works with any law. `sampling_error` tells how far the values are
    from those under the law itself.

    Args:
        mdp: The MDP, with any law of the action sets.
        num_sets: Number K of sets drawn a state.
        seed: Seed of the draw.
    """
    if num_sets < 2:
        raise ValueError(f"num_sets must be at least 2, got {num_sets}")
    law, size = mdp.action_sets, mdp.num_states * num_sets
    row = np.random.default_rng(seed).random((size, law.num_uniforms(mdp.num_actions)))
    state = np.repeat(np.arange(mdp.num_states), num_sets)
    masks = law.sets_from(row, state)
    shape = (mdp.num_states, num_sets, mdp.num_actions)
    return mdp.replace(action_sets=SampledSets(masks.reshape(shape)))


class SamplingError(NamedTuple):
    """Standard errors that come from sampling the sets."""

    values: Floats
    """Of each state's value, [S]."""
    mean_return: float
    """Of the mean value of the start."""


def sampling_error(mdp: TabularSASMDP, solution: Solution) -> SamplingError:
    """Return how far a solution with sampled sets is from that of the law itself.

    To first order an error of the backup in one state counts in another as often as
    one will be in the former. So what the k-th sets of all states gain is summed up
    from every state, and the spread over k tells the standard error. Beside it a
    maximum over samples is biased upwards, by an amount of the order of 1 / K.

    Args:
        mdp: What `sampled` returned, without a horizon.
        solution: Its solution.
    """
    law = mdp.action_sets
    law = law.law if isinstance(law, Confined) else law
    if not isinstance(law, SampledSets):
        raise ValueError(f"the sets are not sampled: the law is {type(law).__name__}")
    if mdp.horizon is not None:
        raise ValueError("the sampling error is that of an infinite horizon")
    q = solution.q_values
    gains = _best(law.masks, q)
    sums = discounted_sums(
        mdp, best_action_probs(law, q), gains - gains.mean(1, keepdims=True)
    )
    scale = np.sqrt(law.masks.shape[1])
    of_start = mdp.initial_distribution @ sums
    return SamplingError(
        sums.std(axis=1, ddof=1) / scale, float(of_start.std(ddof=1) / scale)
    )


def _best(masks: Mask, q: Floats) -> Floats:
    """Best value in each set, masks [S, K, A] and q [S, A] to [S, K]."""
    best: Floats = np.where(masks, q[:, None], -np.inf).max(axis=2)
    return best
