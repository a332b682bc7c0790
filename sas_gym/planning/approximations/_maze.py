"""The maze on a grid: an approximation that the exact planners solve."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from scipy import sparse

from sas_gym._types import Floats, Ints, Mask
from sas_gym.planning._bellman import Solution
from sas_gym.tasks._maze import Maze, inside
from sas_gym.tasks._tabular import TabularSASMDP

# Keeps the weights of a point between nodes that are all but one missing from 0 / 0.
_TINY = 1e-9
_CHUNK = 1_000_000


@dataclass(frozen=True)
class MazeGrid:
    """The centres of square cells over the maze, and values between them.

    Args:
        maze: The maze.
        num_cells: Number of cells along each side.
    """

    maze: Maze
    num_cells: int

    @property
    def nodes(self) -> Float[Floats, "C 2"]:
        """Centres of all cells, row by row."""
        ticks = (np.arange(self.num_cells) + 0.5) / self.num_cells
        return np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=-1).reshape(
            -1, 2
        )

    @property
    def is_state(self) -> Bool[Mask, " C"]:
        """Which centres lie in no wall and not in the goal."""
        return self.maze.is_free(self.nodes) & ~inside(self.nodes, self.maze.goal)

    def weights(self, position: Float[Floats, "N 2"]) -> sparse.csr_array:
        """Interpolate bilinearly between the states around positions.

        What is in a wall or in the goal gets no weight, so nothing leaks through.

        Returns:
            A sparse matrix with one row per position and one column per state.
        """
        is_state = self.is_state
        number = np.where(is_state, np.cumsum(is_state) - 1, 0)
        cell = np.clip(position * self.num_cells - 0.5, 0, self.num_cells - 1)
        low = np.minimum(cell.astype(np.int64), self.num_cells - 2)
        share = cell - low
        columns, weights = [], []
        for corner in ((0, 0), (0, 1), (1, 0), (1, 1)):
            node = (low + corner) @ (self.num_cells, 1)
            weight = np.where(corner, share, 1 - share).prod(axis=1) + _TINY
            columns.append(number[node])
            weights.append(np.where(is_state[node], weight, 0.0))
        table = np.stack(weights, axis=1)
        table /= table.sum(axis=1, keepdims=True)
        rows = np.repeat(np.arange(len(position)), 4)
        entries = (table.ravel(), (rows, np.stack(columns, axis=1).ravel()))
        matrix = sparse.csr_array(entries, shape=(len(position), int(is_state.sum())))
        matrix.eliminate_zeros()
        return matrix

    def tabular(self, num_samples: int, seed: int) -> TabularSASMDP:
        """Return the maze between the centres, with sampled noise.

        From every centre and for every action, as many next positions are drawn from
        the maze itself. Arrival is the last state, which is terminal.

        Args:
            num_samples: Number of draws per state and action.
            seed: Seed of the draws.
        """
        states = self.nodes[self.is_state]
        num_states, num_actions = len(states) + 1, self.maze.num_actions
        rng = np.random.default_rng(seed)
        pairs = np.arange(len(states) * num_actions)
        parts = np.array_split(pairs, 1 + len(pairs) * num_samples // _CHUNK)
        blocks = [self._sampled_rows(states, part, num_samples, rng) for part in parts]
        matrix = sparse.vstack([rows for rows, _ in blocks])
        arrival = np.concatenate([probs for _, probs in blocks])
        reward = np.zeros((num_states, num_actions))
        reward[:-1] = (self.maze.step_reward + self.maze.goal_reward * arrival).reshape(
            -1, num_actions
        )
        start = self.weights(self.maze.start[None]).toarray()[0]
        return TabularSASMDP(
            _with_terminal_state(matrix, arrival, num_actions),
            reward,
            self.maze.action_sets.fit(self.maze),
            initial_distribution=np.append(start, 0.0),
            terminal_states=[num_states - 1],
        )

    def _sampled_rows(
        self,
        states: Float[Floats, "S 2"],
        pair: Int[Ints, " B"],
        num_samples: int,
        rng: np.random.Generator,
    ) -> tuple[sparse.csr_array, Float[Floats, " B"]]:
        """Return weights of next states and probabilities of arrival of some pairs."""
        state, action = np.divmod(np.repeat(pair, num_samples), self.maze.num_actions)
        position, _, arrived = self.maze.transition(states[state], action, rng)
        # A robot that has arrived counts as arrived alone: any position will do.
        position[arrived] = self.maze.start
        row = np.repeat(np.arange(len(pair)), num_samples)
        entries = (np.where(arrived, 0.0, 1 / num_samples), (row, np.arange(len(row))))
        average = sparse.csr_array(entries, shape=(len(pair), len(row)))
        arrival = arrived.reshape(len(pair), num_samples).mean(axis=1)
        return average @ self.weights(position), arrival


class GridPolicy:
    """Acts in the maze by action values on a grid, interpolated.

    Args:
        grid: The grid.
        solution: A solution of its tabular form with a horizon: the action values of
            its first step are used throughout, as the end is far when it matters.
    """

    def __init__(self, grid: MazeGrid, solution: Solution) -> None:
        self._grid = grid
        self._q_values = solution.q_values[0, :-1]

    def __call__(
        self, observation: Any, action_mask: NDArray[np.int8]
    ) -> Int[Ints, " N"]:
        """Return the best available actions."""
        position = observation["observation"].astype(np.float64)
        q = self._grid.weights(position) @ self._q_values
        actions: Ints = np.where(action_mask, q, -np.inf).argmax(axis=1)
        return actions


def _with_terminal_state(
    matrix: sparse.csr_array, arrival: Float[Floats, " B"], num_actions: int
) -> sparse.csr_array:
    """Add a last state, which is never left, to the transitions of all pairs."""
    column = sparse.csr_array(arrival[:, None])
    stay = sparse.csr_array(np.ones((num_actions, 1)))
    return sparse.block_array([[matrix, column], [None, stay]], format="csr")
