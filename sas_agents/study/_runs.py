"""One run: everything that defines it, its key, and its execution."""

import ast
import hashlib
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from sas_agents.study._algorithms import (
    ALGORITHMS,
    environment_arguments,
    evaluated_policy,
    evaluation_env,
    locate,
    resolve,
    training_env,
)

Result = dict[str, Any]
"""What a run leaves, as it stands in its file; see `execute`."""

FORMAT = 1
COLUMNS = "step", "mean_return", "standard_error", "num_episodes"
LAMBDAS = "train/weight_v_hat", "train/weight_q_bar"
# Episodes are played side by side: this bounds the memory that takes.
MAX_EVALUATION_ENVS = 1000


@dataclass(frozen=True)
class Evaluation:
    """How a run is evaluated: on the same action sets at every point, for everybody.

    Args:
        num_points: Number of evaluations after the one before learning.
        num_episodes: Episodes of an evaluation.
        num_final_episodes: Episodes of the last evaluation.
        seed: Seed of the evaluation's environments.
        log: Logged keys whose value at each evaluation is kept.
    """

    num_points: int = 20
    num_episodes: int = 100
    num_final_episodes: int = 1000
    seed: int = 1_000_000
    log: tuple[str, ...] = LAMBDAS

    def __post_init__(self) -> None:
        for name in ("num_points", "num_episodes", "num_final_episodes"):
            check_count(name, getattr(self, name))
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise ValueError(f"seed must be an integer, got {self.seed!r}")
        object.__setattr__(self, "log", tuple(self.log))


@dataclass(frozen=True)
class Run:
    """Everything that defines one run. Its key is a hash of all of it."""

    environment: str
    environment_arguments: dict[str, Any]
    algorithm: str
    policy: str
    arguments: dict[str, Any]
    num_envs: int
    num_steps: int
    seed: int
    evaluation: Evaluation
    versions: dict[str, str]

    @property
    def key(self) -> str:
        """Name of the run's result file: a hash of all fields."""
        return _digest(asdict(self))

    @property
    def setting(self) -> str:
        """A hash of all fields but the versions."""
        return _digest({**asdict(self), "versions": None})

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, as JSON has them."""
        fields: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return fields

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Run":
        """Build the run that `to_dict` took apart."""
        return cls(**{**fields, "evaluation": Evaluation(**fields["evaluation"])})


def check_count(name: str, value: Any) -> None:
    """Raise a `ValueError` unless a value is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def versions() -> dict[str, str]:
    """Return the versions that a result depends on.

    `source` is a hash of the syntax trees of `sas_gym` and `sas_agents`: in a working
    copy the version number stays while agents change, and results of two agents must
    not be mixed. Comments, docstrings and this sub-package do not count.
    """
    packages = ("stable_baselines3", "torch", "numpy", "gymnasium")
    return {
        "python": platform.python_version(),
        "sas_gym": version("sas-gym"),
        "source": _source_digest(),
        **{name: version(name) for name in packages},
    }


def _source_digest() -> str:
    import sas_agents
    import sas_gym

    digest = hashlib.sha256()
    ours = Path(__file__).parent
    for package in (sas_gym, sas_agents):
        root = Path(package.__path__[0])
        for path in sorted(root.rglob("*.py")):
            if ours not in path.parents:
                digest.update(path.relative_to(root).as_posix().encode())
                digest.update(_without_docstrings(path.read_text()).encode())
    return digest.hexdigest()[:12]


def _without_docstrings(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            body[:] = [line for line in body if not _is_text(line)]
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


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
    model = make_model(run)
    curve = _LearningCurve(run, reference, report)
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
            "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "host": platform.node(),
            "process": os.getpid(),
        },
    }


def make_model(run: Run) -> Any:
    """Build the untrained model of a run, in its environment."""
    env = training_env(
        run.algorithm,
        run.environment,
        run.environment_arguments,
        run.num_envs,
        run.seed,
    )
    algorithm_class = locate(ALGORITHMS[run.algorithm].location)
    return algorithm_class(run.policy, env, seed=run.seed, **resolve(run.arguments))


def reference_returns(
    env_id: str, arguments: dict[str, Any]
) -> dict[str, float | None]:
    """Return the mean return of random play and of the best policy.

    Where the planner does not know them, `random` is the mean of 1,000 episodes that
    are played, and `optimal` is `None`.
    """
    from sas_gym.planning import optimal_return, random_return

    env = gym.make(env_id, **environment_arguments(env_id, arguments, "observation"))
    try:
        return {"random": random_return(env), "optimal": optimal_return(env)}
    except ValueError:  # The planner says so of sets with a memory, or of a guest.
        return {"random": played_at_random(env_id, arguments), "optimal": None}
    finally:
        env.close()


def played_at_random(
    env_id: str, arguments: dict[str, Any], num_episodes: int = 1000
) -> float:
    """Play episodes with random available actions; return their mean return."""
    from sas_gym import episode_returns

    rng = np.random.default_rng(0)
    env = evaluation_env("SASPG", env_id, arguments, num_episodes)
    returns = episode_returns(
        env,
        lambda _, masks: (masks * rng.random(masks.shape)).argmax(axis=1),
        num_episodes,
        seed=0,
    )
    env.close()
    return float(returns.mean())


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
        reference: dict[str, float | None],
        report: Callable[[int, float], None] | None,
    ) -> None:
        self.run = run
        self.reference = reference
        self.report = report
        self.seconds = 0.0
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
        import torch as th

        from sas_gym import episode_returns

        started = time.perf_counter()
        run, seed = self.run, self.run.evaluation.seed
        env = evaluation_env(
            run.algorithm,
            run.environment,
            run.environment_arguments,
            min(num_episodes, MAX_EVALUATION_ENVS),
        )
        with th.random.fork_rng(devices=[]):
            th.manual_seed(seed)
            policy = evaluated_policy(run.algorithm, model, seed)
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
        if self.report is not None:
            score = normalized(mean, self.reference)
            self.report(step, mean if score is None else score)
