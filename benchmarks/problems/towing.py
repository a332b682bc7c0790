"""Dispatching with lasting trips: tow trucks, calls, and a partner company."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from problems._problem import Info, Mask, Observation, Problem, Step, box, numbers


class Towing(Problem):
    """Send one of the free trucks to every broken-down car, or pass the call on.

    Streets form a grid. A call comes from an address and names the address of a
    garage's customer; both are drawn from a list of addresses, of which the centre has
    most. A truck drives to the car, loads it in 10 minutes, and tows it; until then
    it is busy, and it stays where it has brought the car. The next call comes after a
    random number of minutes.

    ## Actions
    `Discrete(num_trucks + 1)`. The last action passes the call on to a partner company,
    and is always available. A truck is available while it is free.

    ## Observations
    In kilometres and minutes: `pickup` and `destination` of the call, and of each truck
    `truck_position`, `distance` from the pickup and `minutes_until_free`. A busy truck
    has the position and distance of the place where it becomes free. The mask is
    `action_mask` in the observation.

    ## Rewards
    A fee of 60 for a tow, less 4 for each kilometre on the way to the car; -20 for a
    call that is passed on.

    ## Rule
    The nearest free truck, unless it is more than 14 km away: then the partner. On two
    trucks and three addresses it earns more than 95 % of the optimum.

    Args:
        num_trucks: Size of the fleet.
        addresses: Positions in whole kilometres, of shape (addresses, 2). Default: 200
            in a city of 24 by 24 km.
        minutes_between_calls: Minutes between two calls; each number has the same
            probability.
        action_features: Whether observations hold rows of features per action.
    """

    FEE, PARTNER, COST_PER_KM = 60.0, -20.0, 4.0
    MINUTES_PER_KM, MINUTES_OF_LOADING = 2, 10
    FARTHEST_KM = 14

    def __init__(
        self,
        num_trucks: int = 40,
        addresses: NDArray[np.int64] | None = None,
        minutes_between_calls: tuple[int, ...] = (1, 2, 3),
        action_features: bool = False,
    ) -> None:
        self.addresses = city() if addresses is None else addresses
        self.num_trucks, self.gaps = num_trucks, minutes_between_calls
        side = float(self.addresses.max())
        longest = 2.0 * side
        busy = self.MINUTES_PER_KM * 2 * longest + self.MINUTES_OF_LOADING
        context = {"pickup": box(0, side, 2), "destination": box(0, side, 2)}
        flat = context | {
            "truck_position": box(0, side, num_trucks, 2),
            "distance": box(0, longest, num_trucks),
            "minutes_until_free": box(0, busy, num_trucks),
        }
        features = {
            "distance": (0.0, longest),
            "minutes_until_free": (0.0, busy),
            "east": (0.0, side),
            "north": (0.0, side),
            "is_partner": (0.0, 1.0),
        }
        super().__init__(flat, context, features, num_trucks + 1, action_features, True)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, Info]:
        """Put free trucks at random addresses, and draw the first call."""
        super().reset(seed=seed, options=options)
        starts = self.np_random.integers(len(self.addresses), size=self.num_trucks)
        self.positions = self.addresses[starts]
        self.minutes_left = np.zeros(self.num_trucks, dtype=np.int64)
        self._draw_call()
        return self._observation(), {}

    def step(self, action: int) -> Step:
        """Send a truck, let time pass until the next call, and draw that call."""
        action = self._check(action, self._mask())
        reward = self.PARTNER
        if action < self.num_trucks:
            way, tow = self._distances()[action], _km(self.pickup, self.destination)
            self.positions[action] = self.destination
            self.minutes_left[action] = (
                self.MINUTES_PER_KM * (way + tow) + self.MINUTES_OF_LOADING
            )
            reward = self.FEE - self.COST_PER_KM * float(way)
        minutes = self.gaps[self.np_random.integers(len(self.gaps))]
        self.minutes_left = np.maximum(self.minutes_left - minutes, 0)
        self._draw_call()
        return self._observation(), reward, False, False, {}

    def rule(self, observation: Observation, mask: Mask) -> int:
        """Return the nearest free truck if it is near enough, else the partner."""
        distance = np.where(mask[:-1], observation["distance"], np.inf)
        nearest = int(distance.argmin())
        is_near = distance[nearest] <= self.FARTHEST_KM
        return nearest if is_near else self.num_trucks

    def _draw_call(self) -> None:
        drawn = self.np_random.integers(len(self.addresses), size=2)
        self.pickup, self.destination = self.addresses[drawn]

    def _distances(self) -> NDArray[np.int64]:
        return _km(self.positions, self.pickup)

    def _mask(self) -> Mask:
        return np.append(self.minutes_left == 0, True).astype(np.int8)

    def _observation(self) -> Observation:
        return {**super()._observation(), "action_mask": self._mask()}

    def _context(self) -> Observation:
        return {
            "pickup": numbers(self.pickup),
            "destination": numbers(self.destination),
        }

    def _flat(self) -> Observation:
        return {
            **self._context(),
            "truck_position": numbers(self.positions),
            "distance": numbers(self._distances()),
            "minutes_until_free": numbers(self.minutes_left),
        }

    def _columns(self) -> list[NDArray[Any]]:
        is_partner = np.zeros(self.num_trucks + 1)
        is_partner[-1] = 1
        columns = self._distances(), self.minutes_left, *self.positions.T
        return [*(np.append(column, 0) for column in columns), is_partner]


def _km(start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the lengths of the ways along a grid of streets."""
    lengths: NDArray[np.int64] = np.abs(start - end).sum(axis=-1)
    return lengths


def city(num_addresses: int = 200, side: int = 24) -> NDArray[np.int64]:
    """Return addresses in a city, most of them near its centre."""
    rng = np.random.default_rng(0)
    drawn = rng.normal(side / 2, side / 4, (num_addresses, 2))
    return np.clip(np.rint(drawn), 0, side).astype(np.int64)
