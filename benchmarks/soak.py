"""Each task through millions of steps, each agent through long training: 0 violations.

    python benchmarks/soak.py [--steps N] [--training-steps N] [--settings N]

Settings are random and lie well beyond the paper's ranges: rates up to 10, one action
available, rewards of 1e6 and 1e-6, thousands of actions, one-step episodes. Counted are
empty sets, unavailable actions that were taken, NaN or infinity anywhere (weights,
optimisers, log), and returns that disagree with their rewards. An agent that stops by
itself, with an error that names the quantity, is no violation and is counted apart.

Masks reach the agents in the observation, in the info or by a method. After training
each agent predicts, is evaluated, is saved and loaded, and meets NaN and infinity:
unavailable actions, observations that are not refused, and files that act otherwise are
counted, too.
"""

import argparse
import io
import sys
from collections import Counter
from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium.wrappers import TimeLimit
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecMonitor

from sas_agents import SASNPG, SASPG, SASQ, VectorEnvAdapter
from sas_agents.vec_env._mask_in_observation import vec_with_mask
from sas_gym import (
    BayArea,
    Maze,
    Recommender,
    SanFrancisco,
    SASEnv,
    SASVectorEnv,
    Task,
    ThetaTwoTheta,
)
from sas_gym.action_sets import ActionSets, Explicit, Grouped, Markov, PerEpisode
from sas_gym.masks import MASK_KEY, sample_actions

NUM_ENVS = 256
TASKS: dict[str, Any] = {
    "SanFrancisco": lambda _: SanFrancisco(),
    "BayArea": lambda _: BayArea(),
    "Maze": lambda rng: Maze(num_actuators=int(rng.integers(1, 40))),
    "Recommender": lambda rng: Recommender(num_products=int(rng.integers(10, 300))),
    "ThetaTwoTheta": lambda _: ThetaTwoTheta(),
}
AGENTS: dict[str, Any] = {"SASPG": SASPG, "SASNPG": SASNPG, "SASQ": SASQ}


class Bandit(Task):
    """Any number of actions, rewards of any scale, episodes of any length."""

    observation_space = gym.spaces.Box(0.0, 1.0, (3,), np.float32)

    def __init__(self, num_actions: int, scale: float, ends: float) -> None:
        self.num_actions, self.scale, self.ends = num_actions, scale, ends
        # One action on average: mostly exactly one is available.
        self.action_sets: ActionSets = Explicit(
            np.eye(num_actions, dtype=bool)[: min(num_actions, 50)]
            | (np.arange(num_actions) == num_actions - 1),
            np.full(min(num_actions, 50), 1 / min(num_actions, 50)),
        )

    def reset(self, num_envs: int, rng: np.random.Generator) -> Any:
        """Draw anything."""
        return rng.random((num_envs, 3))

    def transition(self, state: Any, action: Any, rng: np.random.Generator) -> Any:
        """Draw anything; the reward is heavy-tailed."""
        size = len(state)
        reward = self.scale * rng.standard_t(3, size)
        return rng.random((size, 3)), reward, rng.random(size) < self.ends

    def observe(self, state: Any) -> Any:
        """Return the state in single precision."""
        return state.astype(np.float32)


def random_sets(size: int, rng: np.random.Generator) -> ActionSets | float | None:
    """Draw a distribution of any kind; every action has a chance."""
    p = float(rng.uniform(0.01, 1.0))
    kind = rng.integers(6)
    if kind == 0:
        return None
    if kind == 1:
        return p
    if kind == 2:
        # The first action is always there: no set is drawn again.
        first_stays = np.where(np.arange(size), rng.uniform(0, 0.99), 0.0)
        return Markov(p, first_stays)
    if kind == 3:
        groups = np.unique(rng.integers(0, 3, size), return_inverse=True)[1]
        return Grouped(groups, p)
    if kind == 4:
        sets = rng.random((5, size)) < p
        sets[0] = True
        return Explicit(
            sets[sets.any(axis=1)], _shares(int(sets.any(axis=1).sum()), rng)
        )
    return PerEpisode(p)


def _shares(size: int, rng: np.random.Generator) -> Any:
    weights = rng.random(size) + 0.01
    return weights / weights.sum()


