"""A wrapper that adds rows of features per action to the observations."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import ArrayLike, NDArray

from sas_gym.masks import discrete_actions

ACTION_FEATURES = "action_features"


class ActionFeatures(gym.ObservationWrapper[Any, Any, Any], RecordConstructorArgs):
    """Show an agent the features of every action, one row per action.

    The rows go into the observation under the key `action_features`, where the agents
    of `sas_agents` find them: one network then scores every action by its row. A row
    of an action that does not exist in a state is zero.

    Args:
        env: An environment with Discrete actions.
        function: Called with the unwrapped environment after every reset and step;
            returns one row of features per action, in any units.
        num_features: Number of features of an action.

    Example:
        >>> def position(env):
        ...     return np.eye(2)
        >>> env = ActionFeatures(gym.make("CartPole-v1"), position, 2)
        >>> obs, info = env.reset(seed=0)
        >>> obs["action_features"]
        array([[1., 0.],
               [0., 1.]], dtype=float32)
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        function: Callable[[Any], ArrayLike],
        num_features: int,
    ) -> None:
        RecordConstructorArgs.__init__(
            self, function=function, num_features=num_features
        )
        gym.ObservationWrapper.__init__(self, env)
        self._function = function
        self._shape = int(discrete_actions(env.action_space).n), num_features
        limits = np.finfo(np.float32)
        rows = spaces.Box(limits.min, limits.max, self._shape, np.float32)
        space = env.observation_space
        self._is_dict = isinstance(space, spaces.Dict)
        parts = space.spaces if isinstance(space, spaces.Dict) else {}
        if ACTION_FEATURES in parts:
            raise ValueError(
                f"observations have the key {ACTION_FEATURES!r} already: leave out "
                "ActionFeatures, or rename the entry"
            )
        bare = parts if self._is_dict else {"observation": space}
        self.observation_space = spaces.Dict({**bare, ACTION_FEATURES: rows})

    def observation(self, observation: Any) -> dict[str, Any]:
        """Return the observation with the rows."""
        bare = observation if self._is_dict else {"observation": observation}
        return {**bare, ACTION_FEATURES: self._rows()}

    def _rows(self) -> NDArray[np.float32]:
        rows = np.asarray(self._function(self.env.unwrapped), dtype=np.float32)
        if rows.shape != self._shape:
            raise ValueError(
                "the function of ActionFeatures must return one row per action, shape "
                f"{self._shape}; got {rows.shape}"
            )
        if not np.isfinite(rows).all():
            action = int((~np.isfinite(rows)).any(axis=1).argmax())
            raise ValueError(
                f"the function of ActionFeatures returned NaN or infinity for action "
                f"{action}: return zeros where an action has no features"
            )
        return rows
