"""The algorithms that a study can run: ours, peers, and a user's own."""

from collections.abc import Callable
from functools import cache
from inspect import Parameter, isclass, signature
from typing import Any, Literal, NamedTuple, get_args

from sas_agents.study.definition._environments import locate

MaskChannel = Literal["observation", "info", "method", "repair"]
"""How masks reach an algorithm: in the observation, in the infos, by the method
`action_masks()`, or not at all, with unavailable actions replaced by random ones."""

OWN_POLICY = "MlpPolicy"
"""Policy of a user's own class, unless the study names one."""


class Algorithm(NamedTuple):
    """An algorithm and how it acts."""

    location: str
    """Its class, or its training function, as `"module:name"`."""
    policy: str = OWN_POLICY
    """Its policy if the study names none."""
    is_greedy: bool = False
    """Whether it only has a greedy way of acting, and no sampled one."""
    mask: MaskChannel = "observation"
    """How masks reach it."""


ALGORITHMS = {
    "SASPG": Algorithm("sas_agents:SASPG", "LinearPolicy"),
    "SASNPG": Algorithm("sas_agents:SASNPG", "LinearPolicy"),
    "SASQ": Algorithm("sas_agents:SASQ", "LinearPolicy", is_greedy=True),
    "MaskedPPO": Algorithm("sas_agents:MaskedPPO"),
    "MaskedA2C": Algorithm("sas_agents:MaskedA2C"),
    "MaskedTRPO": Algorithm("sas_agents:MaskedTRPO"),
    "MaskedRecurrentPPO": Algorithm("sas_agents:MaskedRecurrentPPO", "MlpLstmPolicy"),
    "MaskedQRDQN": Algorithm("sas_agents:MaskedQRDQN", is_greedy=True),
    "MaskablePPO": Algorithm("sb3_contrib:MaskablePPO", mask="method"),
    "RepairedDQN": Algorithm("stable_baselines3:DQN", is_greedy=True, mask="repair"),
}
"""The shipped algorithms by name."""


def algorithm_of(
    name: str, mask: str | None = None, greedy: bool | None = None
) -> Algorithm:
    """Return a shipped algorithm by its name, or a user's own by `"module:name"`.

    Args:
        name: The name, or the place of a class or function.
        mask: How masks reach it, if not as the table says.
        greedy: Whether it only acts greedily, if not as the table says.

    Raises:
        ValueError: If there is no such algorithm, or no such way of a mask.
    """
    entry = ALGORITHMS.get(name)
    if entry is None:
        module, colon, attribute = name.partition(":")
        if not (colon and module and attribute):
            raise ValueError(
                f"there is no algorithm {name!r}: choose one of {sorted(ALGORITHMS)}, "
                'or name a class or function of your own by class = "module:name"'
            )
        entry = Algorithm(name)
    channels = get_args(MaskChannel)
    if mask is not None and mask not in channels:
        raise ValueError(f"mask must be one of {list(channels)}, got {mask!r}")
    return Algorithm(
        entry.location,
        entry.policy,
        entry.is_greedy if greedy is None else greedy,
        entry.mask if mask is None else mask,  # type: ignore[arg-type]  # checked
    )


def place_of(thing: Callable[..., Any]) -> str:
    """Return the place of a class or function, as `"module:name"`.

    Raises:
        ValueError: If other processes cannot import it.
    """
    module, name = thing.__module__, getattr(thing, "__qualname__", "")
    if module == "__main__" or "<" in name or not name:
        raise ValueError(
            f"{thing} cannot be imported by the worker processes of a study: put it "
            "at the top level of a module of its own, a file beside the study"
        )
    return f"{module}:{name}"


def find_algorithm(location: str) -> Any:
    """Import an algorithm's class or function.

    Raises:
        ValueError: If it cannot be imported or called.
    """
    try:
        found = locate(location)
    except ImportError as error:
        raise ValueError(f"cannot import the algorithm {location!r}: {error}") from (
            error
        )
    except AttributeError as error:
        raise ValueError(f"there is no algorithm {location!r}: {error}") from error
    if not callable(found):
        raise ValueError(f"{location!r} is no class or function, but {found!r}")
    return found


def is_function(algorithm: Any) -> bool:
    """Return whether an algorithm is a training function and not a class."""
    return not isclass(algorithm)


def resolve(arguments: dict[str, Any]) -> dict[str, Any]:
    """Turn the arguments of a TOML file into arguments of a class.

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


def check_arguments(algorithm: Algorithm, arguments: dict[str, Any]) -> None:
    """Raise a `ValueError` for an argument that an algorithm does not have."""
    known = _arguments_of(algorithm.location)
    unknown = [name for name in arguments if known is not None and name not in known]
    if unknown:
        name = algorithm.location.partition(":")[2]
        raise ValueError(f"{name} has no argument {unknown[0]!r}; it has {known}")


@cache
def _arguments_of(location: str) -> list[str] | None:
    """Return the arguments that a study may set, or `None` for any."""
    found = find_algorithm(location)
    parameters = dict(signature(found).parameters)
    # A run sets these itself.
    of_class = ("self", "policy", "env", "seed", "_init_setup_model")
    of_function = ("env", "steps", "seed", "callback")
    for name in of_function if is_function(found) else of_class:
        parameters.pop(name, None)
    kinds = {parameter.kind for parameter in parameters.values()}
    return None if Parameter.VAR_KEYWORD in kinds else sorted(parameters)
