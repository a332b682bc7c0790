"""Replayable draws: the action sets of many environments, step by step."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, UInt64
from numpy.typing import NDArray

from sas_gym._types import EnvIndex, Floats, Mask, Words
from sas_gym.action_sets._base import ActionSets, States

# Odd constants of well-known generators (SplitMix64, LXM): strides of a counter along
# three axes that do not meet.
_PER_SLOT = np.uint64(0x9E3779B97F4A7C15)
_PER_STEP = np.uint64(0xD1342543DE82EF95)
_PER_EPISODE = np.uint64(0xAF251AF3B0F025B5)
# Keeps the sets' randomness apart from that of `np_random` under the same seed.
_SPAWN_KEY = (0x5E75,)
# Shifts and factors of SplitMix64's finaliser (Stafford's variant 13), and a last shift
# to the 52 bits of a fraction. As arrays, as NumPy takes half as long again over a
# scalar.
_SHIFTS = tuple(np.array(bits, dtype=np.uint64) for bits in (30, 27, 31, 12))
_FACTORS = tuple(
    np.array(factor, dtype=np.uint64)
    for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_ONE = np.array(1.0)
# Few uniforms are hashed many steps ahead, as NumPy's overhead is per call: 8 to 16
# steps, if these are at most 2048 uniforms. With more of them episodes start at almost
# every step, and hashing their first sets with the others' next ones saves more.
_STEPS_AHEAD = (8, 16)
_MAX_WORDS_AHEAD = 2048
# Very many are hashed in parts that stay in the cache: 100,000 are 4 times faster.
_MAX_WORDS_AT_ONCE = 16_384


class ActionSetSampler:
    """The action sets of N environments, with a random stream of their own.

    The uniforms behind a set are a hash of (seed, environment, episode, step) and
    nothing else, so the sets do not depend on past actions: two policies run with one
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
        depth = _MAX_WORDS_AHEAD // (num_envs * len(self._slots))
        least, most = _STEPS_AHEAD
        depth = min(depth, most) if depth >= least else 1
        self._ahead = np.arange(depth, dtype=np.uint64)[:, None] * _PER_STEP
        self._cursor = 0
        self._episode = np.zeros(num_envs, dtype=np.uint64)
        self._counter = np.zeros(num_envs, dtype=np.uint64)
        self._block: Floats = np.empty((depth, num_envs, len(self._slots)))
        self._draws_ahead = depth > 1 and action_sets.is_same_in_every_state
        # Of the block, once drawn: as many sets in one call as there are uniforms.
        self._sets: Mask | None = None
        self._has_memory = not action_sets.is_sas_mdp
        self._uniforms = np.empty((num_envs, len(self._slots)))

    def seed(self, seed: int | Sequence[int] | None) -> None:
        """Restart every environment's stream.

        Args:
            seed: One seed for all; or one per environment, each of which then draws as
                it would alone; or `None` for the system's entropy.
        """
        if isinstance(seed, Sequence):
            self._episode[:] = [_stream_starts(each, 1)[0] for each in seed]
        else:
            self._episode[:] = _stream_starts(seed, len(self._episode))

    def reset_at(
        self,
        envs: EnvIndex,
        state: States | None,
        possible: Bool[Mask, "B A"] | None,
    ) -> Bool[Mask, "B A"]:
        """Draw the first sets of new episodes in some environments."""
        self._start_episodes(envs)
        if self._draws_ahead and possible is None:
            first: Mask = self._sets_ahead()[envs]
            return first
        uniforms = self._block[0, envs]
        if self._has_memory:
            self._uniforms[envs] = uniforms
        return self.action_sets.sets_from(uniforms, state, possible)

    def advance(
        self,
        state: States | None,
        possible: Bool[Mask, "B A"] | None,
        restarted: NDArray[np.intp] | None = None,
    ) -> Bool[Mask, "B A"]:
        """Draw the next set of every environment, and the first of new episodes.

        Args:
            state: Each environment's state, and then each new episode's.
            possible: Actions that each state has; `None` for all actions.
            restarted: Environments in which a new episode starts.

        Returns:
            One set per environment, and then one per new episode.
        """
        if len(self._block) == 1:
            uniforms = self._hash_step(restarted)
        else:
            draws_ahead = self._draws_ahead and possible is None
            rows = self._rows_of_block(draws_ahead, restarted)
            if draws_ahead:
                drawn: Mask = rows
                return drawn
            uniforms = rows
        if self._has_memory:
            uniforms = self._remembered(uniforms, restarted)
        return self.action_sets.sets_from(uniforms, state, possible)

    def uniforms(self) -> Float[Floats, "N U"]:
        """Return the uniforms behind the current sets, once more."""
        if self._has_memory:
            return self._uniforms
        return hashed_rows(self._counter + self._ahead[self._cursor], self._slots)

    def _hash_step(self, restarted: NDArray[np.intp] | None) -> Float[Floats, "B U"]:
        """Return the uniforms of the next step, and of the new episodes' first ones."""
        self._counter += _PER_STEP
        counter = self._counter
        if restarted is not None:
            episode = self._next_episode(restarted)
            counter = np.concatenate([counter, episode])
            self._counter[restarted] = episode
        return hashed_rows(counter, self._slots)

    def _rows_of_block(
        self, draws_ahead: bool, restarted: NDArray[np.intp] | None
    ) -> NDArray[Any]:
        """Return the next step's uniforms or sets, and the ones of new episodes."""
        self._cursor += 1
        if self._cursor == len(self._block):
            self._counter += self._ahead[-1] + _PER_STEP
            self._hash_block()
        rows = self._sets_ahead() if draws_ahead else self._block[self._cursor]
        if restarted is None:
            return rows
        self._start_episodes(restarted)
        first = self._sets_ahead() if draws_ahead else self._block[0]
        return np.concatenate([rows, first.take(restarted, axis=0)])

    def _remembered(
        self, fresh: Float[Floats, "B U"], restarted: NDArray[np.intp] | None
    ) -> Float[Floats, "B U"]:
        """Return the uniforms that a distribution makes of its last and fresh ones."""
        num_envs = len(self._uniforms)
        running, first = fresh[:num_envs], fresh[num_envs:]
        self._uniforms = self.action_sets.next_uniforms(self._uniforms, running)
        if restarted is None:
            return self._uniforms
        uniforms = np.concatenate([self._uniforms, first])
        self._uniforms = self._uniforms.copy()
        self._uniforms[restarted] = first
        return uniforms

    def _next_episode(self, envs: EnvIndex) -> UInt64[Words, " B"]:
        """Return the counters at which new episodes start."""
        episode = self._episode[envs] + _PER_EPISODE
        self._episode[envs] = episode
        return episode

    def _start_episodes(self, envs: EnvIndex) -> None:
        """Start new episodes in some environments, and a block at the current step."""
        self._counter += self._ahead[self._cursor]
        self._counter[envs] = self._next_episode(envs)
        self._hash_block()

    def _hash_block(self) -> None:
        """Hash the next steps of every environment, from the counters on."""
        counters = (self._ahead + self._counter).reshape(-1)
        self._block = hashed_rows(counters, self._slots).reshape(self._block.shape)
        self._cursor, self._sets = 0, None

    def _sets_ahead(self) -> Bool[Mask, "N A"]:
        """Return the sets at the cursor, drawn for the whole block at once."""
        if self._sets is None:
            uniforms = self._block.reshape(-1, len(self._slots))
            sets = self.action_sets.sets_from(uniforms, None, None)
            self._sets = sets.reshape(*self._block.shape[:2], -1)
        drawn: Mask = self._sets[self._cursor]
        return drawn


