"""Training and evaluation of one agent on one problem; the file of all results."""

import csv
import json
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from stable_baselines3 import DQN

import sas_agents
from contest.entries import (
    ENTRIES,
    Entry,
    Options,
    evaluation_env,
    reference_return,
    training_env,
)
from sas_gym import RandomPolicy, episode_returns
from sas_gym.masks import sample_actions

NUM_EPISODES = 100
NUM_REFERENCE_EPISODES = 1000
ROLLOUT_STEPS = 2048
# Every copy of an environment has a seed of its own, in training and in evaluation.
SEEDS_PER_RUN = 1000
REFERENCES = "random", "rule"
PEERS = "MaskablePPO", "RepairedDQN"
AGENTS = "SASPG", "SASNPG", "SASQ", "MaskedPPO", *PEERS


@dataclass(frozen=True)
class Run:
    """What is run: its fields are the key of a row of the file."""

    problem: str
    agent: str
    variant: str = "default"
    num_steps: int = 0
    seed: int = 0
    label: str = ""
    arguments: str = "{}"
    """JSON of the agent's arguments that are not at their defaults."""
    environment: str = "{}"
    """JSON of the environment's arguments that are not at their defaults."""

    @property
    def key(self) -> tuple[Any, ...]:
        """Everything but the arguments, for which the variant stands."""
        return tuple(asdict(self).values())[:6]

    @property
    def first_seed(self) -> int:
        """First seed of the run: no environment of another run has the same seed."""
        return SEEDS_PER_RUN * self.seed


@dataclass(frozen=True)
class Row(Run):
    """A result: mean returns, of sampled and of greedy actions."""

    sampled: float = 0.0
    greedy: float = 0.0
    cpu_seconds: float = 0.0
    """Of the training."""


class Store:
    """The rows of a CSV file, to which every finished run adds one.

    Args:
        path: The file. It need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[Row] = []
        if path.exists():
            with path.open(newline="") as file:
                self.rows = [_typed(row) for row in csv.DictReader(file)]

    def missing(self, runs: Iterable[Run]) -> list[Run]:
        """Return the runs that have no row yet.

        Raises:
            ValueError: If a variant has other arguments in the file.
        """
        known = {row.key: row for row in self.rows}
        runs = list(runs)
        for run in runs:
            row = known.get(run.key, run)
            if (row.arguments, row.environment) != (run.arguments, run.environment):
                raise ValueError(
                    f"the variant {run.variant!r} has the arguments {row.arguments} "
                    f"and the environment {row.environment} in {self.path}: choose "
                    "another name with --variant"
                )
        return [run for run in runs if run.key not in known]

    def add(self, row: Row) -> None:
        """Append a row to the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not self.path.exists()
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, asdict(row))
            if is_new:
                writer.writeheader()
            writer.writerow(asdict(row))
        self.rows.append(row)


def _typed(row: dict[str, str]) -> Row:
    types: dict[str, Any] = {field.name: field.type for field in fields(Row)}
    return Row(**{name: types[name](value) for name, value in row.items()})


def execute(run: Run) -> Row:
    """Train and evaluate; or measure a reference."""
    th.set_num_threads(1)
    entry = ENTRIES[run.problem]
    if run.agent in REFERENCES:
        value = reference(entry, run.agent)
        return Row(**asdict(run), sampled=value, greedy=value)
    model, cpu_seconds = trained(run, entry)
    sampled, greedy = (evaluate(run, entry, model, is_greedy) for is_greedy in (0, 1))
    return Row(
        **asdict(run),
        sampled=sampled,
        greedy=greedy,
        cpu_seconds=round(cpu_seconds, 2),
    )


def reference(entry: Entry, name: str) -> float:
    """Return the mean return of random play or of the rule."""
    if name == "rule":
        return reference_return(entry, NUM_REFERENCE_EPISODES, seed=0)
    env = evaluation_env(entry, False, NUM_REFERENCE_EPISODES, {})
    policy = RandomPolicy(seed=0)
    return float(episode_returns(env, policy, NUM_REFERENCE_EPISODES, seed=0).mean())


def trained(run: Run, entry: Entry) -> tuple[Any, float]:
    """Return a trained model, and the processor time of its training."""
    is_peer = run.agent in PEERS
    options: Options = json.loads(run.environment)
    env = training_env(entry, is_peer, run.first_seed, options)
    is_dict = hasattr(env.observation_space, "spaces")
    policy = ("MultiInputPolicy" if is_dict else "MlpPolicy") if is_peer else None
    arguments = agent_arguments(run.agent, entry) | json.loads(run.arguments)
    agent_class: Any = {"MaskablePPO": MaskablePPO, "RepairedDQN": DQN}.get(run.agent)
    agent_class = agent_class or getattr(sas_agents, run.agent)
    policy = arguments.pop("policy", policy or policy_of(run.agent, entry))
    model = agent_class(policy, env, seed=run.first_seed, device="cpu", **arguments)
    started = time.process_time()
    model.learn(run.num_steps)
    return model, time.process_time() - started


def policy_of(agent: str, entry: Entry) -> str:
    """Return the policy of an agent of `sas_agents`; MaskedPPO has networks."""
    is_linear = entry.policy == "LinearPolicy"
    return "MlpPolicy" if agent == "MaskedPPO" and is_linear else entry.policy


def agent_arguments(agent: str, entry: Entry) -> Options:
    """Return the arguments that make agents comparable, with the entry's own.

    The PPOs have rollouts of 2,048 steps in all, as with one environment. DQN keeps its
    gradient step per 4 steps, where its defaults mean one per 4 steps of each copy.
    """
    num_envs = entry.num_envs
    shared: Options = {}
    if agent in ("MaskedPPO", "MaskablePPO"):
        shared = {"n_steps": ROLLOUT_STEPS // num_envs}
    if agent == "RepairedDQN":
        shared = {
            "train_freq": 1,
            "gradient_steps": num_envs // 4,
            "buffer_size": 100_000,
        }
    return shared | entry.settings.get(agent, {})


def evaluate(run: Run, entry: Entry, model: Any, is_greedy: int) -> float:
    """Return the mean return; episodes differ by the seed of the run."""
    is_peer, seed = run.agent in PEERS, run.first_seed + SEEDS_PER_RUN // 2
    env = evaluation_env(entry, is_peer, NUM_EPISODES, json.loads(run.environment))
    rng = np.random.default_rng(seed)
    th.manual_seed(seed)

    def policy(observations: Any, masks: NDArray[np.int8]) -> NDArray[Any]:
        masked = {"action_masks": masks} if run.agent == "MaskablePPO" else {}
        actions, _ = model.predict(
            observations, deterministic=bool(is_greedy), **masked
        )
        if run.agent == "RepairedDQN":
            is_available = masks[np.arange(len(masks)), actions] == 1
            actions = np.where(is_available, actions, sample_actions(masks, rng))
        chosen: NDArray[Any] = actions
        return chosen

    return float(episode_returns(env, policy, NUM_EPISODES, seed).mean())
