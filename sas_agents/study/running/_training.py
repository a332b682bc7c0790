"""Carrying a run out: training, with an evaluation from time to time."""

import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from sas_agents.study.definition._algorithms import (
    ALGORITHMS,
    evaluated_policy,
    resolve,
)
from sas_agents.study.definition._environments import (
    Problem,
    evaluation_env,
    locate,
    make_env,
    make_problem,
    training_env,
)
from sas_agents.study.definition._runs import Run
from sas_gym import RandomPolicy, episode_returns

Result = dict[str, Any]
"""What a run leaves, as it stands in its file; see `execute`."""

FORMAT = 1
COLUMNS = "step", "mean_return", "standard_error", "num_episodes"


def execute(run: Run, report: Callable[[int, float], None] | None = None) -> Result:
    """Train and evaluate, and return the result.

    Its `curve` has lists of one length: `step`, `mean_return`, `standard_error`, and
    the logged values; the last entry is the final evaluation. Everything outside
    `timing` is the same whenever the run is repeated on the same machine.

    Args:
        run: What to run.
        report: Called with the step and the score of each evaluation; it may raise to
            stop the run. The score is the mean return where no optimum is known.
    """
    import torch as th

    th.set_num_threads(1)
    started, cpu_started = time.perf_counter(), time.process_time()
    reference = reference_returns(run.environment, run.environment_arguments)
    problem = make_problem(run.environment, run.environment_arguments)
    model = make_model(run, problem)
    curve = _LearningCurve(run, problem, reference, report)
    curve.train(model)
    return {
        "format": FORMAT,
        "key": run.key,
        "command": f"sas-study repeat {run.key}.json",
        "run": run.to_dict(),
        **reference,
        "curve": curve.columns,
        "timing": {
            "seconds": round(time.perf_counter() - started, 3),
            "cpu_seconds": round(time.process_time() - cpu_started, 3),
            "evaluation_seconds": round(curve.seconds, 3),
            "evaluation_cpu_seconds": round(curve.cpu_seconds, 3),
            "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "host": platform.node(),
            "process": os.getpid(),
        },
    }


def make_model(run: Run, problem: Problem) -> Any:
    """Build the untrained model of a run, in its environment."""
    entry = ALGORITHMS[run.algorithm]
    env = training_env(problem, entry.mask_channel, run.num_envs, run.seed)
    algorithm_class = locate(entry.location)
    return algorithm_class(run.policy, env, seed=run.seed, **resolve(run.arguments))


def reference_returns(
    environment: str, arguments: dict[str, Any]
) -> dict[str, float | None]:
    """Return the mean return of random play and of the best policy.

    Where the planner does not know them, `random` is the mean of episodes that are
    played, 1,000 or, of a guest, 200; and `optimal` is `None`.
    """
    return dict(_references(environment, json.dumps(arguments)))


@cache
def _references(environment: str, arguments: str) -> dict[str, float | None]:
    """Return the references, which many runs of one worker have in common."""
    from sas_gym.planning import optimal_return, random_return

    problem = make_problem(environment, json.loads(arguments))
    env = make_env(problem)
    try:
        return {"random": random_return(env), "optimal": optimal_return(env)}
    except ValueError:  # The planner says so of sets with a memory, or of a guest.
        num_episodes = 200 if callable(problem.target) else 1000
        return {"random": played_at_random(problem, num_episodes), "optimal": None}
    finally:
        env.close()


def played_at_random(problem: Problem, num_episodes: int) -> float:
    """Play episodes with random available actions; return their mean return."""
    with own_randomness(0):
        env = evaluation_env(problem, "observation", num_episodes, seed=0)
        returns = episode_returns(env, RandomPolicy(seed=0), num_episodes, seed=0)
        env.close()
    return float(returns.mean())


@contextmanager
def own_randomness(seed: int) -> Iterator[None]:
    """Seed the random numbers that all share, and put them back at the end.

    Policies draw from torch's, and environments such as sb3-contrib's from NumPy's.
    """
    import torch as th

    state = np.random.get_state()  # noqa: NPY002  # Theirs is this one.
    try:
        with th.random.fork_rng(devices=[]):
            th.manual_seed(seed)
            np.random.seed(seed % 2**32)  # noqa: NPY002  # likewise
            yield
    finally:
        np.random.set_state(state)  # noqa: NPY002  # likewise


def normalized(mean_return: float, reference: dict[str, float | None]) -> float | None:
    """Put a return on a scale from random play, 0, to the optimum, 1, if both known."""
    low, high = reference["random"], reference["optimal"]
    if low is None or high is None or not high > low:
        return None
    return (mean_return - low) / (high - low)


class _LearningCurve:
    """Evaluates a model while it learns."""

    def __init__(
        self,
        run: Run,
        problem: Problem,
        reference: dict[str, float | None],
        report: Callable[[int, float], None] | None,
    ) -> None:
        self.run = run
        self.problem = problem
        self.reference = reference
        self.report = report
        self.seconds = self.cpu_seconds = 0.0
        self.logged: dict[str, float] = {}
        self.columns: dict[str, list[Any]] = {
            name: [] for name in [*COLUMNS, *run.evaluation.log]
        }
        points = np.linspace(0, run.num_steps, run.evaluation.num_points + 1)
        self.steps = [int(step) for step in points]

    def train(self, model: Any) -> None:
        """Let a model learn, with an evaluation at every point."""
        from stable_baselines3.common.callbacks import BaseCallback

        curve = self

        class Watch(BaseCallback):
            def _on_step(self) -> bool:
                curve.read_log(self.logger)
                while self.num_timesteps >= curve.next_step < curve.run.num_steps:
                    curve.evaluate(model, curve.run.evaluation.num_episodes)
                return True

        self.evaluate(model, self.run.evaluation.num_episodes)
        model.learn(self.run.num_steps, Watch())
        self.read_log(model.logger)
        while len(self.columns["step"]) < len(self.steps) - 1:
            self.evaluate(model, self.run.evaluation.num_episodes)
        self.evaluate(model, self.run.evaluation.num_final_episodes)

    def read_log(self, logger: Any) -> None:
        """Remember the latest logged values: a logger forgets them when it writes."""
        values = logger.name_to_value
        for key in self.run.evaluation.log:
            if key in values:
                self.logged[key] = float(values[key])

    @property
    def next_step(self) -> int:
        """The step of the evaluation that comes next."""
        return self.steps[len(self.columns["step"])]

    def evaluate(self, model: Any, num_episodes: int) -> None:
        """Add a point to the curve, without touching the model's random numbers."""
        started, cpu_started = time.perf_counter(), time.process_time()
        run, seed = self.run, self.run.evaluation.seed
        channel = ALGORITHMS[run.algorithm].mask_channel
        with own_randomness(seed):
            env = evaluation_env(self.problem, channel, num_episodes, seed)
            policy = evaluated_policy(run.algorithm, model, env, seed)
            returns = episode_returns(env, policy, num_episodes, seed)
            env.close()
        step, mean = self.next_step, float(returns.mean())
        point = {
            "step": step,
            "mean_return": mean,
            "standard_error": float(returns.std() / np.sqrt(len(returns))),
            "num_episodes": len(returns),
        }
        for name, column in self.columns.items():
            column.append(point.get(name, self.logged.get(name)))
        self.seconds += time.perf_counter() - started
        self.cpu_seconds += time.process_time() - cpu_started
        if self.report is not None:
            score = normalized(mean, self.reference)
            self.report(step, mean if score is None else score)
