"""Masked environments from the package index, with one line of glue at most.

    python examples/third_party.py

trains MaskedPPO and SASQ in each environment whose package is installed, and prints a
table. `--page docs/third_party.md` writes the table into the page, which names the
packages. `--only`, `--steps`, `--seeds` and `--episodes` make the run smaller.

It needs `pip install ".[agents]"` in a clone of the repository.
"""

import re
from argparse import ArgumentParser
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from stable_baselines3.common.evaluation import evaluate_policy

import sas_gym
from sas_agents import SASQ, MaskedPPO, make_vec_env

NUM_ENVS = 4


class Guest(NamedTuple):
    """An environment of others, in the words with which a user makes it."""

    name: str
    package: str
    """What to install; the table names the version."""
    place: str
    """Where the environment has its mask."""
    imports: str
    env: str
    """What a user writes to make it."""
    mask: str = ""
    """The argument `mask` of `make_vec_env`, if the mask is in an unusual place."""
    max_steps: int = 10**9
    """Fewer training steps, for a slow environment."""

    @property
    def line(self) -> str:
        """The line that makes the environments."""
        return f"make_vec_env(lambda: {self.env}, {NUM_ENVS}, mask={self.mask or None})"

    def make_envs(self, seed: int) -> Any:
        """Make the environments as the line says."""
        names = {"gym": gym, "make_vec_env": make_vec_env, "np": np}
        exec(self.imports, names)
        env = eval(self.line, names)
        env.seed(seed)
        return env


_JOBS = "[[[0, 1, 2], [0, 2, 1], [1, 0, 2]], [[17, 12, 19], [8, 6, 2], [11, 9, 14]]]"
_TAXI = max(name for name in gym.registry if name.startswith("Taxi-v"))

GUESTS = (
    Guest("Taxi", "gymnasium", '`info["action_mask"]`', "", f'gym.make("{_TAXI}")'),
    Guest(
        "2048",
        "envpack",
        '`observation["valid_mask"]`',
        "import envpack",
        'gym.make("envpack/2048-v0")',
        '"valid_mask"',
    ),
    Guest(
        "Battleship",
        "envpack",
        '`observation["valid_mask"]`, joint',
        "import envpack; from sas_gym import FlattenActions",
        'FlattenActions(gym.make("envpack/Battleship-v0"), mask="valid_mask")',
    ),
    Guest(
        "Knapsack",
        "jumanji",
        '`observation["action_mask"]`, a Box',
        "import jumanji; from jumanji.wrappers import JumanjiToGymWrapper",
        'JumanjiToGymWrapper(jumanji.make("Knapsack-v1"))',
    ),
    Guest(
        "Tetris",
        "tetris-gymnasium",
        '`info["action_mask"]`, floats',
        "from tetris_gymnasium.envs.tetris import Tetris\n"
        "from tetris_gymnasium.wrappers.grouped import GroupedActionsObservations",
        'GroupedActionsObservations(gym.make("tetris_gymnasium/Tetris"))',
    ),
    Guest(
        "Job shop, 3 x 3",
        "graph-matrix-jsp-env",
        "`valid_action_mask()`",
        "from graph_matrix_jsp_env.disjunctive_jsp_env import DisjunctiveGraphJspEnv",
        f"DisjunctiveGraphJspEnv(np.array({_JOBS}))",
        '"valid_action_mask"',
    ),
    Guest(
        "Job shop, 15 x 15",
        "JSSEnv",
        '`observation["action_mask"]`, a Box; `reset` takes no seed',
        "from pathlib import Path; from JSSEnv.envs import JssEnv, jss_env\n"
        'ta01 = Path(jss_env.__file__).parent / "instances" / "ta01"\n'
        "class Jss(JssEnv): reset = lambda self, **_: (JssEnv.reset(self), {})",
        'Jss({"instance_path": ta01})',
    ),
    Guest(
        "Merging cars",
        "highway-env",
        "`get_available_actions()`, a list",
        "import highway_env",
        'gym.make("merge-v1")',
        "lambda env: np.isin(range(5), env.unwrapped.get_available_actions())",
        max_steps=500,
    ),
)


class Row(NamedTuple):
    """A row of the table: mean returns, and their standard errors."""

    guest: Guest
    version: str
    num_steps: int
    random: tuple[float, float]
    ppo: tuple[float, float]
    sasq: tuple[float, float]


def played(guest: Guest, num_steps: int, seeds: range, episodes: int) -> Row:
    """Train and evaluate the agents in an environment."""
    num_steps = min(num_steps, guest.max_steps)
    returns: dict[str, list[float]] = {"random": [], "ppo": [], "sasq": []}
    for seed in seeds:
        env, test_env = guest.make_envs(seed), guest.make_envs(1000 + seed)
        ppo = MaskedPPO("MultiInputPolicy", env, n_steps=256, seed=seed)
        sasq = SASQ("MultiInputPolicy", env, seed=seed)
        policies = {
            "random": sas_gym.RandomPolicy(seed),
            "ppo": ppo.learn(num_steps),
            "sasq": sasq.learn(num_steps),
        }
        for name, policy in policies.items():
            mean, _ = evaluate_policy(
                policy, test_env, episodes, deterministic=name == "sasq"
            )
            returns[name].append(float(np.mean(mean)))
    means = {name: summary(values) for name, values in returns.items()}
    return Row(guest, version(guest.package), num_steps, **means)


def summary(values: list[float]) -> tuple[float, float]:
    """Return the mean over seeds and its standard error."""
    deviation = np.std(values, ddof=1) if len(values) > 1 else np.nan
    return float(np.mean(values)), float(deviation / np.sqrt(len(values)))


COLUMNS = (
    "environment",
    "package",
    "where its mask is",
    "what to write",
    "steps",
    "random play",
    "MaskedPPO, sampled",
    "SASQ, greedy",
)
HEADER = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}"


def markdown(row: Row) -> str:
    """Return a row of the table."""
    glue = f"`{row.guest.env}`"
    if row.guest.mask:
        glue += f", `mask={row.guest.mask}`"
    cells = [
        row.guest.name,
        f"{row.guest.package} {row.version}",
        row.guest.place,
        glue,
        f"{row.num_steps:,}",
        *[f"{mean:.4g} ± {error:.2g}" for mean, error in row[3:]],
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Train in every environment that is installed, and print the table."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", help="names of environments")
    parser.add_argument("--steps", type=int, default=2_000, help="of training")
    parser.add_argument("--seeds", type=int, default=2, help="number of seeds")
    parser.add_argument("--episodes", type=int, default=20, help="of evaluation")
    parser.add_argument("--page", type=Path, help="page to write the table into")
    arguments = parser.parse_args()
    lines = [HEADER]
    print(HEADER)
    for guest in GUESTS:
        if arguments.only and guest.name not in arguments.only:
            continue
        try:
            version(guest.package)
        except PackageNotFoundError:
            print(f"{guest.name}: pip install {guest.package}")
            continue
        seeds = range(arguments.seeds)
        row = played(guest, arguments.steps, seeds, arguments.episodes)
        lines.append(markdown(row))
        print(lines[-1], flush=True)
    if arguments.page:
        page = arguments.page.read_text()
        begin, end = "<!-- table: third party -->", "<!-- end -->"
        new = "\n".join([begin, *lines, end])
        arguments.page.write_text(
            re.sub(f"{begin}.*?{end}", lambda _: new, page, flags=re.DOTALL)
        )


if __name__ == "__main__":
    main()
