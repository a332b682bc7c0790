"""Replayable draws: the action sets of many environments, step by step."""

import numpy as np
from jaxtyping import Bool, Float, Int, UInt64

from sas_gym._types import ALL_ENVS, EnvIndex, Floats, Ints, Mask, Words
from sas_gym.action_sets._base import ActionSets

# Odd constants of well-known generators (SplitMix64, LXM): strides of a counter along
# three axes that do not meet.
_PER_SLOT = np.uint64(0x9E3779B97F4A7C15)
_PER_STEP = np.uint64(0xD1342543DE82EF95)
_PER_EPISODE = np.uint64(0xAF251AF3B0F025B5)
# Keeps the sets' randomness apart from that of `np_random` under the same seed.
_SPAWN_KEY = (0x5E75,)
# Shifts and factors of SplitMix64's finaliser (Stafford's variant 13). As arrays, as
# NumPy takes half as long again over a scalar.
_SHIFTS = tuple(np.array(bits, dtype=np.uint64) for bits in (30, 27, 31, 11))
_FACTORS = tuple(
    np.array(factor, dtype=np.uint64)
    for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_UNIT = np.array(2.0**-53)


class ActionSetSampler:
    """The action sets of N environments, with a random stream of their own.

    The uniforms behind a set are a hash of (seed, environment, episode, step) and
    nothing else, so the sets do not depend on what was done: two policies run with one
    seed meet the same draws at the same step of the same episode, however long their
    episodes are.

    Args:
        action_sets: The distribution of the sets.
        num_actions: Size of the base action set.
        num_envs: Number N of environments.
    """

    def __init__(
        self, action_sets: ActionSets, num_actions: int, num_envs: int
    ) -> None:
        self.action_sets = action_sets
        self._slots = np.arange(action_sets.num_uniforms(num_actions), dtype=np.uint64)
        self._slots *= _PER_SLOT
        # Few uniforms are hashed for many steps at once: NumPy's overhead is per call.
        depth = min(max(2048 // (num_envs * len(self._slots)), 1), 16)
        self._ahead = np.arange(depth, dtype=np.uint64)[:, None] * _PER_STEP
        self._block = np.empty((depth, num_envs, len(self._slots)))
        self._cursor = 0
        self._episode = np.zeros(num_envs, dtype=np.uint64)
        self._counter = np.zeros(num_envs, dtype=np.uint64)
        self._uniforms = np.empty((num_envs, len(self._slots)))
        self._draws_ahead = action_sets.is_same_in_every_state
        # Of the block, once drawn: as many sets in one call as there are uniforms.
        self._sets: Mask | None = None

    def seed(self, seed: int | None) -> None:
        """Restart every environment's stream, from a seed or the system's entropy."""
        sequence = np.random.SeedSequence(seed, spawn_key=_SPAWN_KEY)
        self._episode[:] = sequence.generate_state(len(self._episode), np.uint64)

    def reset_at(
        self,
        envs: EnvIndex,
        state: Int[Ints, " B"] | None,
        possible: Bool[Mask, "B A"] | None,
    ) -> Bool[Mask, "B A"]:
        """Draw the first sets of new episodes in some environments."""
        self._episode[envs] = episode = self._episode[envs] + _PER_EPISODE
        self._counter[envs] = counter = episode - self._ahead[self._cursor]
        self._block[:, envs] = block = self._hash(counter)
        if self._draws_ahead and possible is None:
            sets: Mask = self._sets_of(block)
            if envs is ALL_ENVS:
                self._sets = sets
            elif self._sets is not None:
                self._sets[:, envs] = sets
            first: Mask = sets[self._cursor]
            return first
        self._uniforms[envs] = uniforms = block[self._cursor]
        return self.action_sets.sets_from(uniforms, state, possible)

    def advance(
        self,
        state: Int[Ints, " N"] | None,
        possible: Bool[Mask, "N A"] | None,
    ) -> Bool[Mask, "N A"]:
        """Draw the next set of every environment."""
        self._cursor += 1
        if self._cursor == len(self._block):
            self._cursor = 0
            self._counter += self._ahead[-1] + _PER_STEP
            self._block = self._hash(self._counter)
            self._sets = None
        if self._draws_ahead and possible is None:
            if self._sets is None:
                self._sets = self._sets_of(self._block)
            drawn: Mask = self._sets[self._cursor]
            return drawn
        self._uniforms = self.action_sets.next_uniforms(
            self._uniforms, self._block[self._cursor]
        )
        return self.action_sets.sets_from(self._uniforms, state, possible)

    def _sets_of(self, block: Float[Floats, "D B U"]) -> Bool[Mask, "D B A"]:
        """Draw the sets of some environments for D steps, in no particular state."""
        uniforms = block.reshape(-1, block.shape[-1])
        sets = self.action_sets.sets_from(uniforms, None, None)
        return sets.reshape(*block.shape[:-1], -1)

    def _hash(self, counter: UInt64[Words, " B"]) -> Float[Floats, "D B U"]:
        """Return the uniforms of some environments, D steps from a counter on."""
        return hashed_uniforms((self._ahead + counter)[..., None] + self._slots)


def hashed_uniforms(counter: UInt64[Words, "*B"]) -> Float[Floats, "*B"]:
    """Hash counters, in place, to numbers uniform on [0, 1).

    NumPy's own generators hand out a stream in order. What is addressed by environment,
    episode and step has to be found by its place instead, which is what the finaliser
    of SplitMix64 does (Steele, Lea and Flood, 2014; Stafford's variant 13).
    """
    counter ^= counter >> _SHIFTS[0]
    counter *= _FACTORS[0]
    counter ^= counter >> _SHIFTS[1]
    counter *= _FACTORS[1]
    counter ^= counter >> _SHIFTS[2]
    numbers: Floats = (counter >> _SHIFTS[3]) * _UNIT
    return numbers
