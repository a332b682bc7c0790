"""The problems that agents are compared on, each with a reference return."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from numpy.typing import NDArray
from problems import PROBLEMS
from sb3_contrib.common.envs import InvalidActionEnvDiscrete
from stable_baselines3.common.env_util import make_vec_env as sb3_make_vec_env

from examples import dispatch
from examples.grid import grid
from sas_agents import make_vec_env
from sas_gym import (
    MaskInObservation,
    RepairAction,
    SASEnv,
    SASVectorEnv,
    StochasticActionSets,
    episode_returns,
)
from sas_gym.masks import MASK_KEY
from sas_gym.planning import optimal_return

Rule = Callable[[Any, NDArray[np.int8]], int]
"""From an observation and a mask to an action."""
Options = dict[str, Any]
MAX_ENVS = 50


class Entry(NamedTuple):
    """A problem of the comparison."""

    make: Callable[..., gym.Env[Any, Any]]
    """Makes one environment, which has its mask in any place."""
    policy: str
    """Policy of the agents of `sas_agents`; peers have networks everywhere."""
    num_envs: int = 8
    """Number of copies that agents learn in."""
    rule: Callable[[gym.Env[Any, Any]], Rule] | None = None
    """Returns a hand-written rule, whose return is the reference."""
    reference: Callable[[], float] | None = None
    """Returns the reference where no rule is played: the optimum or a bound."""
    target: Any = None
    """Id or task with a vector form of its own; it has its mask in the observation."""
    settings: dict[str, Options] = {}
    """Arguments of single agents on this problem."""


class WithoutMask(gym.ObservationWrapper[Any, Any, Any]):
    """Take the mask out of the observation, for agents that get it elsewhere."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        space: Any = env.observation_space
        spaces = {name: space[name] for name in space if name != MASK_KEY}
        self._is_bare = list(spaces) == ["observation"]
        if self._is_bare:
            self.observation_space = spaces["observation"]
        else:
            self.observation_space = gym.spaces.Dict(spaces)

    def observation(self, observation: Any) -> Any:
        """Return the observation without the mask."""
        if self._is_bare:
            return observation["observation"]
        return {name: value for name, value in observation.items() if name != MASK_KEY}


def peer_env(entry: Entry, options: Options) -> gym.Env[Any, Any]:
    """Make an environment with `action_masks()`, which repairs unavailable actions."""
    env = RepairAction(entry.make(**options))
    space = env.observation_space
    is_masked = isinstance(space, gym.spaces.Dict) and MASK_KEY in space.spaces
    return WithoutMask(env) if is_masked else env


def our_env(entry: Entry, options: Options) -> gym.Env[Any, Any]:
    """Make an environment with the mask in the observation."""
    return MaskInObservation(entry.make(**options))


def training_env(entry: Entry, is_peer: bool, seed: int, options: Options) -> Any:
    """Make the copies that an agent learns in."""
    if entry.target is not None and not is_peer:
        limits = {} if isinstance(entry.target, str) else {"max_episode_steps": 200}
        return make_vec_env(
            entry.target, entry.num_envs, seed=seed, env_kwargs={**limits, **options}
        )
    if is_peer:
        peers = partial(peer_env, entry, options)
        return sb3_make_vec_env(peers, entry.num_envs, seed=seed)
    return make_vec_env(partial(our_env, entry, options), entry.num_envs, seed=seed)


def evaluation_env(entry: Entry, is_peer: bool, num_episodes: int, options: Any) -> Any:
    """Make the copies that an agent is evaluated in; infos hold the masks."""
    num_envs = min(num_episodes, MAX_ENVS)
    if isinstance(entry.target, str) and not is_peer:
        return gym.make_vec(
            entry.target, num_envs, vectorization_mode="vector_entry_point", **options
        )
    if entry.target is not None and not is_peer:
        return SASVectorEnv(entry.target, num_envs, max_episode_steps=200, **options)
    make = partial(peer_env if is_peer else our_env, entry, options)
    return SyncVectorEnv([make] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)


