"""The table of algorithms that a study can run, and how each one acts."""

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sas_agents.study.definition._environments import EpisodeStarts, MaskChannel, locate
from sas_gym.masks import sample_actions

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
    """How masks reach it."""


ALGORITHMS = {
    "SASPG": Algorithm("sas_agents:SASPG", "LinearPolicy"),
    "SASNPG": Algorithm("sas_agents:SASNPG", "LinearPolicy"),
    "SASQ": Algorithm("sas_agents:SASQ", "LinearPolicy", is_greedy=True),
    "MaskedPPO": Algorithm("sas_agents:MaskedPPO", "MlpPolicy"),
    "MaskedA2C": Algorithm("sas_agents:MaskedA2C", "MlpPolicy"),
    "MaskedTRPO": Algorithm("sas_agents:MaskedTRPO", "MlpPolicy"),
    "MaskedRecurrentPPO": Algorithm("sas_agents:MaskedRecurrentPPO", "MlpLstmPolicy"),
    "MaskedQRDQN": Algorithm("sas_agents:MaskedQRDQN", "MlpPolicy", is_greedy=True),
    "MaskablePPO": Algorithm(
        "sb3_contrib:MaskablePPO", "MlpPolicy", mask_channel="method"
    ),
    "RepairedDQN": Algorithm(
        "stable_baselines3:DQN", "MlpPolicy", is_greedy=True, mask_channel="repair"
    ),
}


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
    parameters = dict(signature(locate(ALGORITHMS[algorithm].location)).parameters)
    # A run sets these itself; the last one is for SB3's `load`.
    for name in ("self", "policy", "env", "seed", "_init_setup_model"):
        parameters.pop(name, None)
    if any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values()):
        return
    unknown = [name for name in arguments if name not in parameters]
    if unknown:
        raise ValueError(
            f"{algorithm} has no argument {unknown[0]!r}; it has {sorted(parameters)}"
        )


def evaluated_policy(
    algorithm: str, model: Any, env: EpisodeStarts, seed: int
) -> Policy:
    """Return how a trained model acts when it is evaluated, with its memory if any."""
    entry = ALGORITHMS[algorithm]
    rng = np.random.default_rng(seed)
    memory: Any = None

    def choose(observation: Any, masks: NDArray[np.int8]) -> NDArray[Any]:
        nonlocal memory
        by_argument = {"action_masks": masks} if entry.mask_channel == "method" else {}
        actions: NDArray[Any]
        actions, memory = model.predict(
            observation,
            state=memory,
            episode_start=env.episode_starts,
            deterministic=entry.is_greedy,
            **by_argument,
        )
        if entry.mask_channel == "repair":
            rows = np.arange(len(masks))
            is_available = masks[rows, actions] == 1
            actions = np.where(is_available, actions, sample_actions(masks, rng))
        return actions

    return choose