def soak_task(name: str, num_steps: int, rng: np.random.Generator) -> Counter[str]:
    """Play a task at random, in a new setting every 100,000 steps or so."""
    found: Counter[str] = Counter()
    rounds = max(num_steps // 100_000, 1)
    for _ in range(rounds):
        task = TASKS[name](rng)
        options: dict[str, Any] = {
            "max_episode_steps": int(rng.integers(1, 100)),
            "on_unavailable": "repair" if rng.random() < 0.3 else "raise",
        }
        sets = random_sets(task.num_actions, rng)
        try:
            env = SASVectorEnv(task, NUM_ENVS, action_sets=sets, **options)
        except ValueError:  # Lasting sets that may leave a state without an action.
            env = SASVectorEnv(task, NUM_ENVS, **options)
        found += play(env, num_steps // rounds // NUM_ENVS + 1, rng)
    return found


def play(env: SASVectorEnv, num_steps: int, rng: np.random.Generator) -> Counter[str]:
    """Count what is wrong in random play."""
    found: Counter[str] = Counter()
    obs, infos = env.reset(seed=int(rng.integers(2**31)))
    for _ in range(num_steps):
        mask = infos[MASK_KEY]
        found["empty set"] += int((mask.sum(axis=1) == 0).sum())
        found["masks disagree"] += int((mask != obs[MASK_KEY]).sum())
        found["not finite"] += int((~np.isfinite(obs["observation"])).sum())
        obs, rewards, _, _, infos = env.step(sample_actions(mask, rng))
        found["not finite"] += int((~np.isfinite(rewards)).sum())
    found["outside its space"] += int(obs not in env.observation_space)
    return found


class Auditor(BaseCallback):
    """Counts, while an agent learns, what must never happen."""

    def __init__(self, found: Counter[str]) -> None:
        super().__init__()
        self.found = found
        self.totals: Any = None

    def _on_rollout_start(self) -> None:
        # Whole episodes start with each rollout, others go on.
        if self.totals is None or getattr(self.model, "whole_episodes", False):
            self.totals = np.zeros(self.training_env.num_envs)
            self.sizes = np.zeros(self.training_env.num_envs)

    def _on_step(self) -> bool:
        rewards, dones = self.locals["rewards"], self.locals["dones"]
        self.totals += rewards
        self.sizes += np.abs(rewards)
        for index in np.flatnonzero(dones):
            told = self.locals["infos"][index].get("episode", {}).get("r")
            if told is not None:
                # Summed in single precision, and rounded to six digits.
                most = 1e-5 * self.sizes[index] + 2e-6
                self.found["return disagrees"] += abs(told - self.totals[index]) > most
        self.totals[dones] = self.sizes[dones] = 0
        return True


class FiniteLog(KVWriter):
    """Counts logged values that are not finite, but for undefined shares."""

    def __init__(self, found: Counter[str]) -> None:
        self.found = found

    def write(self, key_values: Any, key_excluded: Any, step: int = 0) -> None:
        """Count."""
        for key, value in key_values.items():
            # They are NaN by definition if all returns are equal.
            if "explained_variance" not in key and isinstance(value, float):
                self.found[f"log {key} not finite"] += int(not np.isfinite(value))

    def close(self) -> None:
        """Do nothing."""


def random_task(rng: np.random.Generator) -> tuple[Task, int]:
    """Draw a task and its time limit."""
    if rng.random() < 0.5:
        name = str(rng.choice(sorted(TASKS)))
        return TASKS[name](rng), int(rng.choice([1, 5, 50]))
    num_actions = int(rng.choice([1, 2, 50, 10_000], p=[0.2, 0.3, 0.4, 0.1]))
    scale = float(rng.choice([1e-6, 1.0, 1e6]))
    return Bandit(num_actions, scale, float(rng.choice([0.05, 1.0]))), 50


def random_rates(agent: str, rng: np.random.Generator) -> dict[str, Any]:
    """Draw rates up to 10."""
    names = {
        "SASPG": ["learning_rate", "critic_learning_rate"],
        "SASNPG": ["learning_rate", "w_learning_rate"],
        "SASQ": ["learning_rate"],
    }
    if rng.random() < 0.2:
        return {}
    return {name: float(10 ** rng.uniform(-5, 1)) for name in names[agent]}


def soak_agent(
    name: str, num_steps: int, rng: np.random.Generator
) -> tuple[Counter[str], str]:
    """Train once in a random setting; return what was found and the setting."""
    found: Counter[str] = Counter()
    task, limit = random_task(rng)
    num_envs = int(rng.choice([1, 8, 64]))
    place = str(rng.choice(["observation", "info", "method"]))
    options = random_rates(name, rng)
    policy = str(rng.choice(["LinearPolicy", "MlpPolicy"]))
    setting = f"{name} {policy} {type(task).__name__}({task.num_actions} actions, "
    setting += (
        f"scale {getattr(task, 'scale', 1)}) x {num_envs}, {limit} steps, "
        f"mask in {place} {options}"
    )
    if name == "SASQ":
        # The masks of large sets would fill the memory.
        options |= {"buffer_size": 10_000, "gradient_steps": 1, "train_freq": 4}
    # An unavailable action that is taken raises an error in the environment.
    env = masked_env(task, num_envs, limit, place)
    model = AGENTS[name](policy, env, seed=int(rng.integers(2**31)), **options)
    model.set_logger(Logger(None, [FiniteLog(found)]))
    try:
        model.learn(num_steps, Auditor(found))
    except (ValueError, FloatingPointError) as error:
        kind = "unavailable action" if "unavailable" in str(error) else "(stopped)"
        found[kind] += 1
        setting += f": {error}"
        # Weights of a policy that has diverged may be finite and yet too large.
        if kind == "(stopped)":
            return found, setting
    found["weights not finite"] += _not_finite(model)
    try:
        found += after_training(model, task, limit, place, rng)
    except ValueError as error:
        found["error after training"] += 1
        setting += f": {error}"
    return found, setting


class MaskByMethod(gym.Wrapper[Any, Any, Any, Any]):
    """Keeps the mask out of infos: `action_masks()` alone has it."""

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        obs, info = self.env.reset(**options)
        return obs, {key: info[key] for key in info if key != MASK_KEY}

    def step(self, action: Any) -> Any:
        """Take an action."""
        *returned, info = self.env.step(action)
        return *returned, {key: info[key] for key in info if key != MASK_KEY}

    def action_masks(self) -> Any:
        """Return the mask."""
        return self.get_wrapper_attr("unwrapped").action_masks()


def masked_env(task: Task, num_envs: int, limit: int, place: str) -> VecEnv:
    """Make environments whose mask is in one place."""
    if place == "method":

        def make() -> gym.Env[Any, Any]:
            env = SASEnv(task, mask_in_observation=False)
            return MaskByMethod(TimeLimit(env, limit))

        return VecMonitor(DummyVecEnv([make] * min(num_envs, 8)))
    vector_env = SASVectorEnv(
        task,
        num_envs,
        max_episode_steps=limit,
        mask_in_observation=place == "observation",
    )
    return VecMonitor(VectorEnvAdapter(vector_env))


def after_training(
    model: Any, task: Task, limit: int, place: str, rng: np.random.Generator
) -> Counter[str]:
    """Count what is wrong in predictions, evaluations and files."""
    found: Counter[str] = Counter()
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    loaded = type(model).load(file)
    obs: Any = vec_with_mask(masked_env(task, 8, limit, place)).reset()
    actions, _ = model.predict(obs, deterministic=True)
    same, _ = loaded.predict(obs, deterministic=True)
    found["file acts otherwise"] += int((actions != same).sum())
    drawn, _ = model.predict(obs)
    for chosen in (actions, drawn):
        available = obs[MASK_KEY][np.arange(len(chosen)), chosen]
        found["unavailable prediction"] += int((available == 0).sum())
    if np.issubdtype(obs["observation"].dtype, np.floating):
        row = int(rng.integers(len(actions)))
        obs["observation"][row, ..., 0] = rng.choice([np.nan, np.inf, -np.inf])
        for deterministic in (True, False):
            found["fault accepted"] += int(accepts(model, obs, deterministic))
    env = vec_with_mask(masked_env(task, 8, limit, place))
    returns, _ = evaluate_policy(
        model, env, 16, deterministic=False, return_episode_rewards=True
    )
    found["evaluation not finite"] += int((~np.isfinite(returns)).sum())
    return found


def accepts(model: Any, obs: Any, deterministic: bool) -> bool:
    """Return whether a model predicts from observations."""
    try:
        model.predict(obs, deterministic=deterministic)
    except ValueError as error:
        return "observation['observation']" not in str(error)
    return True


def _not_finite(model: Any) -> int:
    tensors = [*model.policy.parameters()]
    tensors += [
        getattr(model, key) for key in ("baseline_weights", "w") if hasattr(model, key)
    ]
    return sum(not bool(tensor.isfinite().all()) for tensor in tensors)


def main() -> None:
    """Print the counts, and fail if any is not 0."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--steps", type=int, default=10_000_000)
    parser.add_argument("--training-steps", type=int, default=100_000)
    parser.add_argument("--settings", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    th.set_num_threads(1)
    violations = stopped = 0
    for name in TASKS:
        found = +soak_task(name, given.steps, np.random.default_rng(given.seed))
        print(
            f"{name}, {given.steps} steps: {dict(found) or 'no violation'}", flush=True
        )
        violations += found.total()
    for name in AGENTS:
        for seed in range(given.settings):
            rng = np.random.default_rng([given.seed, seed])
            found, setting = soak_agent(name, given.training_steps, rng)
            stopped += found.pop("(stopped)", 0)
            found = +found
            if found or ":" in setting.split("}")[-1]:
                print(f"{setting}: {dict(found)}", flush=True)
            violations += found.total()
        print(f"{name}: {given.settings} settings done", flush=True)
    print(f"{violations} violations; {stopped} trainings stopped by a named error")
    sys.exit(violations > 0)


if __name__ == "__main__":
    main()
