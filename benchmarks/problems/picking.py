"""Order picking in a warehouse of 400 locations."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from problems._problem import Info, Mask, Observation, Problem, Step, box, numbers


class Picking(Problem):
    """Walk through a warehouse with a cart, and pick the items of order lines.

    Shelves form aisles, which two cross-aisles join at the front and at the back. An
    order line asks for one item of some weight from one location. As soon as a line has
    been picked, a new one comes in, at a random location without a line. The cart takes
    so many kilograms and is emptied at the depot, at the front of the first aisle.

    ## Actions
    `Discrete(aisles * bays + 1)`, 401 by default: walk to a location and pick there, or
    (the last action) walk to the depot and empty the cart. A location is available if
    it has a line whose item the cart can take; the depot, if the cart is not empty.

    ## Observations
    In metres, seconds and kilograms: `position` and `cart_kg`; for each location
    `line_kg`, 0 without a line, and `walk_seconds` from the picker. The mask is
    returned by `action_masks()`.

    ## Rewards
    0.60 for a line, less 0.01 for each second. A pick takes 6 seconds after the walk,
    the depot 20.

    ## Rule
    The nearest available line; the depot if no line is available, or if it is nearer
    and the cart is three quarters full. With 6 locations and 3 lines it earns more than
    95 % of the optimum.

    Args:
        num_aisles: Number of aisles.
        num_bays: Number of locations along an aisle.
        num_lines: Number of lines that are open at any time.
        weights: Kilograms of the items, each of the same probability.
        cart_kg: Kilograms that the cart takes.
        action_features: Whether observations hold rows of features per action.
    """

    LINE, COST_PER_SECOND = 0.60, 0.01
    METRES_PER_BAY, METRES_PER_AISLE = 1.5, 4.0
    METRES_PER_SECOND = 1.0
    PICK_SECONDS, DEPOT_SECONDS = 6.0, 20.0

    def __init__(
        self,
        num_aisles: int = 20,
        num_bays: int = 20,
        num_lines: int = 30,
        weights: tuple[int, ...] = tuple(range(1, 26)),
        cart_kg: int = 150,
        action_features: bool = False,
    ) -> None:
        self.num_locations = num_aisles * num_bays
        self.num_lines, self.cart_kg = num_lines, cart_kg
        self.weights = np.array(weights)
        self.positions = _positions(num_aisles, num_bays)
        depth = self.METRES_PER_BAY * (num_bays + 1)
        self.walks = _walks(self.positions, depth) / self.METRES_PER_SECOND
        longest, width = float(self.walks.max()), float(self.positions[:, 0].max())
        heaviest = float(max(weights))
        context = {"cart_kg": box(0, cart_kg, 1), "position": box(0, width + depth, 2)}
        flat = context | {
            "line_kg": box(0, heaviest, self.num_locations),
            "walk_seconds": box(0, longest, self.num_locations + 1),
        }
        features = {
            "walk_seconds": (0.0, longest),
            "line_kg": (0.0, heaviest),
            "to_the_right": (-width, width),
            "is_depot": (0.0, 1.0),
        }
        super().__init__(
            flat, context, features, self.num_locations + 1, action_features
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, Info]:
        """Start at the depot with an empty cart, and draw the open lines."""
        super().reset(seed=seed, options=options)
        self.here, self.load = self.num_locations, 0
        self.line_kg = np.zeros(self.num_locations, dtype=np.int64)
        for _ in range(self.num_lines):
            self._draw_line()
        return self._observation(), {}

    def step(self, action: int) -> Step:
        """Walk to a location and pick, or to the depot and empty the cart."""
        action = self._check(action, self.action_masks())
        seconds = float(self.walks[self.here, action])
        self.here = action
        if action == self.num_locations:
            self.load = 0
            reward = -self.COST_PER_SECOND * (seconds + self.DEPOT_SECONDS)
        else:
            self.load += int(self.line_kg[action])
            self.line_kg[action] = 0
            self._draw_line()
            reward = self.LINE - self.COST_PER_SECOND * (seconds + self.PICK_SECONDS)
        return self._observation(), reward, False, False, {}

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which locations can be walked to, and whether the depot can."""
        fits = self.line_kg <= self.cart_kg - self.load
        return np.append((self.line_kg > 0) & fits, self.load > 0)

    def rule(self, observation: Observation, mask: Mask) -> int:
        """Return the nearest line; sometimes the depot."""
        seconds = np.where(mask, observation["walk_seconds"], np.inf)
        line = int(seconds[:-1].argmin())
        is_full = observation["cart_kg"][0] > 0.75 * self.cart_kg
        to_depot = seconds[-1] < seconds[line] and is_full
        return line if mask[line] and not to_depot else self.num_locations

    def _draw_line(self) -> None:
        without = np.flatnonzero(self.line_kg == 0)
        location = without[self.np_random.integers(len(without))]
        weight = self.np_random.integers(len(self.weights))
        self.line_kg[location] = self.weights[weight]

    def _context(self) -> Observation:
        return {
            "cart_kg": numbers([self.load]),
            "position": numbers(self.positions[self.here]),
        }

    def _flat(self) -> Observation:
        return {
            **self._context(),
            "line_kg": numbers(self.line_kg),
            "walk_seconds": numbers(self.walks[self.here]),
        }

    def _columns(self) -> list[NDArray[Any]]:
        is_depot = np.zeros(self.num_locations + 1)
        is_depot[-1] = 1
        return [
            self.walks[self.here],
            np.append(self.line_kg, 0),
            self.positions[:, 0] - self.positions[self.here, 0],
            is_depot,
        ]


def _positions(num_aisles: int, num_bays: int) -> NDArray[np.float64]:
    """Return metres from the depot, across and into the aisles; the depot is last."""
    aisle, bay = np.indices((num_aisles, num_bays)).reshape(2, -1)
    across, along = Picking.METRES_PER_AISLE, Picking.METRES_PER_BAY
    located = np.stack([aisle * across, (bay + 1) * along], axis=1)
    return np.concatenate([located, np.zeros((1, 2))])


def _walks(positions: NDArray[np.float64], depth: float) -> NDArray[np.float64]:
    """Return the metres between any two positions, by the shorter cross-aisle."""
    across, along = positions.T
    sideways = np.abs(across[:, None] - across)
    by_front = along[:, None] + along
    around = sideways + np.minimum(by_front, 2 * depth - by_front)
    same_aisle: NDArray[np.float64]
    same_aisle = np.where(sideways == 0, np.abs(along[:, None] - along), around)
    return same_aisle
