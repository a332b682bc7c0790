"""The environments that a study can name, and how masks reach an algorithm in them."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorWrapper
from gymnasium.wrappers import TimeLimit
from numpy.typing import NDArray

from sas_gym import MaskInObservation, RepairAction, StochasticActionSets, Task

MaskChannel = Literal["observation", "method", "repair"]
"""How masks reach an algorithm: in the observation, by `action_masks()`, or not at all,
with unavailable actions replaced by random available ones."""

# Episodes are played side by side: this bounds the memory that takes.
MAX_ENVS = 1000
# Without a vector form more environments are not faster, and each must be made.
MAX_GUESTS = 100


class Problem(NamedTuple):
    """An environment as a study names it, with every argument in its place."""

    target: str | Task | Callable[[], gym.Env[Any, Any]]
    """An id or a task that draws its own action sets; or what makes a guest."""
    options: dict[str, Any] = {}
    """Arguments of the id, or of the environment of the task."""
    guest_sets: Any = None
    """Distribution of the action sets to draw for a guest; `None` if it has masks."""
    guest_mask: str | None = None
    """Where a guest has its mask, if in an unusual place; see `MaskInObservation`."""


def locate(location: str) -> Any:
    """Import what `"module:name"` names."""
    module, _, name = location.partition(":")
    return getattr(import_module(module), name)


def find_spec(environment: str) -> EnvSpec | None:
    """Return the spec of an id, and `None` for an entry point, `"module:name"`.

    Raises:
        ValueError: If it is neither.
    """
    module, _, name = environment.rpartition(":")
    try:
        source = import_module(module) if module else None
        if callable(getattr(source, name, None)):
            return None
        return gym.spec(name)
    except (gym.error.Error, ModuleNotFoundError) as error:
        raise ValueError(
            f"there is no environment {environment!r}: {error}. Write an id "
            "('module:Id-v0' imports the module that registers it), or 'module:name' "
            "for a class or function that returns an environment or a sas_gym.Task"
        ) from error


def make_problem(environment: str, arguments: dict[str, Any]) -> Problem:
    """Sort the arguments of an environment.

    `action_sets = {Markov = [0.1, 0.05]}` in a study stands for
    `sas_gym.action_sets.Markov(0.1, 0.05)`. A guest, which takes no such argument and
    no `availability`, gets `StochasticActionSets` around it. `mask` names the key or
    the method of its mask.
    """
    made = dict(arguments)
    if isinstance(sets := made.get("action_sets"), dict):
        ((name, values),) = sets.items()
        made["action_sets"] = locate(f"sas_gym.action_sets:{name}")(*values)
    spec = find_spec(environment)
    if spec is None:
        return _of_entry_point(locate(environment), made)
    creator: Any = spec.entry_point
    if isinstance(creator, str):
        creator = load_env_creator(creator)
    if _takes(creator, "mask_in_observation"):
        return Problem(environment, made)
    sets = _taken(creator, made, "action_sets", "availability")
    mask = _taken(creator, made, "mask")
    return Problem(partial(gym.make, environment, **made), {}, sets, mask)


def _of_entry_point(make: Callable[..., Any], arguments: dict[str, Any]) -> Problem:
    sets = _taken(make, arguments, "action_sets", "availability")
    mask = _taken(make, arguments, "mask")
    limit = arguments.pop("max_episode_steps", None)
    made = make(**arguments)
    if isinstance(made, Task):
        options = {"action_sets": sets, "max_episode_steps": limit}
        return Problem(
            made, {name: value for name, value in options.items() if value is not None}
        )
    made.close()

    def guest() -> gym.Env[Any, Any]:
        env: gym.Env[Any, Any] = make(**arguments)
        return env if limit is None else TimeLimit(env, limit)

    return Problem(guest, {}, sets, mask)


def _taken(make: Callable[..., Any], arguments: dict[str, Any], *names: str) -> Any:
    """Take the first of some arguments out that `make` has no use for."""
    for name in names:
        if name in arguments and not _takes(make, name):
            return arguments.pop(name)
    return None


def _takes(make: Callable[..., Any], name: str) -> bool:
    parameters = signature(make).parameters
    is_open = any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values())
    return name in parameters or (is_open and name != "mask_in_observation")


def make_env(problem: Problem, mask_in_observation: bool = True) -> gym.Env[Any, Any]:
    """Make one environment; a guest with masks has them where it has them."""
    from sas_agents.vec_env._vec_env import single_env

    options = {**problem.options, "mask_in_observation": mask_in_observation}
    if isinstance(problem.target, str):
        return gym.make(problem.target, **options)
    if isinstance(problem.target, Task):
        return single_env(problem.target, **options)
    env = problem.target()
    if problem.guest_sets is not None:
        return StochasticActionSets(
            env,
            problem.guest_sets,
            mask_in_observation=mask_in_observation,
            mask=problem.guest_mask,
        )
    if problem.guest_mask is None:
        return env
    wrapper = MaskInObservation if mask_in_observation else RepairAction
    return wrapper(env, mask=problem.guest_mask)


def training_env(
    problem: Problem, channel: MaskChannel, num_envs: int, seed: int
) -> Any:
    """Make the `VecEnv` that an algorithm learns in."""
    from sas_agents.vec_env._vec_env import make_vec_env

    in_observation = channel == "observation"
    if channel != "repair" and isinstance(problem.target, str | Task):
        options = {**problem.options, "mask_in_observation": in_observation}
        return make_vec_env(problem.target, num_envs, seed=seed, env_kwargs=options)

    def single() -> gym.Env[Any, Any]:
        env = make_env(problem, in_observation)
        if in_observation:
            return env
        # The wrapper has the method as well, and repairs nothing where masks are kept.
        is_ready = channel == "method" and env.has_wrapper_attr("action_masks")
        return env if is_ready else RepairAction(env)

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
    from sas_agents.vec_env._vec_env import native_vector_env

    in_observation = channel == "observation"
    if isinstance(problem.target, str | Task):
        options = {**problem.options, "mask_in_observation": in_observation}
        num_envs = min(num_episodes, MAX_ENVS)
        native = native_vector_env(problem.target, num_envs, options)
        if native is not None:
            return EpisodeStarts(native)
    # Either wrapper puts the mask into the info, from wherever it is.
    wrapper = MaskInObservation if in_observation else RepairAction

    def single() -> gym.Env[Any, Any]:
        return wrapper(make_env(problem, in_observation))

    singles = [single for _ in range(min(num_episodes, MAX_GUESTS))]
    vector = SyncVectorEnv(singles, autoreset_mode=AutoresetMode.SAME_STEP)
    for index, env in enumerate(vector.envs):
        env.action_space.seed(seed + index)  # Some draw from it, as IdentityEnv does.
    return EpisodeStarts(vector)
