"""Three of the environments as one would write them by hand: plain scalar loops."""

import math
import random
from typing import Any

import gymnasium as gym
import numpy as np

from sas_gym import Recommender
from sas_gym.tasks._san_francisco import ROADS

AVAILABILITY = 0.8


class HandWritten(gym.Env[Any, Any]):
    """What the three share: the seed, and the action set."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        if seed is not None:
            self.rng = random.Random(seed)
        self.steps = 0
        self.start()
        return self.observe()

    def start(self) -> None:
        """Set the state to a start state."""
        raise NotImplementedError

    def observe(self) -> tuple[Any, dict[str, Any]]:
        """Return observation and info."""
        raise NotImplementedError

    def with_mask(
        self, observation: Any, num_possible: int, num_actions: int
    ) -> tuple[Any, dict[str, Any]]:
        """Draw the action set, again if empty; return observation and info."""
        mask, draw = np.zeros(num_actions, dtype=np.int8), self.rng.random
        while not mask.any():
            for action in range(num_possible):
                mask[action] = draw() < AVAILABILITY
        self.mask = mask
        obs = {"observation": observation, "action_mask": mask}
        return obs, {"action_mask": mask.copy()}

    def check(self, action: Any) -> None:
        """Raise an error if the action is unavailable."""
        if not self.mask[action]:
            raise ValueError(f"action {action} is unavailable")


class HandWrittenMap(HandWritten):
    """The San Francisco map."""

    def start(self) -> None:
        """Start anywhere but at the goal."""
        self.node = self.rng.randrange(1, 28)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Drive down a road."""
        self.check(action)
        head = ROADS[self.node][action]
        reward = -0.1 - (head == self.node) + 10.0 * (head == 0)
        self.node = head
        self.steps += 1
        obs, info = self.observe()
        return obs, reward, head == 0, self.steps >= 30, info

    def observe(self) -> tuple[Any, dict[str, Any]]:
        """Return the junction."""
        return self.with_mask(np.int64(self.node), len(ROADS[self.node]), 5)


class HandWrittenMaze(HandWritten):
    """The maze."""

    directions = tuple(
        (math.cos(2 * math.pi * k / 16), math.sin(2 * math.pi * k / 16))
        for k in range(16)
    )

    def start(self) -> None:
        """Start at the start."""
        self.x, self.y = 0.25, 0.1

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take the micro-steps."""
        self.check(action)
        arrived = self.move(*self.directions[action])
        self.steps += 1
        obs, info = self.observe()
        reward = 99.95 if arrived else -0.05
        return obs, reward, arrived, self.steps >= 80, info

    def move(self, push_x: float, push_y: float) -> bool:
        """Move until something stops the robot; return whether it is the goal."""
        draw = self.rng.random
        for _ in range(5):
            dx, dy = push_x, push_y
            if draw() < 0.2:
                dx, dy = draw() / 1.415, draw() / 1.415
            x, y = self.x + dx * 0.045, self.y + dy * 0.045
            if not (0 <= x <= 1 and 0 <= y <= 1) or (
                (x <= 0.5 and 0.25 <= y <= 0.3)
                or (0.5 <= x <= 0.55 and 0.25 <= y <= 0.8)
            ):
                return False
            self.x, self.y = x, y
            if 0.22 <= x <= 0.28 and 0.47 <= y <= 0.53:
                return True
        return False

    def observe(self) -> tuple[Any, dict[str, Any]]:
        """Return the position."""
        return self.with_mask(np.array([self.x, self.y], dtype=np.float32), 16, 16)


class HandWrittenRecommender(HandWritten):
    """The recommender, with the same products."""

    def __init__(self) -> None:
        task = Recommender()
        self.topic, self.complement = task.topic.tolist(), task.complement.tolist()
        self.profit, self.pull = task.profit.tolist(), task.pull.tolist()
        self.appeal = task.appeal.tolist()

    def start(self) -> None:
        """Draw a new user."""
        taste = [self.rng.random() for _ in range(10)]
        most = max(taste)
        self.interest = [(u / most) ** 16 for u in taste]

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Recommend a product."""
        self.check(action)
        interest, topic, reward = self.interest, self.topic[action], 0.0
        if self.rng.random() < self.appeal[action] * interest[topic]:
            reward, pull = self.profit[action], self.pull[action]
            self.interest = [x - pull * x for x in interest]
            self.interest[self.complement[action]] += pull
        else:
            interest[topic] *= 0.8
        self.steps += 1
        obs, info = self.observe()
        return obs, reward, self.steps == 5, False, info

    def observe(self) -> tuple[Any, dict[str, Any]]:
        """Return the context."""
        context = [*self.interest, 1 - self.steps / 5]
        return self.with_mask(np.array(context, dtype=np.float32), 100, 100)
