"""The table of algorithms that a study can run, and how each meets its masks."""

from collections.abc import Callable
from importlib import import_module
from inspect import Parameter, signature
from typing import Any, Literal, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

MaskChannel = Literal["observation", "method", "repair"]
Policy = Callable[[Any, NDArray[np.int8]], NDArray[Any]]
"""From observations and action masks [N, A] to actions [N]."""


class Algorithm(NamedTuple):
    """One entry of the table."""

    location: str
    """Its class, as `"module:Class"`."""
    policy: str
    """Its policy if the study names none."""
    is_greedy: bool = False
    """Whether it is evaluated with its best action, not with a drawn one."""
    mask_channel: MaskChannel = "observation"
    """How masks reach it: in the observation, by `action_masks()`, or not at all, with
    unavailable actions replaced by random available ones."""


ALGORITHMS = {
    "SASPG": Algorithm("sas_agents:SASPG", "LinearPolicy"),
    "SASNPG": Algorithm("sas_agents:SASNPG", "LinearPolicy"),
    "SASQ": Algorithm("sas_agents:SASQ", "LinearPolicy", is_greedy=True),
    "MaskedPPO": Algorithm("sas_agents:MaskedPPO", "MlpPolicy"),
    "MaskablePPO": Algorithm(
        "sb3_contrib:MaskablePPO", "MlpPolicy", mask_channel="method"
    ),
    "RepairedDQN": Algorithm(
        "stable_baselines3:DQN", "MlpPolicy", is_greedy=True, mask_channel="repair"
    ),
}


def locate(location: str) -> Any:
    """Import what `"module:name"` names."""
    module, _, name = location.partition(":")
    return getattr(import_module(module), name)


def resolve(arguments: dict[str, Any]) -> dict[str, Any]:
    """Turn arguments as a TOML file holds them into what a class takes.

    A key that ends in `_class` names a class as `"module:Class"`, and a text such as
    `"lin_0.02"` is a rate that falls linearly to 0, as in the RL Zoo. `"none"` is
    `None`, which TOML has no word for.
    """
    return {name: _resolved(name, value) for name, value in arguments.items()}


def _resolved(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return resolve(value)
    if value == "none":
        return None
    if isinstance(value, str) and name.endswith("_class"):
        return locate(value)
    if isinstance(value, str) and value.startswith("lin_"):
        from stable_baselines3.common.utils import LinearSchedule

        return LinearSchedule(float(value.removeprefix("lin_")), 0.0, 1.0)
    return value


def check_arguments(algorithm: str, arguments: dict[str, Any]) -> None:
    """Raise a `ValueError` for an argument that an algorithm's class does not have."""
    parameters = signature(locate(ALGORITHMS[algorithm].location)).parameters
    if any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values()):
        return
    unknown = [name for name in arguments if name not in parameters]
    if unknown:
        raise ValueError(
            f"{algorithm} has no argument {unknown[0]!r}; it has "
            f"{sorted(set(parameters) - {'policy', 'env', 'self'})}"
        )


def environment_arguments(
    env_id: str, arguments: dict[str, Any], channel: MaskChannel
) -> dict[str, Any]:
    """Return the keyword arguments of an environment as an algorithm needs it.

    `action_sets = {Markov = [0.1, 0.05]}` in a study becomes
    `sas_gym.action_sets.Markov(0.1, 0.05)`. Algorithms that take no mask in the
    observation get environments without one.
    """
    made = dict(arguments)
    if isinstance(sets := made.get("action_sets"), dict):
        ((name, values),) = sets.items()
        made["action_sets"] = locate(f"sas_gym.action_sets:{name}")(*values)
    if channel != "observation" and _has_mask(gym.make(env_id, **made)):
        made["mask_in_observation"] = False
    return made


def training_env(
    algorithm: str, env_id: str, arguments: dict[str, Any], num_envs: int, seed: int
) -> Any:
    """Make the `VecEnv` that an algorithm learns in."""
    from sas_agents import make_vec_env
    from sas_gym import RepairAction

    channel = ALGORITHMS[algorithm].mask_channel
    made = environment_arguments(env_id, arguments, channel)
    if channel == "repair":

        def repaired() -> gym.Env[Any, Any]:
            return RepairAction(gym.make(env_id, **made))

        return make_vec_env(repaired, num_envs, seed=seed)
    return make_vec_env(env_id, num_envs, seed=seed, env_kwargs=made)


def evaluation_env(
    algorithm: str, env_id: str, arguments: dict[str, Any], num_envs: int
) -> VectorEnv[Any, Any, Any]:
    """Make the vector environment that an algorithm is evaluated in."""
    from sas_gym import MaskInObservation

    channel = ALGORITHMS[algorithm].mask_channel
    made = environment_arguments(env_id, arguments, channel)
    if gym.spec(env_id).vector_entry_point is not None:
        return gym.make_vec(env_id, num_envs, **made)
    return gym.make_vec(
        env_id,
        num_envs,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
        wrappers=[MaskInObservation] if channel == "observation" else None,
        **made,
    )


def evaluated_policy(algorithm: str, model: Any, seed: int) -> Policy:
    """Return how a trained model acts when it is evaluated."""
    entry = ALGORITHMS[algorithm]
    rng = np.random.default_rng(seed)

    def choose(observation: Any, masks: NDArray[np.int8]) -> NDArray[Any]:
        by_argument = {"action_masks": masks} if entry.mask_channel == "method" else {}
        actions: NDArray[Any] = model.predict(
            observation, deterministic=entry.is_greedy, **by_argument
        )[0]
        if entry.mask_channel == "repair":
            repairs = (masks * rng.random(masks.shape)).argmax(axis=1)
            rows = np.arange(len(masks))
            actions = np.where(masks[rows, actions] == 1, actions, repairs)
        return actions

    return choose


def _has_mask(env: gym.Env[Any, Any]) -> bool:
    space = env.observation_space
    env.close()
    return isinstance(space, gym.spaces.Dict) and "action_mask" in space.spaces
