"""SAS-PG as the paper's authors wrote it: scalar NumPy on a scalar environment."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from by_hand import HandWritten, HandWrittenMap, HandWrittenMaze
from numpy.typing import NDArray

Features = Callable[[Any], NDArray[np.float64]]
FREQUENCIES = math.pi * np.array(list(product(range(4), repeat=2)))
IDENTITY = np.eye(28)


def fourier(position: Any) -> NDArray[np.float64]:
    """Return the coupled Fourier basis of order 3."""
    features: NDArray[np.float64] = np.cos(FREQUENCIES @ position)
    return features


def one_hot(node: Any) -> NDArray[np.float64]:
    """Return the one-hot encoding of a junction."""
    features: NDArray[np.float64] = IDENTITY[node]
    return features


class ReinforceByHand:
    """Algorithm 1: an update per episode, with the two baselines and their weights."""

    def __init__(
        self, env: HandWritten, features: Features, num_features: int, num_actions: int
    ) -> None:
        self.env, self.features = env, features
        self.rng = np.random.default_rng(0)
        self.theta = np.zeros((num_features, num_actions))
        self.q = np.zeros((num_features, num_actions))
        self.v = np.zeros(num_features)
        self.weights = np.array([-0.5, -0.5])
        self.num_steps = 0
        env.reset(seed=0)

    def probs(self, x: NDArray[Any], mask: NDArray[Any]) -> NDArray[np.float64]:
        """Return the masked softmax."""
        logits = x @ self.theta
        exponential = np.exp(logits - logits[mask == 1].max()) * mask
        probs: NDArray[np.float64] = exponential / exponential.sum()
        return probs

    def episode(self) -> None:
        """Play an episode and learn from it."""
        steps, ended = [], False
        obs, _ = self.env.reset()
        while not ended:
            x = self.features(obs["observation"])
            probs = self.probs(x, obs["action_mask"])
            action = int(self.rng.choice(len(probs), p=probs))
            obs, reward, terminated, truncated, _ = self.env.step(action)
            steps.append((x, probs, action, reward))
            ended = terminated or truncated
        self.num_steps += len(steps)
        self.update(steps)

    def update(self, steps: list[Any]) -> None:
        """Take the steps of Algorithm 1, back from the end of the episode."""
        following, gram, cross = 0.0, np.zeros((2, 2)), np.zeros(2)
        for x, probs, action, reward in reversed(steps):
            following = reward + 0.99 * following
            q_bar, v = float(x @ self.q @ probs), float(x @ self.v)
            residual = -probs
            residual[action] += 1
            baselines = np.array([v, q_bar])
            squared = (x @ x) * (residual @ residual)
            gram += squared * np.outer(baselines, baselines)
            cross += squared * following * baselines
            advantage = following + self.weights @ baselines
            self.theta += 1e-3 * advantage * np.outer(x, residual)
            self.v += 1e-3 * (following - v) * x
            self.q += 1e-3 * (following - q_bar) * np.outer(x, probs)
        best = -np.linalg.solve(gram + 1e-3 * np.eye(2), cross)
        self.weights = 0.999 * self.weights + 0.001 * best


def on_map() -> ReinforceByHand:
    """Return the algorithm on the map."""
    return ReinforceByHand(HandWrittenMap(), one_hot, 28, 5)


def on_maze() -> ReinforceByHand:
    """Return the algorithm in the maze."""
    return ReinforceByHand(HandWrittenMaze(), fourier, 16, 16)
