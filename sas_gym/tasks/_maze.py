"""A maze for a robot whose actuators fail."""

from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from jaxtyping import Bool, Float, Float32
from numpy.random import Generator
from numpy.typing import ArrayLike

from sas_gym._arguments import (
    check_finite_number,
    check_integer,
    check_number,
    finite_array,
)
from sas_gym._types import Floats, Mask, NDArray
from sas_gym.action_sets import Independent
from sas_gym.tasks._task import Actions, Rewards, States, Task, Terminations

Box = tuple[float, float, float, float]
"""A rectangle: lowest and highest x, lowest and highest y, borders included."""

WALLS: tuple[Box, ...] = ((0.0, 0.50, 0.25, 0.30), (0.50, 0.55, 0.25, 0.80))
GOAL: Box = (0.22, 0.28, 0.47, 0.53)
_SQUARE: Box = (0.0, 1.0, 0.0, 1.0)
# The published code divides a random push, uniform on the unit square, by this.
_PUSH_SCALE = np.array(1.415)
_ROUNDING = 1e-9


class Maze(Task):
    """Walk round two walls with 16 actuators, not all of which work.

    ## Description
    A robot in the unit square has actuators that point in equally spaced directions.
    Switching one on moves the robot along it; each is unreliable, and which of them
    work changes at every step. The goal lies behind an L of two walls.

    ## Action Space
    `Discrete(16)`: actuator k pushes along (cos 2 pi k / 16, sin 2 pi k / 16). An
    action is 5 micro-steps of length 0.045. Each of them is, with probability 0.2,
    replaced by a random push: a point uniform on the unit square, divided by 1.415,
    times 0.045. A micro-step that would leave the square or enter a wall does not
    happen and ends the action.

    ## Action Sets
    Each actuator is available with probability `availability`, independently of the
    others, of the position and of the past; never none.

    ## Observation Space
    The position, `Box(0.0, 1.0, (2,), float32)`, and the mask.

    ## Rewards
    -0.05 per action, and +100 at the goal.

    ## Starting State
    (0.25, 0.10).

    ## Episode End
    Terminated in the goal, [0.22, 0.28] x [0.47, 0.53], which is checked after every
    micro-step. Truncated after 80 actions.

    ## Information
    * `action_mask`: the action set as int8, 1 where an action is available.
    * In vector form also `_action_mask` and, when an episode has ended, `final_obs`,
      `_final_obs`, `final_info` and `_final_info`: see `SASVectorEnv`.

    ## Arguments
    * `availability` (default 0.8): one probability, or one per actuator.
    * `num_actuators` (16).
    * `num_micro_steps` (5), `step_length` (0.045): an action's parts and their length.
    * `noise` (0.2): probability that a micro-step is a random push.
    * `walls`, `goal`: boxes (lowest x, highest x, lowest y, highest y). A wall must be
      at least as thick as a micro-step is long, or it could be jumped.
    * `start` ((0.25, 0.10)), `step_reward` (-0.05), `goal_reward` (100).

    ## Optimal Value
    No closed form. On a fine grid (`sas_gym.planning.approximations`), undiscounted:
    98.86 at availability 0.2, 99.36 at 0.4, 99.48 at 0.6, 99.53 at 0.8 and 99.56 at 1,
    each within 0.02.

    ## References
    Chandak, Theocharous, Metevier and Thomas (2020), "Reinforcement Learning When All
    Actions are Not Always Available", AAAI.

    ## Version History
    * v0: First release. Without `on_unavailable="noop"`, which drew a new action set at
      no cost and so beat the optimum: unavailable actions raise or are replaced.
      `Markov` needs an action that is always there: no set is drawn again.
    """

    behaviour_version: ClassVar[int] = 1

    observation_space = gym.spaces.Box(0.0, 1.0, (2,), np.float32)

    def __init__(
        self,
        availability: ArrayLike = 0.8,
        *,
        num_actuators: int = 16,
        num_micro_steps: int = 5,
        step_length: float = 0.045,
        noise: float = 0.2,
        walls: Sequence[Box] = WALLS,
        goal: Box = GOAL,
        start: tuple[float, float] = (0.25, 0.10),
        step_reward: float = -0.05,
        goal_reward: float = 100.0,
    ) -> None:
        check_integer("num_actuators", num_actuators, least=1)
        check_integer("num_micro_steps", num_micro_steps, least=1)
        if not 0 < step_length < 1:
            raise ValueError(f"step_length must be in (0, 1), got {step_length}")
        check_number("noise", noise, most=1)
        self.action_sets = Independent(availability)
        self.num_actions = num_actuators
        self.num_micro_steps = num_micro_steps
        self.step_length = step_length
        self.noise = noise
        self.walls = _boxes("walls", walls)
        self.goal = _goal(goal)
        self.start = finite_array("start", start)
        check_finite_number("step_reward", step_reward)
        check_finite_number("goal_reward", goal_reward)
        self.step_reward = step_reward
        self.goal_reward = goal_reward
        boxes = np.stack([self.goal, _SQUARE, *self.walls]).T.copy()
        # By coordinate, box and point: each box meets all points in a row.
        self._low, self._high = boxes[0::2, :, None], boxes[1::2, :, None]
        self._noise, self._step_length = np.array(noise), np.array(step_length)
        self._micro_steps = (self.directions * step_length).T
        self._rewards = np.array([step_reward, step_reward + goal_reward])
        self._check_walls()
        self._check_goal()
        self._check_start()

    @property
    def directions(self) -> Float[Floats, "A 2"]:
        """Unit vector along which each actuator pushes."""
        angle = 2 * np.pi * np.arange(self.num_actions) / self.num_actions
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)

    @property
    def action_names(self) -> Sequence[str]:
        """Names of the actions: the directions of the actuators, in degrees."""
        angles = 360 * np.arange(self.num_actions) / self.num_actions
        return [f"{angle:g} degrees" for angle in angles]

    def describe(self, state: Any) -> str:
        """Return a position in words."""
        x, y = state
        return f"at ({x:.2f}, {y:.2f})"

    def reset(self, num_envs: int, rng: Generator) -> States:
        """Start at the start."""
        return np.tile(self.start, (num_envs, 1))

    def transition(
        self, state: States, action: Actions, rng: Generator
    ) -> tuple[States, Rewards, Terminations]:
        """Take all micro-steps at once, and go back to where the first stop was.

        Motion only ever stops, so the path is a cumulative sum that is cut: 5 to 6
        times faster than one micro-step after the other, and the same to the last bit.
        """
        path = self._path(state, action, rng)
        *_, num_points = path.shape
        points = path.reshape(2, -1)
        blocked, in_goal = self._blocked_and_in_goal(points)
        stops = (blocked | in_goal).reshape(-1, num_points)
        stops[:, 0], stops[:, -1] = False, True
        stop = stops.argmax(axis=1) + np.arange(0, stops.size, num_points)
        stop -= blocked.take(stop).astype(np.intp)
        arrived = in_goal.take(stop)
        return points.take(stop, axis=1).T, self._rewards.take(arrived), arrived

    def _path(
        self, state: States, action: Actions, rng: Generator
    ) -> Float[Floats, "2 N T"]:
        """Return the points before and after each micro-step, as if nothing stopped."""
        draws = rng.random((3, self.num_micro_steps, len(state)))
        is_random, push = draws[0] < self._noise, draws[1:].reshape(-1, len(state), 2)
        path = np.empty((2, len(state), self.num_micro_steps + 1))
        path[..., 0] = state.T
        micro_steps = path[..., 1:]
        micro_steps[:] = self._micro_steps.take(action, axis=1)[..., None]
        push = push.T / _PUSH_SCALE * self._step_length
        np.copyto(micro_steps, push, where=is_random.T)
        # It adds in order, and so rounds as one micro-step after the other does.
        return np.add.accumulate(path, axis=2)

    def observe(self, state: States) -> Float32[NDArray[Any], "N 2"]:
        """Return the position in single precision."""
        return state.astype(np.float32)

    def is_free(self, position: Float[Floats, "N 2"]) -> Bool[Mask, " N"]:
        """Return which positions are in the square and in no wall."""
        blocked, _ = self._blocked_and_in_goal(position.T)
        return ~blocked

    def _blocked_and_in_goal(
        self, points: Float[Floats, "2 N"]
    ) -> tuple[Bool[Mask, " N"], Bool[Mask, " N"]]:
        """Return which points cannot be entered, and which ones are in the goal."""
        points = points[:, None]
        within = (points >= self._low) & (points <= self._high)
        in_goal, in_square, *in_walls = within[0] & within[1]
        blocked: Mask = ~in_square
        for in_wall in in_walls:
            blocked |= in_wall
        return blocked, in_goal

    def _check_walls(self) -> None:
        for x_low, x_high, y_low, y_high in self.walls:
            if min(x_high - x_low, y_high - y_low) < self.step_length - _ROUNDING:
                raise ValueError(
                    f"wall ({x_low}, {x_high}, {y_low}, {y_high}) is thinner than a "
                    f"micro-step ({self.step_length}) and could be jumped: make it "
                    "thicker, or step_length shorter"
                )

    def _check_goal(self) -> None:
        # The walls' edges cut the goal into cells, each of them free or in a wall.
        low, high = self.goal[0::2], self.goal[1::2]
        edges = np.vstack([low, high, self.walls[:, 0::2], self.walls[:, 1::2]])
        x, y = (np.unique(edge) for edge in edges.clip(low, high).T)
        middles = np.meshgrid((x[1:] + x[:-1]) / 2, (y[1:] + y[:-1]) / 2)
        if not self.is_free(np.stack(middles, axis=-1).reshape(-1, 2)).any():
            raise ValueError(
                f"goal {tuple(self.goal.tolist())} can never be entered: it needs an "
                "area, and a part of it outside the walls"
            )

    def _check_start(self) -> None:
        if self.start.shape != (2,) or not self.is_free(self.start[None])[0]:
            raise ValueError(
                "start must be a point (x, y) in the unit square and in no wall, got "
                f"{self.start.tolist()}"
            )
        if inside(self.start[None], self.goal)[0]:
            raise ValueError(
                f"start {self.start.tolist()} lies in the goal: move either"
            )


