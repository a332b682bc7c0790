"""Scores of trained policies: exact where possible, else from episodes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sas_agents.study.definition._environments import Problem
from sas_agents.study.definition._runs import Run
from sas_agents.study.running._acting import WAYS, Actor, has_memory
from sas_agents.study.running._envs import evaluation_env, make_env
from sas_gym import RandomPolicy, episode_returns

# Of final scores, unless the study says another number.
NUM_EPISODES, NUM_GUEST_EPISODES = 40_000, 1_000
# With more pairs of a state and an action set, episodes take less time.
MAX_PAIRS = 200_000


class Score(NamedTuple):
    """The mean return of a policy."""

    mean_return: float
    standard_error: float
    num_episodes: int
    """0 if the mean is exact."""


class Evaluator:
    """Evaluates the policies of one run.

    Args:
        run: The run.
        problem: Its environment.
    """

    def __init__(self, run: Run, problem: Problem) -> None:
        self.run = run
        self.problem = problem
        self.algorithm = run.entry
        self.tabular = tabular_env(problem, self.algorithm.mask == "observation")

    def on_curve(self, model: Any) -> Score:
        """Evaluate a policy while it learns, on the episodes that all runs share."""
        evaluation = self.run.evaluation
        greedy = self.algorithm.is_greedy
        return self.score(model, greedy, evaluation.num_episodes, evaluation.seed)

    def at_the_end(self, model: Any) -> dict[str, Score]:
        """Evaluate the final policy in each way that it can act, on fresh episodes."""
        default = NUM_EPISODES if self.problem.is_ours else NUM_GUEST_EPISODES
        num_episodes = self.run.evaluation.num_final_episodes or default
        return {
            way: self.score(model, greedy, num_episodes, final_seed(self.run))
            for way, greedy in ways_of(self.run, model).items()
        }

    def score(self, model: Any, greedy: bool, num_episodes: int, seed: int) -> Score:
        """Evaluate a policy, without touching the random numbers of its training."""
        from sas_gym.planning import policy_return

        with own_randomness(seed):
            actor = Actor(self.algorithm, model, greedy, seed)
            probabilities = actor.probabilities()
            if self.tabular is None or probabilities is None or has_memory(model):
                return self._played(actor, num_episodes, seed)
            mean = policy_return(self.tabular, probabilities, max_pairs=MAX_PAIRS)
            return Score(float(mean), 0.0, 0)

    def _played(self, actor: Actor, num_episodes: int, seed: int) -> Score:
        channel = self.algorithm.mask
        env = evaluation_env(self.problem, channel, num_episodes, seed)
        returns = episode_returns(
            env,
            lambda obs, masks: actor.actions(obs, masks, env.episode_starts),
            num_episodes,
            seed,
        )
        env.close()
        error = returns.std(ddof=1) / np.sqrt(len(returns)) if len(returns) > 1 else 0.0
        return Score(float(returns.mean()), float(error), len(returns))


def tabular_env(problem: Problem, mask_in_observation: bool) -> Any:
    """Return an environment in which the planner can evaluate any policy, or `None`."""
    from sas_gym.planning import policy_return

    if not problem.is_ours:
        return None
    env = make_env(problem, mask_in_observation)
    try:
        policy_return(env, _first_available, max_pairs=MAX_PAIRS)
    except ValueError:  # Not tabular, sets without a list, or too many pairs.
        env.close()
        return None
    return env


def _first_available(_: Any, masks: NDArray[np.int8]) -> NDArray[np.intp]:
    first: NDArray[np.intp] = masks.argmax(axis=1)
    return first


def ways_of(run: Run, model: Any) -> dict[str, bool]:
    """Return the ways in which a policy acts: their names, and whether greedy.

    A function acts in one way.
    """
    if run.entry.is_greedy:
        return {"greedy": True}
    return WAYS if hasattr(model, "predict") else {"sampled": False}


def final_seed(run: Run) -> int:
    """Return the seed of a run's final episodes, which no other run has.

    So the spread over runs holds the luck of the episodes, too.
    """
    sequence = np.random.SeedSequence([run.evaluation.seed, run.seed, 1])
    return int(sequence.generate_state(1)[0])


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
