"""Routing on any road graph whose roads open and close."""

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium as gym
import numpy as np
from jaxtyping import Bool, Int
from numpy.random import Generator
from numpy.typing import ArrayLike

from sas_gym._arguments import check_integer, check_number, finite_array
from sas_gym._types import Floats, Ints, Mask
from sas_gym.action_sets import Independent, Things
from sas_gym.action_sets._things import ALWAYS
from sas_gym.tasks._road_graph import road_arguments, road_things
from sas_gym.tasks._task import Actions, Rewards, States, Task, Terminations

if TYPE_CHECKING:
    from sas_gym.tasks._tabular import TabularSASMDP

NO_ROAD = -1


class Routing(Task):
    """Reach a goal by roads of which not all are open.

    The action is the index of the outgoing road, in the order in which a node's roads
    were given; where a node has fewer roads than others, the remaining actions are
    never available. Waiting, if it has a cost, is one more action, the last, and always
    available.

    Args:
        tail: Node at which each road starts.
        head: Node at which each road ends.
        reward: Reward for taking each road: one number, or one per road.
        availability: Probability that a road is open: one number, or one per road.
        num_nodes: Number of nodes, which are 0 to `num_nodes` - 1.
        goal: Node at which an episode terminates.
        start: Node of the start; by default any but the goal, at random.
        wait_cost: Cost of waiting for a step; by default one cannot wait.
        positions: Where to draw the nodes: one row (x, y) per node; by default a layout
            of networkx.
        labels: Names of the nodes; by default their numbers.
    """

    behaviour_version: ClassVar[int] = 1

    def __init__(
        self,
        tail: ArrayLike,
        head: ArrayLike,
        reward: ArrayLike,
        availability: ArrayLike,
        *,
        num_nodes: int,
        goal: int,
        start: int | None = None,
        wait_cost: float | None = None,
        positions: Floats | None = None,
        labels: Sequence[Hashable] | None = None,
    ) -> None:
        check_integer("num_nodes", num_nodes, least=2)
        self.num_states = num_nodes
        self.labels = range(num_nodes) if labels is None else labels
        self.goal = self._node("goal", goal)
        self._starts = self._start_nodes(start)
        if wait_cost is not None:
            check_number("wait_cost", wait_cost)
        self.wait_cost = wait_cost
        self.positions = positions
        tails, heads = self._nodes("tail", tail), self._nodes("head", head)
        order, column = _columns(tails, num_nodes)
        width = int(column.max(initial=-1)) + 1 + (wait_cost is not None)
        shape = (num_nodes, width)

        def table(values: ArrayLike, missing: float) -> Floats:
            cells = np.full(shape, missing)
            cells[tails[order], column] = np.broadcast_to(values, tails.shape)[order]
            return cells

        self.successor: Ints = table(heads, NO_ROAD).astype(np.int64)
        self.reward = table(finite_array("reward", reward), 0.0)
        self.availability = table(Independent(availability).availability, 0.0)
        if wait_cost is not None:
            self.successor[:, -1] = np.arange(num_nodes)
            self.reward[:, -1] = -wait_cost
            self.availability[:, -1] = 1.0
        self._park_at_goal()
        self._check_ways_out()
        self._check_reachable()
        self.num_actions = width
        self.observation_space = gym.spaces.Discrete(num_nodes)
        self.action_sets = Independent(self.availability)
        self._streets = tails, heads, np.broadcast_to(availability, tails.shape)
        self._columns = column[np.argsort(order)]
        self._possible = self.successor != NO_ROAD
        # Flat arrays, by the number of the road.
        self._first_road = np.arange(num_nodes) * width
        self._head, self._reward = self.successor.reshape(-1), self.reward.reshape(-1)
        self._arrives = self._head == self.goal

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        *,
        goal: Hashable,
        start: Hashable | None = None,
        length: str | None = "length",
        availability: str | float | Mapping[Any, float] = 0.8,
        wait_cost: float | None = None,
    ) -> "Routing":
        """Make a task of a NetworkX or OSMnx graph, directed or not, multigraph or not.

        The reward of a road is minus its length. Node attributes `x` and `y` (as OSMnx
        has them) or `pos`, where all nodes have them, say where to draw the nodes;
        other graphs are drawn in a layout of networkx.

        Args:
            graph: The graph; undirected edges become a road each way.
            goal: Label of the goal node.
            start: Label of the start node; by default any node but the goal.
            length: Edge attribute with the road's length; `None` makes every length 1.
            availability: Edge attribute with the road's probability of being open, or
                one probability for all, or a dict from edges `(u, v)` to theirs.
            wait_cost: Cost of waiting for a step; by default one cannot wait.
        """
        found = road_arguments(graph, goal, start, length, availability)
        return cls(**found, wait_cost=wait_cost)

    def reset(self, num_envs: int, rng: Generator) -> States:
        """Start at the start or, without one, uniformly anywhere but at the goal."""
        return self._starts[(rng.random(num_envs) * len(self._starts)).astype(np.int64)]

    def transition(
        self, state: States, action: Actions, rng: Generator
    ) -> tuple[States, Rewards, Terminations]:
        """Drive down the road."""
        road = self._first_road[state] + action
        return self._head[road], self._reward[road], self._arrives[road]

    def possible(self, state: States) -> Bool[Mask, "N A"]:
        """Return which roads the nodes have, open or not."""
        possible: Mask = self._possible.take(state, axis=0)
        return possible

    @cached_property
    def things(self) -> Things:  # type: ignore[override]  # a class attribute
        """The streets: both directions of one are open or closed together."""
        tail, head, availability = self._streets
        # At the goal nobody drives on: its roads need not be things.
        matters = tail != self.goal
        thing, of_things = road_things(
            tail[matters], head[matters], availability[matters]
        )
        thing_of = np.full(self.successor.shape, ALWAYS)
        thing_of[tail[matters], self._columns[matters]] = thing
        return Things(thing_of, of_things)

    @property
    def action_names(self) -> Sequence[str]:
        """Names of the actions: roads by number, and waiting."""
        num_roads = self.num_actions - (self.wait_cost is not None)
        names = [f"road {road}" for road in range(num_roads)]
        return names if self.wait_cost is None else [*names, "wait"]

    def names_at(self, state: Any) -> Sequence[str]:
        """Return where the roads of a node lead, by name."""
        names = list(self.action_names)
        for action, head in enumerate(self.successor[int(state)]):
            if head != NO_ROAD and names[action] != "wait":
                names[action] = f"to {self.labels[head]}"
        return names

    def describe(self, state: Any) -> str:
        """Return the name of a node."""
        return f"at {self.labels[int(state)]}"

    def tabular(self) -> "TabularSASMDP":
        """Return the roads as arrays, undiscounted."""
        # SciPy loads on first use.
        from sas_gym._sparse import sparse
        from sas_gym.tasks._tabular import TabularSASMDP

        roads = np.flatnonzero(self._possible)
        entries = (np.ones(len(roads)), (roads, self.successor.take(roads)))
        shape = (self._possible.size, len(self.labels))
        initial_distribution = np.zeros(len(self.labels))
        initial_distribution[self._starts] = 1 / len(self._starts)
        return TabularSASMDP(
            sparse.csr_array(entries, shape=shape),
            self.reward,
            self.action_sets,
            initial_distribution=initial_distribution,
            terminal_states=[self.goal],
            task=self,
        )

    def _start_nodes(self, start: int | None) -> Ints:
        if start is None:
            return np.delete(np.arange(len(self.labels)), self.goal)
        if start == self.goal:
            raise ValueError(
                f"start and goal are the same node, {self.labels[start]!r}"
            )
        return self._nodes("start", [start])

    def _park_at_goal(self) -> None:
        """Give a goal without a road out one to itself: no action set is empty."""
        if not self.availability[self.goal].any():
            self.successor[self.goal, 0] = self.goal
            self.availability[self.goal, 0] = 1.0

    def _check_ways_out(self) -> None:
        stuck = np.flatnonzero(~self.availability.any(axis=1))
        if stuck.size:
            raise ValueError(
                f"no road that is ever open leads out of {self._some(stuck)}: give the "
                "node a road, or let it wait (wait_cost=...)"
            )

    def _check_reachable(self) -> None:
        tail, road = np.nonzero(self.availability)
        head = self.successor[tail, road]
        reached = can_reach(np.array([self.goal]), tail, head, len(self.labels))
        lost = self._starts[~reached[self._starts]]
        if lost.size:
            raise ValueError(
                f"the goal {self.labels[self.goal]!r} cannot be reached from "
                f"{self._some(lost)}: keep the nodes that reach it (for instance the "
                "goal's strongly connected component), or choose a start that does"
            )

    def _node(self, name: str, node: int) -> int:
        return int(self._nodes(name, [node])[0])

    def _nodes(self, name: str, nodes: ArrayLike) -> Ints:
        array = np.asarray(nodes)
        size = len(self.labels)
        if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
            raise ValueError(f"{name} must be integers that name nodes; got {nodes!r}")
        if array.min() < 0 or array.max() >= size:
            wrong = array[(array < 0) | (array >= size)][:5].tolist()
            raise ValueError(
                f"{name} {wrong} is not a node: the nodes are 0 to {size - 1}"
            )
        return array.astype(np.int64)

    def _some(self, nodes: Ints) -> str:
        more = f" and {len(nodes) - 5} more" if len(nodes) > 5 else ""
        return f"node {', '.join(repr(self.labels[i]) for i in nodes[:5])}{more}"