def inside(
    position: Float[Floats, "*#N 2"], box: Float[Floats, "*#N 4"]
) -> Bool[Mask, "*N"]:
    """Return whether positions lie in boxes, broadcast."""
    within = (position >= box[..., 0::2]) & (position <= box[..., 1::2])
    inside: Mask = within[..., 0] & within[..., 1]
    return inside


def _goal(goal: Box) -> Floats:
    boxes = _boxes("goal", [goal])
    if len(boxes) != 1 or boxes.min() < 0 or boxes.max() > 1:
        raise ValueError(
            "goal must be one box (lowest x, highest x, lowest y, highest y) in the "
            f"unit square, got {boxes.tolist()}"
        )
    box: Floats = boxes[0]
    return box


def _boxes(name: str, boxes: Sequence[Box]) -> Floats:
    array = np.asarray(boxes, dtype=np.float64)
    if array.size % 4:
        raise ValueError(
            f"{name} must be boxes (lowest x, highest x, lowest y, highest y), got "
            f"{array.tolist()}"
        )
    array = array.reshape(-1, 4)
    if not ((array[:, 0::2] <= array[:, 1::2]).all() and np.isfinite(array).all()):
        raise ValueError(
            f"{name} must be boxes (lowest x, highest x, lowest y, highest y), got "
            f"{array.tolist()}"
        )
    return array
