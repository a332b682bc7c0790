"""Routing on the real freeways round the San Francisco Bay."""

from pathlib import Path
from typing import ClassVar

import numpy as np

from sas_gym.tasks._routing import Routing

BRIDGE = (6, 9)
"""The Bay Bridge: its Oakland and its San Francisco end."""
METRES_PER_KILOMETRE = 1000.0

_DATA = Path(__file__).parent.parent / "data"


class BayArea(Routing):
    """Drive round the San Francisco Bay while freeways open and close.

    ## Description
    33 junctions and 53 two-way links of the real freeway network, with their lengths.
    The Bay Bridge can have a probability of its own: as it fails, the shortest route is
    worth less and less, and an agent that plans as if all roads were open waits at it
    forever.

    ## Action Space
    `Discrete(5)`: the index of the outgoing link, and 4 is to wait. Where a junction
    has fewer than four links, the remaining actions are never available.

    ## Action Sets
    Each link is open with probability `availability`, the Bay Bridge (6-9) with
    `bridge_availability`, independently of the others and of the past. Waiting is
    always available.

    ## Observation Space
    The junction, `Discrete(33)`, and the mask.

    ## Rewards
    Minus the length of the link in kilometres; minus `wait_cost` for waiting.

    ## Starting State
    Any junction but the goal, uniformly; or `start`.

    ## Episode End
    Terminated at the goal. Truncated after 200 steps.

    ## Information
    * `action_mask`: the action set as int8, 1 where an action is available.
    * In vector form also `_action_mask` and, when an episode has ended, `final_obs`,
      `_final_obs`, `final_info` and `_final_info`: see `SASVectorEnv`.

    ## Arguments
    * `availability` (default 0.8), `bridge_availability` (default: the same).
    * `start` (default `None`: at random), `goal` (6, the Oakland end of the Bay
      Bridge).
    * `wait_cost` (5.0), in kilometres.

    ## Optimal Value
    From the San Francisco end (`start=9`) with `availability=0.5`, as the probability
    of the bridge falls: -11.3 (at 1), -12.5 (0.8), -18.8 (0.4), -31.3 (0.2), -56.3
    (0.1), -68.8 (0.05), -72.8 (0.02), -74.1 (0.01).

    ## References
    Made from the `us_freeway` graph of the Python package scgraph 2.14.0 (MIT licence,
    Copyright (c) its authors; upstream named there as the U.S. Department of
    Transportation). The task follows Boutilier, Cohen, Hassidim, Mansour, Meshi,
    Mladenov and Schuurmans (2018), "Planning and Learning with Stochastic Action Sets",
    IJCAI.

    ## Version History
    * v0: First release. Without `on_unavailable="noop"`, which drew a new action set at
      no cost and so beat the optimum: unavailable actions raise or are replaced.
      Closures that last belong to links, both ways, not to the numbers of actions.
    """

    behaviour_version: ClassVar[int] = 1

    def __init__(
        self,
        availability: float = 0.8,
        bridge_availability: float | None = None,
        *,
        start: int | None = None,
        goal: int = BRIDGE[0],
        wait_cost: float = 5.0,
    ) -> None:
        nodes = np.loadtxt(_DATA / "bay_area_nodes.csv", delimiter=",", skiprows=1)
        links = np.loadtxt(
            _DATA / "bay_area_edges.csv", delimiter=",", skiprows=1, dtype=np.int64
        )
        u, v, metres = links.T
        tail, head = np.concatenate([u, v]), np.concatenate([v, u])
        kilometres = np.tile(metres / METRES_PER_KILOMETRE, 2)
        probability = np.full(len(tail), availability, dtype=np.float64)
        if bridge_availability is not None:
            is_bridge = np.isin(tail, BRIDGE) & np.isin(head, BRIDGE)
            probability[is_bridge] = bridge_availability
        super().__init__(
            tail,
            head,
            -kilometres,
            probability,
            num_nodes=len(nodes),
            goal=goal,
            start=start,
            wait_cost=wait_cost,
            positions=nodes[:, 1:],
        )
