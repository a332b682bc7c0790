"""The environments that an algorithm learns in and is evaluated in, with its masks."""

from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorWrapper
from numpy.typing import NDArray

from sas_agents.study.definition._algorithms import MaskChannel
from sas_agents.study.definition._environments import Problem
from sas_agents.vec_env._vec_env import make_vec_env, native_vector_env, single_env
from sas_gym import MaskInObservation, RepairAction, StochasticActionSets, Task
from sas_gym._wrappers import MaskWrapper

# Episodes are played side by side: this bounds the memory that takes.
MAX_ENVS = 1000
# Without a vector form more environments are not faster, and each must be made.
MAX_GUESTS = 100


def make_env(problem: Problem, mask_in_observation: bool = True) -> gym.Env[Any, Any]:
    """Make one environment; a guest with masks has them where it has them."""
    options = {**problem.options, "mask_in_observation": mask_in_observation}
    if isinstance(problem.target, str):
        return gym.make(problem.target, **options)
    if isinstance(problem.target, Task):
        return single_env(problem.target, **options)
    env = problem.target()
    if problem.guest_sets is None:
        return env
    return StochasticActionSets(
        env,
        problem.guest_sets,
        mask=problem.guest_mask,
        mask_in_observation=mask_in_observation,
    )


def with_mask(
    env: gym.Env[Any, Any], channel: MaskChannel, mask: str | None = None
) -> gym.Env[Any, Any]:
    """Bring the mask of an environment to where an algorithm looks for it.

    Args:
        env: The environment.
        channel: How masks reach the algorithm.
        mask: Where the environment has its mask, if in an unusual place.
    """
    if channel == "observation":
        return MaskInObservation(env, mask=mask)
    if channel == "repair":
        return RepairAction(env, mask=mask)
    return MaskWrapper(env, mask, in_observation=False)


def training_env(
    problem: Problem, channel: MaskChannel, num_envs: int, seed: int
) -> Any:
    """Make the `VecEnv` that an algorithm learns in."""
    in_observation = channel == "observation"
    if channel != "repair" and isinstance(problem.target, str | Task):
        return make_vec_env(
            problem.target,
            num_envs,
            seed=seed,
            env_kwargs=problem.options,
            mask_in_observation=in_observation,
        )

    def single() -> gym.Env[Any, Any]:
        return with_mask(make_env(problem, in_observation), channel, problem.outer_mask)

    return make_vec_env(single, num_envs, seed=seed, mask_in_observation=in_observation)


if TYPE_CHECKING:
    AnyVectorWrapper = VectorWrapper[Any, Any, Any]
else:  # before Gymnasium 1.4 it takes no types
    AnyVectorWrapper = VectorWrapper


class EpisodeStarts(AnyVectorWrapper):
    """Remembers where an episode has just started, which a memory must know.

    Args:
        env: Environments that start an episode in the step that ends another.
    """

    episode_starts: NDArray[np.bool_]

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Start an episode everywhere."""
        self.episode_starts = np.ones(self.num_envs, dtype=bool)
        return self.env.reset(**arguments)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take a step everywhere."""
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        self.episode_starts = np.asarray(terminated | truncated)
        return observations, rewards, terminated, truncated, infos


def evaluation_env(
    problem: Problem, channel: MaskChannel, num_episodes: int, seed: int
) -> EpisodeStarts:
    """Make the vector environment that an algorithm is evaluated in."""
    in_observation = channel == "observation"
    if isinstance(problem.target, str | Task):
        options = {**problem.options, "mask_in_observation": in_observation}
        num_envs = min(num_episodes, MAX_ENVS)
        native = native_vector_env(problem.target, num_envs, options)
        if native is not None:
            return EpisodeStarts(native)

    def single() -> gym.Env[Any, Any]:
        return with_mask(make_env(problem, in_observation), channel, problem.outer_mask)

    singles = [single for _ in range(min(num_episodes, MAX_GUESTS))]
    vector = SyncVectorEnv(singles, autoreset_mode=AutoresetMode.SAME_STEP)
    for index, env in enumerate(vector.envs):
        env.action_space.seed(seed + index)  # Some draw from it, as IdentityEnv does.
    return EpisodeStarts(vector)
