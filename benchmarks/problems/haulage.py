"""Two thousand candidates that differ at every step: a haulier and a load board."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from problems._problem import Info, Mask, Observation, Problem, Step, box, numbers

CENTS_PER_KM = 90
LEVELS = np.arange(80, 221)
"""Pay per kilometre of an offer, in cents."""


class Haulage(Problem):
    """Choose loads for one truck for a week, from a board of offers.

    The truck drives empty to the pickup of the load and loaded to its destination.
    Positions are towns on a grid,
    an hour apart. Every board is new: no offer stays.

    ## Actions
    `Discrete(num_offers)`. An offer is available if the truck can carry its weight and
    the hours left suffice. The week ends when no offer is available.

    ## Observations
    In kilometres, tonnes, hours and money: `truck` (its position) and `hours_left`; of
    each offer `pickup`, `destination`, `empty_km`, `loaded_km`, `tonnes` and `pay`. The
    mask is in the info.

    ## Rewards
    The pay of the load, less 0.90 for each kilometre.

    ## Rule
    The available offer with the most profit less 60 for each hour, the price of the
    truck's time. On a board of two offers and three towns it earns more than 95 % of
    the optimum; on the board of 2,000 more than 93 % of a bound: the hours of the week
    times the largest profit per hour.

    Args:
        num_offers: Number of offers on the board.
        towns: Number of towns from east to west and from north to south.
        levels: Pay per kilometre, in cents; each has the same probability.
        heaviest: Tonnes of the heaviest load. The lightest has 1, the truck takes 20.
        week_hours: Hours that the truck may drive in a week.
        action_features: Whether observations hold rows of features per action.
    """

    KM_BETWEEN_TOWNS, KM_PER_HOUR = 50, 50
    TRUCK_TONNES = 20
    PRICE_PER_HOUR = 60.0

    def __init__(
        self,
        num_offers: int = 2000,
        towns: tuple[int, int] = (12, 8),
        levels: NDArray[np.int64] = LEVELS,
        heaviest: int = 25,
        week_hours: int = 100,
        action_features: bool = False,
    ) -> None:
        self.num_offers, self.levels, self.heaviest = num_offers, levels, heaviest
        self.week_hours = week_hours
        self.towns = np.indices(towns).reshape(2, -1).T * self.KM_BETWEEN_TOWNS
        side = float(self.towns.max())
        longest = float(self.towns.max(axis=0).sum())
        most = float(levels.max()) / 100 * longest
        context = {"truck": box(0, side, 2), "hours_left": box(0, week_hours, 1)}
        flat = context | {
            "pickup": box(0, side, num_offers, 2),
            "destination": box(0, side, num_offers, 2),
            "empty_km": box(0, longest, num_offers),
            "loaded_km": box(0, longest, num_offers),
            "tonnes": box(0, heaviest, num_offers),
            "pay": box(0, most, num_offers),
        }
        features = {
            "pickup_east": (0.0, side),
            "pickup_north": (0.0, side),
            "destination_east": (0.0, side),
            "destination_north": (0.0, side),
            "empty_km": (0.0, longest),
            "loaded_km": (0.0, longest),
            "tonnes": (0.0, float(heaviest)),
            "pay": (0.0, most),
        }
        super().__init__(flat, context, features, num_offers, action_features)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, Info]:
        """Put the truck into a random town, and draw the first board."""
        super().reset(seed=seed, options=options)
        self.hours_left = self.week_hours
        self.truck = self.towns[self.np_random.integers(len(self.towns))]
        self._draw_board()
        return self._observation(), {"action_mask": self._mask()}

    def step(self, action: int) -> Step:
        """Carry a load, and draw the next board."""
        action = self._check(action, self._mask())
        km = self.empty_km[action] + self.loaded_km[action]
        reward = float(self.pay[action] - CENTS_PER_KM * km) / 100
        self.hours_left -= int(self._hours()[action])
        self.truck = self.destination[action]
        self._draw_board()
        mask = self._mask()
        is_over = not mask.any()
        # Nobody chooses after the end.
        info = {"action_mask": mask | is_over}
        return self._observation(), reward, is_over, False, info

    def rule(self, observation: Observation, mask: Mask) -> int:
        """Return the available offer with the most profit less the price of time."""
        km = observation["empty_km"] + observation["loaded_km"]
        profit = observation["pay"] - CENTS_PER_KM / 100 * km
        hours = km / self.KM_PER_HOUR
        surplus = profit - self.PRICE_PER_HOUR * hours
        return int(np.where(mask, surplus, -np.inf).argmax())

    def most_per_hour(self) -> float:
        """Return a bound on the profit per hour."""
        return self.KM_PER_HOUR * float(self.levels.max() - CENTS_PER_KM) / 100

    def _draw_board(self) -> None:
        draw, size = self.np_random.integers, self.num_offers
        pickup = draw(len(self.towns), size=size)
        self.pickup = self.towns[pickup]
        # Another town than that of the pickup.
        further = draw(1, len(self.towns), size=size)
        self.destination = self.towns[(pickup + further) % len(self.towns)]
        self.tonnes = draw(1, self.heaviest + 1, size=size)
        self.empty_km = np.abs(self.pickup - self.truck).sum(axis=1)
        self.loaded_km = np.abs(self.destination - self.pickup).sum(axis=1)
        self.pay = self.levels[draw(len(self.levels), size=size)] * self.loaded_km

    def _hours(self) -> NDArray[np.int64]:
        hours: NDArray[np.int64]
        hours = (self.empty_km + self.loaded_km) // self.KM_PER_HOUR
        return hours

    def _mask(self) -> Mask:
        fits = self.tonnes <= self.TRUCK_TONNES
        return (fits & (self._hours() <= self.hours_left)).astype(np.int8)

    def _context(self) -> Observation:
        return {
            "truck": numbers(self.truck),
            "hours_left": numbers([self.hours_left]),
        }

    def _flat(self) -> Observation:
        return {
            **self._context(),
            "pickup": numbers(self.pickup),
            "destination": numbers(self.destination),
            "empty_km": numbers(self.empty_km),
            "loaded_km": numbers(self.loaded_km),
            "tonnes": numbers(self.tonnes),
            "pay": numbers(self.pay / 100),
        }

    def _columns(self) -> list[NDArray[Any]]:
        distances = self.empty_km, self.loaded_km
        return [
            *self.pickup.T,
            *self.destination.T,
            *distances,
            self.tonnes,
            self.pay / 100,
        ]
