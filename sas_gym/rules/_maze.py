"""The rule for the maze."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from sas_gym._types import Floats, Ints, Mask
from sas_gym.rules._rule import Rule, rules_of
from sas_gym.tasks._maze import Maze, inside

NUM_CELLS = 100
"""Cells along each side of the grid on which distances are measured."""

# The eight neighbours of a cell, and how far away they are.
_SHIFTS = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]


def shortest_way(task: Maze) -> Rule:
    """Switch on the actuator that ends closest to the goal, on the way round the walls.

    An actuator is judged by the end of its push without noise, and the distance is
    measured on a fine grid along free cells.

    Args:
        task: A maze.
    """
    distance = _distances(task)
    reach = task.step_length * np.arange(1, task.num_micro_steps + 1)
    pushes = task.directions[:, None] * reach[:, None]

    def preferences(position: Floats) -> Float[Floats, "N A"]:
        points = np.asarray(position, dtype=np.float64)[:, None, None] + pushes
        flat = points.reshape(-1, 2)
        free = task.is_free(flat).reshape(points.shape[:-1])
        stays = np.logical_and.accumulate(free, axis=2)
        cell = _cells(flat).reshape(*points.shape)
        # In the goal a push ends at once; blocked, it ends at the point before.
        at = np.where(stays, distance[cell[..., 0], cell[..., 1]], np.inf)
        at_goal = stays & inside(flat, task.goal).reshape(free.shape)
        last = np.maximum(stays.sum(axis=2) - 1, 0)
        end = np.take_along_axis(at, last[..., None], axis=2)[..., 0]
        negative: Floats = -np.where(at_goal.any(axis=2), 0.0, end)
        return negative

    return Rule("shortest_way", preferences)


@rules_of.register
def _(task: Maze) -> Sequence[Rule]:
    return (shortest_way(task),)


def _cells(position: Float[Floats, "N 2"]) -> Int[Ints, "N 2"]:
    """Return the cell of each position; positions outside belong to the rim."""
    return np.clip((position * NUM_CELLS).astype(np.int64), 0, NUM_CELLS - 1)


def _distances(task: Maze) -> Float[Floats, "C C"]:
    """Return the length of the shortest way from each cell to the goal."""
    middles = (np.arange(NUM_CELLS) + 0.5) / NUM_CELLS
    centres = np.stack(np.meshgrid(middles, middles, indexing="ij"), axis=-1)
    flat = centres.reshape(-1, 2)
    is_free: Bool[Mask, "C C"] = task.is_free(flat).reshape(NUM_CELLS, NUM_CELLS)
    distance = np.full(is_free.shape, np.inf)
    goal = _cells(task.goal.reshape(2, 2).mean(axis=1)[None])[0]
    distance[inside(flat, task.goal).reshape(is_free.shape)] = 0.0
    distance[tuple(goal)] = 0.0
    while True:
        padded = np.pad(distance, 1, constant_values=np.inf)
        steps = [
            padded[1 + i : NUM_CELLS + 1 + i, 1 + j : NUM_CELLS + 1 + j]
            + np.hypot(i, j) / NUM_CELLS
            for i, j in _SHIFTS
        ]
        nearer = np.minimum(distance, np.min(steps, axis=0))
        nearer[~is_free] = distance[~is_free]
        if np.array_equal(nearer, distance):
            return distance
        distance = nearer