def reference_return(entry: Entry, num_episodes: int, seed: int) -> float:
    """Return the optimum, a bound, or the mean return of the rule."""
    if entry.rule is None:
        assert entry.reference is not None
        return entry.reference()
    env = evaluation_env(entry, True, num_episodes, {})
    rule = entry.rule(entry.make())

    def play(observations: Any, masks: NDArray[np.int8]) -> NDArray[np.int64]:
        rows = [
            ({name: column[row] for name, column in observations.items()}, mask)
            for row, mask in enumerate(masks)
        ]
        return np.array([rule(*row) for row in rows])

    return float(episode_returns(env, play, num_episodes, seed).mean())


def _own(env_id: str, **settings: Options) -> Entry:
    return Entry(
        partial(gym.make, env_id),
        "MultiInputPolicy",
        rule=lambda env: env.get_wrapper_attr("rule"),
        settings=settings,
    )


def _suite(env_id: str, policy: str = "LinearPolicy", num_envs: int = 64) -> Entry:
    return Entry(
        partial(gym.make, env_id),
        policy,
        num_envs,
        reference=lambda: float(optimal_return(gym.make(env_id))),
        target=env_id,
    )


def _grid() -> Entry:
    return Entry(
        lambda **options: TimeLimit(SASEnv(grid(), **options), 200),
        "LinearPolicy",
        64,
        reference=lambda: float(
            optimal_return(SASVectorEnv(grid(), max_episode_steps=200))
        ),
        target=grid(),
    )


def _cart_pole(**options: Any) -> gym.Env[Any, Any]:
    return StochasticActionSets(gym.make("CartPole-v1"), 0.7, **options)


def _taxi_optimum() -> float:
    """Return the optimum of Taxi, whose steps are deterministic."""
    taxi: Any = gym.make("Taxi-v4").unwrapped
    outcomes = [[taxi.P[s][a][0] for a in range(6)] for s in range(len(taxi.P))]
    _, after, reward, ended = np.moveaxis(np.array(outcomes), -1, 0)
    value = np.zeros(len(outcomes))
    for _ in range(200):
        value = (reward + (1 - ended) * value[after.astype(int)]).max(axis=1)
    return float(taxi.initial_state_distrib @ value)


SMALL_BUFFER: Options = {"buffer_size": 5000}
ENTRIES = {
    **{name: _own(env_id) for name, env_id in PROBLEMS.items() if name != "haulage"},
    "haulage": _own(PROBLEMS["haulage"], SASQ=SMALL_BUFFER, RepairedDQN=SMALL_BUFFER),
    "map": _suite("SAS/SanFrancisco-v0"),
    "maze": _suite("SAS/Maze-v0"),
    "recommender": _suite("SAS/Recommender-v0"),
    "bay area": _suite("SAS/BayArea-v0"),
    "grid": _grid(),
    "taxi": Entry(
        partial(gym.make, "Taxi-v4"), "LinearPolicy", 64, reference=_taxi_optimum
    ),
    "cart pole": Entry(_cart_pole, "MlpPolicy", 64, reference=lambda: 500.0),
    "invalid actions": Entry(
        lambda: InvalidActionEnvDiscrete(dim=80, n_invalid_actions=60),
        "LinearPolicy",
        64,
        reference=lambda: 100.0,
    ),
    "dispatch": Entry(
        partial(gym.make, "sas_examples/Dispatch-v0"),
        "MultiInputPolicy",
        64,
        rule=lambda _env: dispatch.nearest_driver,
    ),
    "maze, networks": _suite("SAS/Maze-v0", "MlpPolicy", 8),
}
"""The problems by name: our own, the nine of the older comparison, and one more."""
OWN = tuple(PROBLEMS)
NINE = tuple(name for name in ENTRIES if name not in (*OWN, "maze, networks"))