def can_reach(
    targets: Int[Ints, " _"],
    tail: Int[Ints, " E"],
    head: Int[Ints, " E"],
    num_nodes: int,
) -> Bool[Mask, " S"]:
    """Return from which nodes of a directed graph some target can be reached.

    A depth-first search against the edges. (SciPy has one, but a road map is played
    without SciPy.)

    Args:
        targets: Nodes to reach.
        tail: Node at which each edge starts.
        head: Node at which each edge ends.
        num_nodes: Number of nodes.
    """
    order = np.argsort(head, kind="stable")
    predecessors = tail[order].tolist()
    first = np.searchsorted(head[order], np.arange(num_nodes + 1)).tolist()
    to_visit = targets.tolist()
    reached = bytearray(num_nodes)
    for node in to_visit:
        reached[node] = True
    while to_visit:
        node = to_visit.pop()
        for before in predecessors[first[node] : first[node + 1]]:
            if not reached[before]:
                reached[before] = True
                to_visit.append(before)
    return np.frombuffer(reached, dtype=np.bool_)


def _columns(
    tails: Int[Ints, " E"], num_nodes: int
) -> tuple[Int[Ints, " E"], Int[Ints, " E"]]:
    """Sort roads by their tail, and number the roads of each tail from 0."""
    order = np.argsort(tails, kind="stable")
    first = np.searchsorted(tails[order], np.arange(num_nodes))
    return order, np.arange(len(tails)) - first[tails[order]]
