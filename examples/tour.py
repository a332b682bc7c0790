"""A tour of the environments: the return of random play, and how each one looks.

    python examples/tour.py

It prints a table and saves pictures to `results/tour`: for every environment the first
steps of an episode, and a moving picture of the best policy in the Bay Area.

It needs `pip install ".[planning,render]"` in a clone of the repository.
"""

import re
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from matplotlib.image import imsave
from numpy.typing import NDArray
from PIL import Image

from sas_gym import SPECS, RandomPolicy, episode_returns
from sas_gym.planning import solve

NUM_FRAMES = 3
# An episode in which the best policy waits twice for a road to open.
MOVING_SEED = 9
MILLISECONDS_PER_FRAME = 1200


def random_return(env_id: str, num_episodes: int) -> tuple[float, float]:
    """Return the mean return of random play, and its standard error."""
    env = gym.make_vec(env_id, num_envs=500)
    returns = episode_returns(env, RandomPolicy(seed=0), num_episodes, seed=0)
    return returns.mean(), returns.std(ddof=1) / np.sqrt(len(returns))


def film_strip(env_id: str) -> NDArray[np.uint8]:
    """Draw the first steps of an episode side by side: the action set changes."""
    env: Any = gym.make(env_id, render_mode="rgb_array")
    env.action_space.seed(2)
    _, info = env.reset(seed=2)
    frames = [env.render()]
    while len(frames) < NUM_FRAMES:
        action = env.action_space.sample(mask=info["action_mask"])
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            _, info = env.reset()
        frames.append(env.render())
    return np.concatenate(frames, axis=1)


def save_moving_picture(path: Path) -> None:
    """Save an episode of the best policy in the Bay Area as a GIF."""
    env: Any = gym.make("SAS/BayArea-v0", render_mode="rgb_array")
    policy = solve(env.unwrapped.tabular()).policy
    obs, _ = env.reset(seed=MOVING_SEED)
    frames, done = [env.render()], False
    while not done:
        action, _ = policy.predict(obs)
        obs, _, terminated, truncated, _ = env.step(action)
        frames.append(env.render())
        done = terminated or truncated
    first, *others = (Image.fromarray(frame).quantize(64) for frame in frames)
    first.save(
        path,
        append_images=others,
        duration=MILLISECONDS_PER_FRAME,
        loop=0,
        save_all=True,
    )


def snake_case(env_id: str) -> str:
    """Turn an id such as `SAS/BayArea-v0` into `bay_area`."""
    name = env_id.removeprefix("SAS/").split("-v")[0]
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def main() -> None:
    """Print the table and save the pictures."""
    parser = ArgumentParser(description="A tour of the environments.")
    parser.add_argument("--episodes", type=int, default=10_000, help="of random play")
    parser.add_argument("--output", type=Path, default=Path("results/tour"))
    arguments = parser.parse_args()

    print(f"Random play, {arguments.episodes:,} episodes, default arguments, seed 0")
    print(f"{'environment':24} {'actions':>7} {'mean return':>12} {'std. error':>11}")
    for spec in SPECS:
        env: Any = gym.make(spec.id)
        mean, error = random_return(spec.id, arguments.episodes)
        print(f"{spec.id:24} {env.action_space.n:7} {mean:12.3f} {error:11.3f}")
    print(f"\nThe first {NUM_FRAMES} steps of an episode, as pictures:")
    arguments.output.mkdir(parents=True, exist_ok=True)
    for spec in SPECS:
        path = arguments.output / f"{snake_case(spec.id)}.png"
        imsave(path, film_strip(spec.id))
        print(path)
    save_moving_picture(arguments.output / "bay_area.gif")
    print(arguments.output / "bay_area.gif")


if __name__ == "__main__":
    main()
