"""What a memory can be worth on roads whose outages last: exact bounds, by planning.

    python benchmarks/memory_worth.py

On these maps every action is a thing of its own, the same at all junctions, and under
`Markov` a chain of its own. The mask shows the chains of the actions that the present
state has; a memory adds the state of the others. So the return of the best agent with a
memory lies between two numbers that can be computed for a small graph: the return of a
policy which sees the state and the mask (the best found), and the return of the best
policy which is told the state of every chain (`planning.informed_return`).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sas_gym import BayArea, Routing, SASVectorEnv, episode_returns
from sas_gym.action_sets import Markov, Things
from sas_gym.action_sets._independent import first_member_probs
from sas_gym.action_sets._set_lists import subsets
from sas_gym.planning import informed_return

Array = NDArray[Any]
# With an infinite horizon the plan must prefer to arrive sooner.
GAMMA = 0.99
NUM_ROUNDS = 20


def outages(
    availability: float, lasts: list[bool], mean_length: float = 10.0
) -> Markov:
    """Return sets in which the actions marked have outages of a mean length."""
    turn_on = np.where(lasts, 1 / mean_length, 1.0)
    turn_off = np.where(lasts, turn_on * (1 - availability) / availability, 0.0)
    return Markov(turn_on, turn_off)


def two_ferries() -> Routing:
    """Return a road map where one sees early what one needs to know late.

    Roads 2 and 3 are ferries; both can be seen from the start, junction 0, though not
    taken. At the next junction the road forks, to the pier of the one or of the other,
    and the way back from a pier is long. One can always wait.
    """
    road, back, idle, arrival = -0.1, -1.0, -2.0, 10.0
    roads = [(0, 1, road), (0, 1, road), (0, 0, idle), (0, 0, idle)]
    roads += [(1, 2, road), (1, 3, road)]
    roads += [(2, 1, back), (2, 1, back), (2, 4, arrival)]
    roads += [(3, 1, back), (3, 1, back), (3, 3, idle), (3, 4, arrival)]
    tail, head, reward = zip(*roads, strict=True)
    return Routing(tail, head, reward, 1.0, num_nodes=5, goal=4, start=0, wait_cost=0.5)


def each_action_a_thing(task: Routing) -> Routing:
    """Let outages belong to the numbers of the actions, at all junctions alike."""
    task.things = Things(np.arange(task.num_actions), 1.0)
    return task


# Task, time limit, and which actions have outages: never that of waiting.
ROAD_MAPS: dict[str, tuple[Routing, int, list[bool]]] = {
    "Bay Area": (each_action_a_thing(BayArea()), 200, [True] * 4 + [False]),
    "two ferries": (
        each_action_a_thing(two_ferries()),
        30,
        [False, False, True, True, False],
    ),
}


@dataclass
class Chains:
    """A road map with the on/off chains of its actions, as arrays.

    Letters: S junctions, A actions, K states of all chains together, M masks; both K
    and M are all subsets of the actions, in the same order.
    """

    task: Routing
    markov: Markov
    horizon: int

    def __post_init__(self) -> None:
        num_states, num_actions = self.task.successor.shape
        self.sets = subsets(num_actions)
        rates = self.markov.fit(self.task)
        p = np.broadcast_to(rates.availability, num_actions)
        on_next = np.where(self.sets, 1 - rates.turn_off, rates.turn_on)
        self.transition = product_probs(on_next, self.sets)
        self.equilibrium = product_probs(p[None], self.sets)[0]
        self.mask_probs = np.stack(
            [
                mask_probs(self.sets, possible, p)
                for possible in self.task.possible(np.arange(num_states))
            ]
        )
        self.goes_on = (self.task.successor >= 0) & (
            self.task.successor != self.task.goal
        )

    def q_values(self, values: Array, gamma: float = 1.0) -> Array:
        """Return q(s, k, a) for values v(s, k) of the next state and chains."""
        ahead = (values @ self.transition.T)[self.task.successor]  # [S, A, K]
        ahead = self.task.reward[..., None] + gamma * self.goes_on[..., None] * ahead
        return np.swapaxes(ahead, 1, 2)

    def mean_start_value(self, values: Array) -> float:
        """Return the mean of v(s, k) over starts, chains in equilibrium."""
        return float((values[self.task._starts] @ self.equilibrium).mean())

    def policy_return(self, actions: Array) -> float:
        """Return that of a policy a = actions[s, m], which sees state and mask."""
        values = np.zeros(self.mask_probs.shape[:2])
        for _ in range(self.horizon):
            values = self._policy_values(self.q_values(values), actions)
        return self.mean_start_value(values)

    def _policy_values(self, q: Array, actions: Array) -> Array:
        taken = np.take_along_axis(q, actions[:, None].repeat(q.shape[1], 1), axis=2)
        return self._zero_at_goal((self.mask_probs * taken).sum(axis=-1))

    def memoryless(self, seen: Array) -> Array:
        """Return a policy that takes the unseen chains to be as they mostly are.

        Args:
            seen: How often the chains are in each state at each junction, [S, K].
        """
        joint = seen[:, :, None] * self.mask_probs
        belief = joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
        values = np.zeros(seen.shape)
        actions = np.zeros(belief[:, 0].shape, dtype=np.int64)
        for _ in range(4 * self.horizon):
            q = self.q_values(values, GAMMA)
            expected = np.einsum("skm,ska->sma", belief, q)
            actions = np.where(self.sets, expected, -np.inf).argmax(axis=-1)
            values = self._policy_values(q, actions)
        return actions

    def visits(self, actions: Array) -> Array:
        """Return how often a policy is where, with the chains in which states."""
        where = np.zeros(self.mask_probs.shape[:2])
        where[self.task._starts] = self.equilibrium / len(self.task._starts)
        total = np.zeros_like(where)
        for _ in range(self.horizon):
            total += where
            after = np.zeros_like(where)
            for mask in range(len(self.sets)):
                moved = where * self.mask_probs[:, :, mask]
                states = np.arange(len(where))
                taken = actions[:, mask]
                moved *= self.goes_on[states, taken][:, None]
                np.add.at(after, self.task.successor[states, taken], moved)
            where = after @ self.transition
        return total

    def best_memoryless(self) -> tuple[Array, float]:
        """Return the best policy found that sees state and mask, and its return."""
        seen = np.tile(self.equilibrium, (len(self.mask_probs), 1))
        found = []
        for _ in range(NUM_ROUNDS):
            actions = self.memoryless(seen)
            found.append((self.policy_return(actions), actions))
            # What is unseen depends on the way there; a little of everything stays.
            visited = self.visits(actions)
            seen = 0.5 * seen + 0.5 * (visited + 1e-3 * self.equilibrium)
        value, actions = max(found, key=lambda pair: pair[0])
        return actions, value

    def _zero_at_goal(self, values: Array) -> Array:
        values[self.task.goal] = 0.0
        return values


def product_probs(p: Array, sets: Array) -> Array:
    """Return the probability of each set of independent members, one row per row."""
    probs: Array = np.where(sets, p[:, None], 1 - p[:, None]).prod(axis=-1)
    return probs


def mask_probs(sets: Array, possible: Array, p: Array) -> Array:
    """Return the probability of each mask in each state of the chains, [K, M].

    No mask is empty: an action that is off, its number uniform above p, is offered all
    the same if that lies below its `first_member_probs` and no action before it is
    offered.
    """
    probs = np.zeros((len(sets), len(sets)))
    bits = 1 << np.arange(len(p))
    first = first_member_probs(np.where(possible, p, 0.0))
    for index, on in enumerate(sets):
        offered, left = (on & possible) @ bits, 1.0
        for action in np.flatnonzero(possible):
            chance = 1.0
            if not on[action] and p[action] < 1:
                chance = min((first[action] - p[action]) / (1 - p[action]), 1.0)
            # `subsets` lists a set at the place that its members' bits spell.
            probs[index, offered | bits[action]] += left * chance
            left *= 1 - chance
    return probs


class Worth(NamedTuple):
    """Bounds of what a memory is worth."""

    memoryless: float
    full_information: float
    simulated: float
    """Return of the memoryless policy in the environment itself, as a check."""


def worth_of_memory(task: Routing, markov: Markov, horizon: int) -> Worth:
    """Bound the return of the best agent with a memory from both sides."""
    chains = Chains(task, markov, horizon)
    actions, value = chains.best_memoryless()

    def policy(obs: Any, mask: Array) -> Array:
        place = mask @ (1 << np.arange(mask.shape[1]))
        chosen: Array = actions[obs["observation"], place]
        return chosen

    env = SASVectorEnv(task, 500, action_sets=markov, max_episode_steps=horizon)
    simulated = episode_returns(env, policy, 20_000, seed=0).mean()
    return Worth(value, informed_return(env), float(simulated))


def print_worths() -> None:
    """Print the bounds for every road map."""
    print("mean outage 10 steps; returns with an upper bound for any memory")
    print(
        f"{'road map':24} {'availability':>12} {'memoryless':>11} "
        f"{'(simulated)':>12} {'told all':>9} {'worth at most':>14}"
    )
    for name, (task, horizon, lasts) in ROAD_MAPS.items():
        for availability in (0.2, 0.5, 0.8):
            markov = outages(availability, lasts)
            worth = worth_of_memory(task, markov, horizon)
            gain = worth.full_information - worth.memoryless
            print(
                f"{name:24} {availability:12} {worth.memoryless:11.3f} "
                f"{worth.simulated:12.3f} {worth.full_information:9.3f} {gain:14.3f}",
                flush=True,
            )


if __name__ == "__main__":
    print_worths()
