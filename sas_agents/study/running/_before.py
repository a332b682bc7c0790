"""Checks that come once, before hours of work."""

import json
from collections.abc import Sequence

from sas_agents.study.definition._algorithms import find_algorithm, is_function
from sas_agents.study.definition._environments import Problem, make_problem
from sas_agents.study.definition._runs import Run
from sas_agents.study.running._acting import check_predict
from sas_agents.study.running._envs import make_env, with_mask
from sas_agents.study.running._evaluation import own_randomness
from sas_agents.study.running._training import make_model


def check_environments(runs: Sequence[Run]) -> None:
    """Make and reset every environment once, or raise a `ValueError`."""
    for run in {_variant(run): run for run in runs}.values():
        try:
            _check_environment(make_problem(run.environment, run.environment_arguments))
        except Exception as error:  # An environment may raise anything.
            raise ValueError(
                f"cannot make {run.environment} with {run.environment_arguments}: "
                f"{error}"
            ) from error


def _check_environment(problem: Problem) -> None:
    with own_randomness(0):
        env = make_env(problem)
        try:
            if not problem.is_ours:
                with_mask(env, "info", problem.outer_mask).reset(seed=0)
        finally:
            env.close()


def check_models(runs: Sequence[Run]) -> None:
    """Make the model of every setting once, or raise a `ValueError`.

    A training function is only imported.
    """
    for run in {_settings(run): run for run in runs}.values():
        algorithm = find_algorithm(run.entry.location)
        if is_function(algorithm):
            continue
        problem = make_problem(run.environment, run.environment_arguments)
        try:
            with own_randomness(run.seed):
                model = make_model(run, problem)
                check_predict(run.entry, model)
                if hasattr(model, "get_env"):
                    model.get_env().close()
        except Exception as error:  # An algorithm may raise anything.
            raise ValueError(
                f"cannot make {run.algorithm} for {run.environment} with the policy "
                f"{run.policy!r} and {run.arguments}: {_first_line(error)}"
            ) from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0]


def _variant(run: Run) -> str:
    return json.dumps([run.environment, run.environment_arguments], sort_keys=True)


def _settings(run: Run) -> str:
    parts = [run.environment, run.algorithm, run.policy, run.arguments, run.num_envs]
    return json.dumps(parts, sort_keys=True)