def _stream_starts(seed: int | None, num_envs: int) -> UInt64[Words, " N"]:
    """Return where the streams of a seed's environments start."""
    sequence = np.random.SeedSequence(seed, spawn_key=_SPAWN_KEY)
    return sequence.generate_state(num_envs, np.uint64).astype(np.uint64, copy=False)


def hashed_rows(
    counter: UInt64[Words, " B"], slots: UInt64[Words, " U"]
) -> Float[Floats, "B U"]:
    """Return the uniforms in each slot from each counter on."""
    num_rows = max(_MAX_WORDS_AT_ONCE // len(slots), 1)
    if len(counter) <= num_rows:
        return hashed_uniforms(counter[:, None] + slots)
    uniforms = np.empty((len(counter), len(slots)))
    for first in range(0, len(counter), num_rows):
        part = slice(first, first + num_rows)
        uniforms[part] = hashed_uniforms(counter[part, None] + slots)
    return uniforms


def hashed_uniforms(counter: UInt64[Words, "*B"]) -> Float[Floats, "*B"]:
    """Hash counters, in place, to numbers uniform on [0, 1).

    NumPy's own generators hand out a stream in order. A number that belongs to an
    environment, an episode and a step has to be found by its place: the finaliser of
    SplitMix64 does so (Steele, Lea and Flood, 2014; Stafford's variant 13).
    """
    counter ^= counter >> _SHIFTS[0]
    counter *= _FACTORS[0]
    counter ^= counter >> _SHIFTS[1]
    counter *= _FACTORS[1]
    counter ^= counter >> _SHIFTS[2]
    # The bits of a number on [1, 2): to convert an integer takes twice as long.
    counter >>= _SHIFTS[3]
    counter |= _ONE.view(np.uint64)
    numbers: Floats = counter.view(np.float64)
    numbers -= _ONE
    return numbers
