"""Replayable draws: the action sets of many lanes, step by step."""

import numpy as np
from numpy.typing import NDArray

from sas_gym.action_sets import ActionSets, Floats, Ints, Mask
from sas_gym.action_sets._uniforms import Words, uniforms

EnvIndex = NDArray[np.intp] | slice
ALL_ENVS = slice(None)

# Odd constants of well-known generators (SplitMix64, LXM): strides of a counter along
# three axes that do not meet.
_PER_SLOT = np.uint64(0x9E3779B97F4A7C15)
_PER_STEP = np.uint64(0xD1342543DE82EF95)
_PER_EPISODE = np.uint64(0xAF251AF3B0F025B5)
# Keeps the sets' randomness apart from that of `np_random` under the same seed.
_SPAWN_KEY = (0x5E75,)


class ActionSetSampler:
    """The action sets of N lanes, with a random stream of their own.

    The uniforms behind a set are a hash of (seed, lane, episode, step) and nothing
    else, so the sets do not depend on what was done: two policies run with one seed
    meet the same draws at the same step of the same episode, however long their
    episodes are.

    Args:
        law: The law of the sets.
        num_actions: Size of the base action set.
        num_envs: Number N of lanes.
    """

    def __init__(self, law: ActionSets, num_actions: int, num_envs: int) -> None:
        self.law = law
        self._slots = np.arange(law.num_uniforms(num_actions), dtype=np.uint64)
        self._slots *= _PER_SLOT
        # Few uniforms are hashed for many steps at once: NumPy's overhead is per call.
        depth = min(max(2048 // (num_envs * len(self._slots)), 1), 16)
        self._ahead = np.arange(depth, dtype=np.uint64)[:, None] * _PER_STEP
        self._block = np.empty((depth, num_envs, len(self._slots)))
        self._cursor = 0
        self._episode = np.zeros(num_envs, dtype=np.uint64)
        self._counter = np.zeros(num_envs, dtype=np.uint64)
        self._row = np.empty((num_envs, len(self._slots)))

    def seed(self, seed: int | None) -> None:
        """Start all lanes anew, from a seed or from the system's entropy."""
        sequence = np.random.SeedSequence(seed, spawn_key=_SPAWN_KEY)
        self._episode[:] = sequence.generate_state(len(self._episode), np.uint64)

    def reset_at(
        self, lanes: EnvIndex, state: Ints | None, possible: Mask | None
    ) -> Mask:
        """Draw the first sets of new episodes in some lanes, [len(lanes), A]."""
        self._episode[lanes] = episode = self._episode[lanes] + _PER_EPISODE
        self._counter[lanes] = counter = episode - self._ahead[self._cursor]
        self._block[:, lanes] = block = self._hash(counter)
        self._row[lanes] = row = block[self._cursor]
        return self.law.sets_from(row, state, possible)

    def advance(self, state: Ints | None, possible: Mask | None) -> Mask:
        """Draw the next set of every lane, [N, A]."""
        self._cursor += 1
        if self._cursor == len(self._block):
            self._cursor = 0
            self._counter += self._ahead[-1] + _PER_STEP
            self._block = self._hash(self._counter)
        self._row = self.law.next_uniforms(self._row, self._block[self._cursor])
        return self.law.sets_from(self._row, state, possible)

    def _hash(self, counter: Words) -> Floats:
        """Return the uniforms of some lanes from a counter on, [depth, lanes, U]."""
        return uniforms((self._ahead + counter)[..., None] + self._slots)
