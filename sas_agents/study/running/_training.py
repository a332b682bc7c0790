"""One run: training, with an evaluation from time to time and at the end."""

import os
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from sas_agents.study.definition._algorithms import (
    OWN_POLICY,
    find_algorithm,
    is_function,
    resolve,
)
from sas_agents.study.definition._environments import Problem, make_problem
from sas_agents.study.definition._runs import Run
from sas_agents.study.running._envs import training_env
from sas_agents.study.running._evaluation import Evaluator, Score
from sas_agents.study.running._references import reference_returns
from sas_agents.study.storage._format import COLUMNS, FORMAT, Result, own_way
from sas_agents.study.storage._scales import Reference, normalized

Report = Callable[[int, float], None]


def execute(run: Run, report: Report | None = None) -> Result:
    """Train and evaluate, and return the result.

    Its `curve` has lists of one length: `step`, `mean_return`, `standard_error`,
    `num_episodes` (0 where the mean is exact) and the logged values. Its `final` has
    the score of the trained policy in each way that it acts, sampled and greedy.
    Everything outside `timing` is the same whenever the run is repeated on the same
    machine.

    Args:
        run: The run.
        report: Called with the step and the score of each evaluation; it may raise to
            stop the run. The score is the mean return where no optimum is known.
    """
    import torch as th

    th.set_num_threads(1)
    started, cpu_started = time.perf_counter(), time.process_time()
    reference = reference_returns(run.environment, run.environment_arguments)
    problem = make_problem(run.environment, run.environment_arguments)
    curve = _LearningCurve(run, Evaluator(run, problem), reference, report)
    policy = train(run, problem, curve)
    final = curve.finish(policy)
    return {
        "format": FORMAT,
        "key": run.key,
        "command": f"sas-study repeat {run.key}.json",
        "run": run.to_dict(),
        **reference,
        "curve": curve.columns,
        "final": {way: score._asdict() for way, score in final.items()},
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


def train(run: Run, problem: Problem, curve: "_LearningCurve") -> Any:
    """Let the algorithm of a run learn; return its policy, or its model.

    A training function is called as `train(env, steps, seed, callback, **arguments)`.
    It calls `callback(step, policy)` whenever it likes, and returns its final policy.
    """
    algorithm = find_algorithm(run.entry.location)
    if is_function(algorithm):
        env = training_env(problem, run.entry.mask, run.num_envs, run.seed)
        arguments = resolve(run.arguments)
        return algorithm(env, run.num_steps, run.seed, curve.watch, **arguments)
    model = make_model(run, problem)
    curve.watch(0, model)
    _set_silent_logger(model)
    model.learn(run.num_steps, _callback(curve, model))
    curve.read_log(model)
    return model


def make_model(run: Run, problem: Problem) -> Any:
    """Build the untrained model of a run, in its environment."""
    entry = run.entry
    env = training_env(problem, entry.mask, run.num_envs, run.seed)
    algorithm_class = find_algorithm(entry.location)
    policy = run.policy or OWN_POLICY
    return algorithm_class(policy, env, seed=run.seed, **resolve(run.arguments))


def _set_silent_logger(model: Any) -> None:
    """Spare the temporary folder that each `learn` leaves behind otherwise."""
    from stable_baselines3.common.logger import Logger

    if hasattr(model, "set_logger"):
        model.set_logger(Logger(folder=None, output_formats=[]))


def _callback(curve: "_LearningCurve", model: Any) -> Any:
    from stable_baselines3.common.callbacks import BaseCallback

    class Watch(BaseCallback):
        def _on_step(self) -> bool:
            curve.read_log(model)
            if self.num_timesteps < curve.run.num_steps:
                curve.watch(self.num_timesteps, model)
            return True

    return Watch()


class _LearningCurve:
    """Evaluates a policy while it learns.

    Args:
        run: The run.
        evaluator: Evaluates its policies.
        reference: Mean returns of random play, of the best rule and of the optimum.
        report: Called with each step and score.
    """

    def __init__(
        self,
        run: Run,
        evaluator: Evaluator,
        reference: Reference,
        report: Report | None,
    ) -> None:
        self.run = run
        self.evaluator = evaluator
        self.reference = reference
        self.report = report
        self.seconds = self.cpu_seconds = 0.0
        self.logged: dict[str, float] = {}
        self.columns: dict[str, list[Any]] = {
            name: [] for name in [*COLUMNS, *run.evaluation.log]
        }
        points = np.linspace(0, run.num_steps, run.evaluation.num_points + 1)
        self.steps = [int(step) for step in points]

    def watch(self, step: int, policy: Any) -> None:
        """Evaluate a policy if a point of the curve has been reached.

        Args:
            step: Steps taken so far, in all environments together.
            policy: The present policy.
        """
        if step > 0 and not self.columns["step"]:
            self._add(None)  # Nobody has shown an untrained policy.
        while len(self.columns["step"]) < len(self.steps) and step >= self.next_step:
            is_last = self.next_step >= self.run.num_steps
            mean = self._add(self._timed(self.evaluator.on_curve, policy))
            if not is_last:
                self._tell(self.steps[len(self.columns["step"]) - 1], mean)

    def finish(self, policy: Any) -> dict[str, Score]:
        """Evaluate the rest of the curve, and the final policy."""
        self.watch(self.run.num_steps, policy)
        final: dict[str, Score] = self._timed(self.evaluator.at_the_end, policy)
        self._tell(self.run.num_steps, final[own_way(final)].mean_return)
        return final

    def read_log(self, model: Any) -> None:
        """Remember the latest logged values: a logger forgets them when it writes."""
        logger = getattr(model, "logger", None)
        values = getattr(logger, "name_to_value", {})
        for key in self.run.evaluation.log:
            if key in values:
                self.logged[key] = float(values[key])

    @property
    def next_step(self) -> int:
        """The step of the evaluation that comes next."""
        return self.steps[len(self.columns["step"])]

    def _add(self, score: Score | None) -> float:
        point = {} if score is None else score._asdict()
        point["step"] = self.next_step
        for name, column in self.columns.items():
            column.append(point.get(name, self.logged.get(name)))
        return float("nan") if score is None else score.mean_return

    def _timed(self, evaluate: Callable[[Any], Any], policy: Any) -> Any:
        started, cpu_started = time.perf_counter(), time.process_time()
        found = evaluate(policy)
        self.seconds += time.perf_counter() - started
        self.cpu_seconds += time.process_time() - cpu_started
        return found

    def _tell(self, step: int, mean: float) -> None:
        if self.report is not None:
            score = normalized(mean, self.reference)
            self.report(step, mean if score is None else score)
