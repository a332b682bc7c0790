"""Shut the Box: a game of dice in which a throw decides the legal moves."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import gymnasium as gym
import numpy as np
from jaxtyping import Bool, Int
from numpy.random import Generator

from sas_gym._arguments import check_integer
from sas_gym._types import Ints, Mask
from sas_gym.action_sets import Outcomes
from sas_gym.tasks._task import Actions, Rewards, States, Task, Terminations

if TYPE_CHECKING:
    from sas_gym.tasks._tabular import TabularSASMDP

MAX_SUM = 12
"""Largest throw of two dice."""
CHOOSING, ONE_DIE, TWO_DICE = 0, 1, 2
"""Phases of the game with one die: choosing the dice, and each choice thrown."""
# The 36 throws: the first die, the second one.
THROWS = np.stack(np.divmod(np.arange(36), 6), axis=1) + 1


class ShutTheBox(Task):
    """Shut numbered tiles that add up to the throw of two dice, until none fits.

    ## Description
    Tiles 1 to 9 stand open. Two dice are thrown, and the player shuts open tiles that
    add up to the throw, in any combination. Then the dice are thrown again. Who shuts
    the last tile wins; who finds no tiles that fit gives up. The throw decides which
    moves there are, and a move's effect depends on the tiles alone: so the state is the
    tiles, without the dice.

    ## Action Space
    `Discrete(64)`: the 63 sets of tiles with a sum of at most 12, in the order of their
    bits (bit i is tile i + 1), and then to give up. With `one_die=True` two actions
    more: one die, two dice.

    ## Action Sets
    The sets of open tiles whose sum is the throw; to give up if there are none. With
    `one_die=True`, whenever every tile from 7 up is shut, the player first chooses
    between one die and two: only these two actions are available then.

    ## Observation Space
    The tiles, `Discrete(512)`: bit i is 1 while tile i + 1 is open; and the mask.
    With `one_die=True`, `Discrete(1536)`: phase * 512 + tiles, where the phase is 0
    while choosing the dice, 1 with one die and 2 with two dice thrown.

    ## Rewards
    1 for shutting the last tile, else 0 (`objective="win"`); or minus the sum of the
    open tiles when giving up, else 0 (`"score"`).

    ## Starting State
    All tiles open.

    ## Episode End
    Terminated when the last tile is shut, or when the player gives up.

    ## Information
    * `action_mask`: the action set as int8, 1 where an action is available.
    * In vector form also `_action_mask` and, when an episode has ended, `final_obs`,
      `_final_obs`, `final_info` and `_final_info`: see `SASVectorEnv`.

    ## Arguments
    * `num_tiles` (default 9), at most 20.
    * `objective` (`"win"`): `"win"` or `"score"`.
    * `one_die` (`False`): whether one may throw a single die when every tile from 7 up
      is shut.

    ## Optimal Value
    The probability to win is 0.071432 with 9 tiles, 0.040438 with 10 and 0.003622 with
    12; with 9 tiles and `one_die=True` 0.097614. The best mean score is -11.157508 with
    9 tiles (-11.009209 with `one_die=True`) and -16.645721 with 10. Random play wins
    with the probability 0.020393 and scores -20.418812 (9 tiles).

    ## References
    A traditional game. The form, a state without the dice, follows Boutilier, Cohen,
    Hassidim, Mansour, Meshi, Mladenov and Schuurmans (2018), "Planning and Learning
    with Stochastic Action Sets", IJCAI.

    ## Version History
    * v0: First release.
    """

    behaviour_version: ClassVar[int] = 1
    num_states: int
    always_ends = True
    rules_decide = True

    def __init__(
        self,
        num_tiles: int = 9,
        *,
        objective: Literal["win", "score"] = "win",
        one_die: bool = False,
    ) -> None:
        check_integer("num_tiles", num_tiles, least=1)
        if num_tiles > 20:
            raise ValueError(f"num_tiles must be at most 20, got {num_tiles}")
        if objective not in ("win", "score"):
            raise ValueError(f"objective must be 'win' or 'score', got {objective!r}")
        self.num_tiles, self.objective, self.one_die = num_tiles, objective, one_die
        self.all_open = 2**num_tiles - 1
        self.tile_sets, self.sums = _tile_sets(num_tiles)
        """The tiles that each of the first actions shuts, as bits, and their sum."""
        self.give_up = len(self.tile_sets)
        """The action to give up; after it come one die and two dice."""
        self.num_actions = self.give_up + (3 if one_die else 1)
        self.num_states = 2**num_tiles * (3 if one_die else 1)
        self.observation_space = gym.spaces.Discrete(self.num_states)
        self.action_sets = Outcomes(np.full(36, 1 / 36), self.available)
        self._actions = np.arange(self.num_actions)
        self._shuts = np.append(self.tile_sets, [0, 0, 0])

    def reset(self, num_envs: int, rng: Generator) -> States:
        """Open all tiles."""
        return self._thrown(np.full(num_envs, self.all_open))

    def transition(
        self, state: States, action: Actions, rng: Generator
    ) -> tuple[States, Rewards, Terminations]:
        """Shut the tiles, give up or choose the dice."""
        left = self.tiles(state) & ~self._shuts[action]
        chosen = left + (action - self.give_up << self.num_tiles)
        next_state = np.where(action > self.give_up, chosen, self._thrown(left))
        gives_up = action == self.give_up
        if self.objective == "win":
            reward = (left == 0) * 1.0
        else:
            reward = np.where(gives_up, -self.open_sum(left), 0.0)
        return next_state, reward, gives_up | (left == 0)

    def available(self, state: States, outcome: Int[Ints, " N"]) -> Bool[Mask, "N A"]:
        """Return the moves that a throw of the dice leaves in each state.

        Args:
            state: The states.
            outcome: Numbers of the throws, of the 36 throws of two dice.
        """
        throw = THROWS[outcome]
        total = np.where(self.phase(state) == ONE_DIE, throw[:, 0], throw.sum(axis=1))
        fits = self.is_open(state) & (self.sums == total[:, None])
        mask = np.zeros((len(state), self.num_actions), dtype=bool)
        mask[:, : self.give_up] = fits
        mask[:, self.give_up] = ~fits.any(axis=1)
        if self.one_die:
            is_choosing = self.phase(state) == CHOOSING
            mask[is_choosing] = self._actions > self.give_up
        return mask

    def tiles(self, state: States) -> Int[Ints, " N"]:
        """Return the open tiles as bits."""
        tiles: Ints = state & self.all_open
        return tiles

    def phase(self, state: States) -> Int[Ints, " N"]:
        """Return the phase of each state: which dice are thrown, if any."""
        if not self.one_die:
            return np.full(len(state), TWO_DICE)
        phase: Ints = state >> self.num_tiles
        return phase

    def is_open(self, state: States) -> Bool[Mask, "N K"]:
        """Return which sets of tiles are wholly open."""
        shut = ~self.tiles(state)
        is_open: Mask = (self.tile_sets & shut[:, None]) == 0
        return is_open

    def open_sum(self, tiles: Int[Ints, " N"]) -> Int[Ints, " N"]:
        """Return the sums of open tiles."""
        numbers = np.arange(self.num_tiles)
        is_open = tiles[:, None] >> numbers & 1
        return is_open @ (numbers + 1)

    @property
    def action_names(self) -> Sequence[str]:
        """Names of the actions."""
        sets = [bits(row) for row in self.tile_sets.tolist()]
        names = ["shut " + " + ".join(map(str, tiles)) for tiles in sets]
        return [*names, "give up", *(["one die", "two dice"] if self.one_die else [])]

    def describe(self, state: Any) -> str:
        """Return the open tiles in words."""
        tiles = bits(int(state) & self.all_open)
        text = f"open: {' '.join(map(str, tiles))}" if tiles else "all shut"
        is_choosing = self.one_die and int(state) >> self.num_tiles == CHOOSING
        return f"{text}, choosing the dice" if is_choosing else text

    def tabular(self) -> "TabularSASMDP":
        """Return the moves as arrays; the dice are in the action sets."""
        from sas_gym.tasks._tabular import TabularSASMDP  # SciPy loads on first use

        states = np.arange(self.num_states)
        possible = np.ones((self.num_states, self.num_actions), dtype=bool)
        possible[:, : self.give_up] = self.is_open(states)
        is_choosing = self.phase(states) == CHOOSING
        possible &= (self._actions > self.give_up) == is_choosing[:, None]
        all_shut = np.flatnonzero(self.tiles(states) == 0)
        return TabularSASMDP.from_moves(self, possible, all_shut)

    def _thrown(self, tiles: Int[Ints, " N"]) -> Int[Ints, " N"]:
        """Return the states in which the next throw is made, or the dice are chosen."""
        if not self.one_die:
            return tiles
        may_choose = (tiles >> 6 == 0) & (tiles > 0)
        phase = np.where(may_choose, CHOOSING, TWO_DICE)
        thrown: Ints = tiles + (phase << self.num_tiles)
        return thrown


def bits(number: int) -> list[int]:
    """Return the tiles of a set, counted from 1."""
    return [tile + 1 for tile in range(number.bit_length()) if number >> tile & 1]


def _tile_sets(num_tiles: int) -> tuple[Int[Ints, " K"], Int[Ints, " K"]]:
    """Return the sets of tiles that a throw can shut, as bits, and their sums."""
    sums = np.zeros(1, dtype=np.int64)
    for tile in range(1, num_tiles + 1):
        sums = np.concatenate([sums, sums + tile])
    numbers = np.flatnonzero((sums > 0) & (sums <= MAX_SUM))
    return numbers, sums[numbers]
