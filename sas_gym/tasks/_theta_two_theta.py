"""The theta -> 2 theta counterexample."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium as gym
import numpy as np
from jaxtyping import Float32
from numpy.random import Generator
from numpy.typing import ArrayLike

from sas_gym._types import NDArray
from sas_gym.action_sets import Independent
from sas_gym.tasks._task import Actions, Rewards, States, Task, Terminations

if TYPE_CHECKING:
    from sas_gym.tasks._tabular import TabularSASMDP

LEFT, RIGHT = 0, 1


class ThetaTwoTheta(Task):
    """The smallest SAS-MDP in which a replayed update of SAS-Q-learning diverges.

    ## Description
    Two states with the features 1 and 2, and an action value that is linear in them:
    q(s, a) = x(s) theta_a. Start from theta = (-2, -5) and replay, again and again, the
    one transition from state 1 by `right` to state 2, where `left` is then unavailable.
    SAS-Q-learning multiplies theta_2 by 1 + eta at every update, and diverges at every
    step size eta. With the maximum over all actions theta_2 converges to -4. The right
    answer is 0.

    Only that replay diverges. An agent that plays here, as in `SASQ.learn`, learns from
    the other transitions too, and with the same feature theta converges to 0.

    ## Action Space
    `Discrete(2)`: 0 is `left` and leads to state 1, 1 is `right` and leads to state 2,
    from either state.

    ## Action Sets
    Each action is available with probability `availability`, independently of the other
    and of the past; never none.

    ## Observation Space
    The state's feature, `Box(1.0, 2.0, (1,), float32)`, and the mask.

    ## Rewards
    0, always.

    ## Starting State
    State 1.

    ## Episode End
    Truncated after 10 steps. Nothing terminates.

    ## Information
    * `action_mask`: the action set as int8, 1 where an action is available.
    * In vector form also `_action_mask` and, when an episode has ended, `final_obs`,
      `_final_obs`, `final_info` and `_final_info`: see `SASVectorEnv`.

    ## Arguments
    * `availability` (default 0.8): one probability, or one per action.

    ## Optimal Value
    0: every policy is optimal.

    ## References
    Chandak, Theocharous, Metevier and Thomas (2020), "Reinforcement Learning When All
    Actions are Not Always Available", AAAI; after Tsitsiklis and Van Roy.

    ## Version History
    * v0: First release. Without `on_unavailable="noop"`, which drew a new action set at
      no cost and so beat the optimum: unavailable actions raise or are replaced.
      `Markov` needs an action that is always there: no set is drawn again.
    """

    behaviour_version: ClassVar[int] = 1

    num_states = 2
    num_actions = 2
    observation_space = gym.spaces.Box(1.0, 2.0, (1,), np.float32)

    def __init__(self, availability: ArrayLike = 0.8) -> None:
        self.action_sets = Independent(availability)

    def reset(self, num_envs: int, rng: Generator) -> States:
        """Start on the left."""
        return np.full(num_envs, LEFT)

    def transition(
        self, state: States, action: Actions, rng: Generator
    ) -> tuple[States, Rewards, Terminations]:
        """Go where the action points."""
        return action.copy(), np.zeros(len(state)), np.zeros(len(state), dtype=bool)

    def observe(self, state: States) -> Float32[NDArray[Any], "N 1"]:
        """Return the feature x(s): 1 on the left and 2 on the right."""
        return (state[:, None] + 1).astype(np.float32)

    @property
    def action_names(self) -> Sequence[str]:
        """Names of the actions."""
        return "left", "right"

    def describe(self, state: Any) -> str:
        """Return on which side the state is."""
        return f"on the {self.action_names[int(state)]}"

    def tabular(self) -> "TabularSASMDP":
        """Return the two states as arrays, undiscounted."""
        from sas_gym.tasks._tabular import TabularSASMDP  # SciPy loads on first use

        return TabularSASMDP(
            np.tile(np.eye(2), (2, 1, 1)),
            np.zeros((2, 2)),
            self.action_sets,
            initial_distribution=[1.0, 0.0],
            task=self,
        )
