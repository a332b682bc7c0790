"""A tour of the environments: what random play is worth, and how each one looks.

python examples/tour.py
"""

from pathlib import Path

import gymnasium as gym
import numpy as np
from matplotlib.image import imsave
from numpy.typing import NDArray

from sas_gym import SPECS, RandomPolicy, episode_returns
from sas_gym.masks import sample_actions

NUM_EPISODES = 10_000
NUM_FRAMES = 3
PICTURES = Path(__file__).parent / "pictures"


def random_return(env_id: str) -> tuple[float, float]:
    """Return the mean return of random play, and its standard error."""
    env = gym.make_vec(env_id, num_envs=500)
    returns = episode_returns(env, RandomPolicy(seed=0), NUM_EPISODES, seed=0)
    return returns.mean(), returns.std(ddof=1) / np.sqrt(len(returns))


def film_strip(env_id: str) -> NDArray[np.uint8]:
    """Draw the first steps of an episode side by side: the action set changes."""
    env = gym.make(env_id, render_mode="rgb_array")
    rng = np.random.default_rng(2)
    _, info = env.reset(seed=2)
    frames = [env.render()]
    while len(frames) < NUM_FRAMES:
        action = sample_actions(info["action_mask"][None], rng)[0]
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            _, info = env.reset()
        frames.append(env.render())
    return np.concatenate(frames, axis=1)


def main() -> None:
    """Print the table and save the pictures."""
    PICTURES.mkdir(exist_ok=True)
    print(f"Random play, {NUM_EPISODES:,} episodes, default arguments, seed 0")
    print(f"{'environment':24} {'actions':>7} {'mean return':>12} {'std. error':>11}")
    for task in SPECS:
        num_actions = gym.make(task.id).action_space.n
        mean, error = random_return(task.id)
        print(f"{task.id:24} {num_actions:7} {mean:12.3f} {error:11.3f}")
    print(f"\nThe first {NUM_FRAMES} steps of an episode, as pictures:")
    for task in SPECS:
        path = PICTURES / f"{task.task.rsplit('.')[-1].split(':')[0]}.png"
        imsave(path, film_strip(task.id))
        print(path)


if __name__ == "__main__":
    main()
