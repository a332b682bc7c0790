"""Playing environments, and keeping all that they return."""

from typing import Any

import gymnasium as gym
import numpy as np

from sas_gym.masks import sample_actions


def available_by(env_id: str, probability: float) -> dict[str, Any]:
    """Return the argument that makes actions so available, if the rules let it."""
    task: Any = gym.make(env_id).unwrapped
    return {} if task.task.rules_decide else {"availability": probability}


def random_action(mask, rng):
    return sample_actions(mask[None], rng)[0]


def first_action(mask, _):
    return np.flatnonzero(mask)[0]


def play(env, num_steps, seed=0, policy=random_action):
    """Return all that an environment returns over many steps and resets."""
    rng = np.random.default_rng(seed)
    returned = [env.reset(seed=seed)]
    for _ in range(num_steps):
        action = policy(returned[-1][-1]["action_mask"], rng)
        returned.append(env.step(action))
        if returned[-1][2] or returned[-1][3]:
            returned.append(env.reset())
    return returned


def play_vector(env, num_steps, seed=0):
    rng = np.random.default_rng(seed)
    returned = [env.reset(seed=seed)]
    for _ in range(num_steps):
        action = sample_actions(returned[-1][-1]["action_mask"], rng)
        returned.append(env.step(action))
    return returned
