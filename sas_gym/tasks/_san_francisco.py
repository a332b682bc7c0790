"""Routing on the San Francisco map of the SAS-MDP papers."""

from typing import ClassVar

import numpy as np

from sas_gym.tasks._routing import Routing

# Outgoing roads of each junction, in the order of their actions.
ROADS = (
    (1, 26), (0, 2, 3), (1, 3, 4), (1, 2, 5), (2, 4, 6), (3, 4, 7), (4, 7, 8),
    (5, 6, 9, 15), (6, 9, 10), (7, 8, 11, 12), (8, 11, 13), (9, 10, 12, 14),
    (9, 11, 15), (10, 14, 18), (11, 13, 17), (7, 12, 16), (15, 17, 21),
    (14, 16, 18, 20), (13, 17, 19), (18, 20), (17, 19, 21, 22, 23), (5, 16, 20, 22),
    (20, 21, 24), (20, 24, 26), (23, 25), (22, 24, 27), (23, 27), (0, 25, 26, 27),
)  # fmt: skip
BRIDGE = (27, 0)

# Where to draw the junctions: a schematic layout without crossings, not geography.
POSITIONS = (
    (1.00, 0.25), (0.98, 0.04), (0.76, 0.01), (0.80, 0.20), (0.52, 0.00), (0.61, 0.27),
    (0.24, 0.00), (0.37, 0.19), (0.00, 0.15), (0.15, 0.27), (0.00, 0.45), (0.14, 0.54),
    (0.28, 0.42), (0.00, 0.76), (0.18, 0.74), (0.46, 0.41), (0.41, 0.62), (0.37, 0.84),
    (0.16, 0.97), (0.40, 1.00), (0.63, 0.95), (0.61, 0.62), (0.73, 0.80), (1.00, 0.93),
    (0.89, 0.81), (0.80, 0.65), (1.00, 0.58), (0.79, 0.46),
)  # fmt: skip


class SanFrancisco(Routing):
    """Find the way to one end of the bridge while roads open and close.

    ## Description
    A schematic road map of San Francisco with 28 junctions. Which of a junction's roads
    are open changes at every step, so the shortest path is not a path but a preference
    between roads.

    ## Action Space
    `Discrete(5)`: the index of the outgoing road. Where a junction has fewer roads, the
    remaining actions are never available.

    ## Action Sets
    Each road is open with probability `availability`, the bridge (27 -> 0) with
    `bridge_availability`, independently of the others and of the past; never none.

    ## Observation Space
    The junction, `Discrete(28)`, and the mask.

    ## Rewards
    -0.1 per step, a further -1 for a road that leads back to where it started, and +10
    on arrival.

    ## Starting State
    Any junction but the goal, uniformly; or `start`.

    ## Episode End
    Terminated at the goal, junction 0. Truncated after 30 steps.

    ## Information
    * `action_mask`: the action set as int8, 1 where an action is available.
    * In vector form also `_action_mask` and, when an episode has ended, `final_obs`,
      `_final_obs`, `final_info` and `_final_info`: see `SASVectorEnv`.

    ## Arguments
    * `availability` (default 0.8), `bridge_availability` (default: the same).
    * `start` (default `None`: at random), `goal` (0).
    * `wait_cost` (`None`: one cannot wait): cost of waiting for a step, one more
      action. Closures that last (`action_sets=PerEpisode(0.8)`) need it.
    * `step_reward` (-0.1), `loop_reward` (-1), `goal_reward` (10).

    ## Optimal Value
    3.967 at availability 0.2, 7.567 at 0.4, 9.047 at 0.6, 9.432 at 0.8 and 9.596 at 1,
    undiscounted. A uniformly random choice among the open roads has 0.341 at each of
    them.

    ## References
    Boutilier, Cohen, Hassidim, Mansour, Meshi, Mladenov and Schuurmans (2018),
    "Planning and Learning with Stochastic Action Sets", IJCAI; Chandak, Theocharous,
    Metevier and Thomas (2020), "Reinforcement Learning When All Actions are Not Always
    Available", AAAI.

    ## Version History
    * v0: First release. Without `on_unavailable="noop"`, which drew a new action set at
      no cost and so beat the optimum: unavailable actions raise or are replaced.
      Closures that last belong to streets, both ways, not to the numbers of actions.
    """

    behaviour_version: ClassVar[int] = 1

    def __init__(
        self,
        availability: float = 0.8,
        bridge_availability: float | None = None,
        *,
        start: int | None = None,
        wait_cost: float | None = None,
        goal: int = 0,
        step_reward: float = -0.1,
        loop_reward: float = -1.0,
        goal_reward: float = 10.0,
    ) -> None:
        roads = [(tail, head) for tail, heads in enumerate(ROADS) for head in heads]
        tail, head = np.array(roads).T
        reward = (
            step_reward + loop_reward * (tail == head) + goal_reward * (head == goal)
        )
        probability = np.full(len(roads), availability, dtype=np.float64)
        if bridge_availability is not None:
            probability[roads.index(BRIDGE)] = bridge_availability
        super().__init__(
            tail,
            head,
            reward,
            probability,
            num_nodes=len(ROADS),
            goal=goal,
            start=start,
            wait_cost=wait_cost,
            positions=np.array(POSITIONS),
        )
