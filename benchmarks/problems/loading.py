"""Bin packing: shipments, and trucks that wait at their docks until they are full."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from problems._problem import Info, Observation, Problem, Step, box, numbers


class Loading(Problem):
    """Load shipments, one after the other, on trucks with room for them.

    A truck leaves when the smallest shipment no longer fits, and an empty one takes its
    place. Where a shipment fits no truck, the fullest truck leaves. Shipments come from
    a list, each with the same probability.

    ## Actions
    `Discrete(num_docks)`: the truck that takes the shipment. A truck is available if
    the shipment fits.

    ## Observations
    In kilograms: `shipment`, and `kg_left` of each truck. The mask is in the info, and
    `action_masks()` returns it too.

    ## Rewards
    -100, the rent of a truck, for the first shipment on it.

    ## Rule
    The truck with the least room left (best fit). With three docks and four shipments
    its rent is within 5 % of the optimum.

    Args:
        num_docks: Number of trucks at the docks.
        capacity: Kilograms that a truck takes.
        shipments: Kilograms of each shipment of the list. Default: 60 of them.
        action_features: Whether observations hold rows of features per action.
    """

    RENT = 100.0

    def __init__(
        self,
        num_docks: int = 20,
        capacity: int = 24_000,
        shipments: NDArray[np.int64] | None = None,
        action_features: bool = False,
    ) -> None:
        self.num_docks, self.capacity = num_docks, capacity
        self.shipments = sixty_shipments() if shipments is None else shipments
        self.smallest = self.shipments.min()
        context = {"shipment": box(0, capacity, 1)}
        features = {
            "kg_left": (0.0, float(capacity)),
            "kg_left_afterwards": (-float(capacity), float(capacity)),
        }
        flat = context | {"kg_left": box(0, capacity, num_docks)}
        super().__init__(flat, context, features, num_docks, action_features)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, Info]:
        """Start with empty trucks, and draw the first shipment."""
        super().reset(seed=seed, options=options)
        self.kg_left = np.full(self.num_docks, self.capacity)
        self._draw_shipment()
        return self._observation(), self._info()

    def step(self, action: int) -> Step:
        """Load the shipment, and draw the next one."""
        action = self._check(action, self.action_masks())
        is_first = self.kg_left[action] == self.capacity
        self.kg_left[action] -= self.shipment
        if self.kg_left[action] < self.smallest:
            self.kg_left[action] = self.capacity
        self._draw_shipment()
        reward = -self.RENT if is_first else 0.0
        return self._observation(), reward, False, False, self._info()

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which trucks have room for the shipment."""
        fits: NDArray[np.bool_] = self.kg_left >= self.shipment
        return fits

    def rule(self, observation: Observation, mask: NDArray[Any]) -> int:
        """Return the available truck with the least room left."""
        return int(np.where(mask, observation["kg_left"], np.inf).argmin())

    def _draw_shipment(self) -> None:
        self.shipment = self.shipments[self.np_random.integers(len(self.shipments))]
        if not self.action_masks().any():
            self.kg_left[self.kg_left.argmin()] = self.capacity

    def _info(self) -> Info:
        return {"action_mask": self.action_masks().astype(np.int8)}

    def _context(self) -> Observation:
        return {"shipment": numbers([self.shipment])}

    def _flat(self) -> Observation:
        return {**self._context(), "kg_left": numbers(self.kg_left)}

    def _columns(self) -> list[NDArray[Any]]:
        return [self.kg_left, self.kg_left - self.shipment]


def sixty_shipments() -> NDArray[np.int64]:
    """Return shipments of an eighth to half of a truck."""
    return np.random.default_rng(0).integers(3000, 12_001, size=60)
