"""Inventory with lost sales, large quantities, and suppliers that fail for days."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from problems._problem import Info, Mask, Observation, Problem, Step, box, numbers

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Products(NamedTuple):
    """The goods of a wholesaler; one entry per product."""

    pallet: Ints
    """Units on a pallet."""
    cost: Floats
    """Cost of a unit from the regular supplier."""
    price: Floats
    """Selling price of a unit."""
    storage: Floats
    """Cost of storing a unit for a day."""
    capacity: Ints
    """Most units in stock and on order."""
    history: Ints
    """Units that customers asked for on past days, of shape (days, products)."""


class Suppliers(NamedTuple):
    """Sellers of the goods; one entry per supplier."""

    lead_days: Ints
    """Days from an order to its arrival."""
    factor: Floats
    """Price of a unit, relative to its regular cost."""
    days_up: Ints
    """Mean number of days until the supplier fails."""
    days_down: Ints
    """Mean number of days until the supplier delivers again."""


class Wholesale(Problem):
    """Place at most one order a day: a product, a supplier, and a number of pallets.

    Demand is that of a random day of the past. Customers who find the shelf empty buy
    elsewhere. A supplier who fails takes no orders for days; orders placed before still
    arrive.

    ## Actions
    `Discrete(products * suppliers * lots + 1)`, 55 by default: every combination of a
    product, a supplier and a number of pallets, in this order, and to wait, which is
    always available. An order is available if its supplier is open and the warehouse
    has room for it.

    ## Observations
    In units, days and money: `stock`, `on_order` (by days until the arrival, of shape
    (days, products)), `demand` (of the last day), `mean_demand`, and `supplier_open`.
    The mask is in the info.

    ## Rewards
    The day's sales, less the cost of the order and the storage of the stock.

    ## Rule
    For the product whose stock and orders last the fewest days of mean demand: order
    from the cheapest open supplier while they last less than 12 days (6 days for the
    regular supplier, 3 for the fast one), as many pallets as last up to 15 days. With
    one product and two suppliers it earns more than 95 % of the optimum.

    Args:
        products: Goods for sale. Default: 6 products, ordered by 100 to 6,000 units.
        suppliers: Sellers. Default: a cheap slow one, a regular and a fast one.
        lots: Numbers of pallets that can be ordered.
        reorder_days: Days of demand below which the rule orders, for each supplier.
        target_days: Days of demand that the rule orders up to.
        action_features: Whether observations hold rows of features per action.
    """

    def __init__(
        self,
        products: Products | None = None,
        suppliers: Suppliers | None = None,
        lots: tuple[int, ...] = (1, 4, 10),
        reorder_days: tuple[float, ...] = (12.0, 6.0, 3.0),
        target_days: float = 15.0,
        action_features: bool = False,
    ) -> None:
        self.products = products = products or six_products()
        self.suppliers = suppliers = suppliers or three_suppliers()
        self.reorder_days, self.target_days = np.array(reorder_days), target_days
        self.mean_demand = products.history.mean(axis=0)
        shape = self.num_products, num_suppliers, _ = (
            len(products.pallet),
            len(suppliers.factor),
            len(lots),
        )
        self.num_orders = int(np.prod(shape))
        self.product, self.supplier, lot = np.indices(shape).reshape(3, -1)
        self.quantity = products.pallet[self.product] * np.array(lots)[lot]
        factor = suppliers.factor[self.supplier]
        self.unit_cost = products.cost[self.product] * factor
        self.lead_days = suppliers.lead_days[self.supplier]

        most = float(products.capacity.max())
        demand = float(products.history.max())
        days = int(suppliers.lead_days.max())
        context = {"supplier_open": box(0, 1, num_suppliers)}
        flat = context | {
            "stock": box(0, most, self.num_products),
            "on_order": box(0, most, days, self.num_products),
            "demand": box(0, demand, self.num_products),
            "mean_demand": box(0, demand, self.num_products),
        }
        features = {
            "stock": (0.0, most),
            "on_order": (0.0, most),
            "mean_demand": (0.0, demand),
            "quantity": (0.0, most),
            "unit_cost": (0.0, float(self.unit_cost.max())),
            "price": (0.0, float(products.price.max())),
            "lead_days": (0.0, float(days)),
            "is_order": (0.0, 1.0),
        }
        super().__init__(flat, context, features, self.num_orders + 1, action_features)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, Info]:
        """Start with ten pallets of each product and every supplier open."""
        super().reset(seed=seed, options=options)
        self.stock = np.minimum(10 * self.products.pallet, self.products.capacity)
        days = int(self.suppliers.lead_days.max())
        self.on_order = np.zeros((days, self.num_products), dtype=np.int64)
        self.is_open = np.ones(len(self.suppliers.factor), dtype=np.bool_)
        self.demand = np.zeros(self.num_products, dtype=np.int64)
        return self._observation(), self._info()

    def step(self, action: int) -> Step:
        """Order, receive, sell, and let suppliers fail or come back."""
        action, reward = self._check(action, self._mask()), 0.0
        if action < self.num_orders:
            quantity = self.quantity[action]
            self.on_order[self.lead_days[action] - 1, self.product[action]] += quantity
            reward -= float(self.unit_cost[action] * quantity)
        self.stock = self.stock + self.on_order[0]
        self.on_order = np.roll(self.on_order, -1, axis=0)
        self.on_order[-1] = 0
        history = self.products.history
        self.demand = history[self.np_random.integers(len(history))]
        sold = np.minimum(self.stock, self.demand)
        self.stock = self.stock - sold
        reward += float(self.products.price @ sold - self.products.storage @ self.stock)
        mean_days = np.where(
            self.is_open, self.suppliers.days_up, self.suppliers.days_down
        )
        self.is_open = self.is_open ^ (self.np_random.integers(mean_days) == 0)
        return self._observation(), reward, False, False, self._info()

    def rule(self, observation: Observation, mask: Mask) -> int:
        """Order the product that runs out first, from the cheapest supplier in time."""
        demand = np.maximum(observation["mean_demand"], 1e-9)
        days = (observation["stock"] + observation["on_order"].sum(axis=0)) / demand
        product = int(days.argmin())
        is_late = days[product] < self.reorder_days[self.supplier]
        orders = np.flatnonzero(mask[:-1] * (self.product == product) * is_late)
        if not len(orders):
            return self.num_orders
        cost = self.unit_cost[orders]
        orders = orders[cost == cost.min()]
        wanted = (self.target_days - days[product]) * demand[product]
        fitting = orders[self.quantity[orders] <= wanted]
        return int(fitting[-1] if len(fitting) else orders[0])

    def _mask(self) -> Mask:
        room = self.products.capacity - self.stock - self.on_order.sum(axis=0)
        has_room = self.quantity <= room[self.product]
        available = self.is_open[self.supplier] & has_room
        return np.append(available, True).astype(np.int8)

    def _info(self) -> Info:
        return {"action_mask": self._mask()}

    def _context(self) -> Observation:
        return {"supplier_open": numbers(self.is_open)}

    def _flat(self) -> Observation:
        return {
            **self._context(),
            "stock": numbers(self.stock),
            "on_order": numbers(self.on_order),
            "demand": numbers(self.demand),
            "mean_demand": numbers(self.mean_demand),
        }

    def _columns(self) -> list[NDArray[Any]]:
        product = self.product
        columns = (
            self.stock[product],
            self.on_order.sum(axis=0)[product],
            self.mean_demand[product],
            self.quantity,
            self.unit_cost,
            self.products.price[product],
            self.lead_days,
            np.ones(self.num_orders),
        )
        return [np.append(column, 0) for column in columns]


def six_products(num_days: int = 250) -> Products:
    """Return products whose demand differs much from day to day."""
    rng = np.random.default_rng(0)
    pallet = np.array([100, 150, 200, 300, 500, 600])
    cost = np.array([40.0, 24.0, 30.0, 12.0, 9.0, 5.0])
    share = rng.lognormal(-0.4, 0.6, (num_days, len(pallet)))
    return Products(
        pallet=pallet,
        cost=cost,
        price=1.5 * cost,
        storage=0.01 * cost,
        capacity=40 * pallet,
        history=np.rint(share * pallet).astype(np.int64),
    )


def three_suppliers() -> Suppliers:
    """Return a cheap slow supplier, a regular and a fast one."""
    return Suppliers(
        lead_days=np.array([5, 2, 1]),
        factor=np.array([0.9, 1.0, 1.25]),
        days_up=np.array([30, 40, 60]),
        days_down=np.array([12, 8, 4]),
    )
