"""A user's own environment: dispatching a fleet of drivers, in plain Gymnasium.

    python examples/dispatch.py

The environment uses Gymnasium alone, neither `sas_gym` nor `sas_agents`, and returns
its action mask in the same place as Gymnasium's Taxi. The command plays two rules,
which show how good a return can be, and trains an agent. `--steps` shortens the
training.

It needs `pip install ".[agents]"` in a clone of the repository.
"""

from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from numpy.typing import NDArray

Observation = dict[str, NDArray[np.float32]]
Rule = Callable[[Observation, NDArray[np.int8]], int]
"""From an observation and its action mask to an action."""


class Dispatch(gym.Env[Any, Any]):
    """Assign every order to one of the drivers who are free.

    The city is a square with sides of length 1. An order comes every two minutes, with
    a pickup and a destination drawn uniformly. The driver who gets it drives to the
    pickup and on to the destination, and is busy until then. An order earns a fare of
    2; the way to the pickup costs 4.5 per unit of length. If every driver is busy, time
    passes until the first is free.

    Observations are a dict: `distance` (of each driver from the pickup, now or when
    free again), `hours_left` (until each one is free), `pickup` and `destination` of
    the order. The mask is in `info["action_mask"]`, and `action_masks()` returns it.

    Args:
        num_drivers: Size of the fleet, and number of actions.
    """

    FARE, COST = 2.0, 4.5
    HOURS_PER_ORDER = 1 / 30
    SPEED = 1.0  # Lengths of the city's side per hour.

    def __init__(self, num_drivers: int = 50) -> None:
        self.num_drivers = num_drivers
        self.action_space = Discrete(num_drivers)
        self.observation_space = Dict(
            {
                "distance": Box(0.0, 1.5, (num_drivers,)),
                "hours_left": Box(0.0, 3.0, (num_drivers,)),
                "pickup": Box(0.0, 1.0, (2,)),
                "destination": Box(0.0, 1.0, (2,)),
            }
        )

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,  # noqa: ARG002  # Gymnasium's signature
    ) -> tuple[Observation, dict[str, Any]]:
        """Put the drivers anywhere, all free, and draw the first order."""
        super().reset(seed=seed)
        self.drivers = self.np_random.random((self.num_drivers, 2))
        self.hours_left = np.zeros(self.num_drivers)
        self._draw_order()
        return self._observation(), self._info()

    def step(
        self, action: int
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Send a driver, let time pass, and draw the next order."""
        if self.hours_left[action] > 0:
            raise ValueError(f"driver {action} is busy")
        way = float(np.linalg.norm(self.drivers[action] - self.pickup))
        trip = float(np.linalg.norm(self.destination - self.pickup))
        self.drivers[action] = self.destination
        self.hours_left[action] = (way + trip) / self.SPEED
        hours = max(self.HOURS_PER_ORDER, self.hours_left.min())
        self.hours_left = np.maximum(self.hours_left - hours, 0.0)
        self._draw_order()
        reward = self.FARE - self.COST * way
        return self._observation(), reward, False, False, self._info()

    def action_masks(self) -> NDArray[np.bool_]:
        """Return who is free, as sb3-contrib's MaskablePPO asks."""
        free: NDArray[np.bool_] = self.hours_left == 0
        return free

    def _distance(self) -> NDArray[np.float64]:
        distance: NDArray[np.float64]
        distance = np.linalg.norm(self.drivers - self.pickup, axis=1)
        return distance

    def _draw_order(self) -> None:
        self.pickup, self.destination = self.np_random.random((2, 2))

    def _observation(self) -> Observation:
        return {
            "distance": self._distance().astype(np.float32),
            "hours_left": self.hours_left.astype(np.float32),
            "pickup": self.pickup.astype(np.float32),
            "destination": self.destination.astype(np.float32),
        }

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self.action_masks().astype(np.int8)}


gym.register("sas_examples/Dispatch-v0", f"{__name__}:Dispatch", max_episode_steps=60)


def nearest_driver(obs: Observation, mask: NDArray[np.int8]) -> int:
    """Send the free driver who is nearest to the pickup."""
    return int(np.where(mask, obs["distance"], np.inf).argmin())


def play(rule: Rule | None, num_episodes: int = 200) -> NDArray[np.float64]:
    """Return the returns of episodes played by a rule, or by anyone who is free."""
    env: Any = gym.make("sas_examples/Dispatch-v0")
    env.action_space.seed(0)
    returns = np.zeros(num_episodes)
    for episode in range(num_episodes):
        (obs, info), ended = env.reset(seed=episode), False
        while not ended:
            mask = info["action_mask"]
            action = rule(obs, mask) if rule else env.action_space.sample(mask)
            obs, reward, terminated, truncated, info = env.step(action)
            returns[episode] += float(reward)
            ended = terminated or truncated
    return returns


def main() -> None:
    """Play the rules, then train and evaluate an agent."""
    from stable_baselines3.common.evaluation import evaluate_policy

    from sas_agents import MaskedPPO, make_vec_env

    parser = ArgumentParser(description="A user's own problem: dispatching drivers.")
    parser.add_argument("--steps", type=int, default=100_000, help="of training")
    parser.add_argument("--episodes", type=int, default=200, help="of evaluation")
    arguments = parser.parse_args()

    print(f"random driver: {play(None, arguments.episodes).mean():.1f}")
    print(f"nearest driver: {play(nearest_driver, arguments.episodes).mean():.1f}")
    env = make_vec_env("sas_examples/Dispatch-v0", n_envs=8, seed=0)
    model = MaskedPPO("MultiInputPolicy", env, seed=0).learn(arguments.steps)
    mean, deviation = evaluate_policy(model, env, n_eval_episodes=arguments.episodes)
    steps = f"{model.num_timesteps:,} steps"
    print(f"MaskedPPO after {steps}: {mean:.1f} (deviation {deviation:.1f})")


if __name__ == "__main__":
    main()
