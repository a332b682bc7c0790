"""Checks of what users pass and have installed, shared by both packages."""

from importlib import import_module
from numbers import Real

import numpy as np
from gymnasium.error import DependencyNotInstalled
from numpy.typing import ArrayLike

from sas_gym._types import Floats


def check_integer(name: str, number: float, *, least: int) -> None:
    """Raise `ValueError` unless a number is an integer from a least one up."""
    is_integer = isinstance(number, int | np.integer) and not isinstance(number, bool)
    if not is_integer or number < least:
        raise ValueError(
            f"{name} must be an integer of at least {least}, got {number!r}"
        )


def check_number(name: str, number: float, *, most: float = np.inf) -> None:
    """Raise `ValueError` unless a number is finite, not negative and not too large."""
    if not (isinstance(number, Real) and 0 <= number <= most and np.isfinite(number)):
        span = "of at least 0" if most == np.inf else f"in [0, {most}]"
        raise ValueError(f"{name} must be a finite number {span}, got {number!r}")


def check_fraction(name: str, number: float) -> None:
    """Raise `ValueError` unless a number is in [0, 1]."""
    check_number(name, number, most=1)


def check_finite_number(name: str, number: float) -> None:
    """Raise `ValueError` unless a number is finite."""
    if not (isinstance(number, Real) and np.isfinite(number)):
        raise ValueError(f"{name} must be a finite number, got {number!r}")


def finite_array(name: str, values: ArrayLike) -> Floats:
    """Return values as an array of floats, which must be finite."""
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite numbers")
    return array


def require_extra(extra: str, *packages: str) -> None:
    """Raise `DependencyNotInstalled` unless an extra's packages can be imported."""
    for package in packages:
        try:
            import_module(package)
        except ImportError as error:
            raise DependencyNotInstalled(
                f'{package} is missing: run `pip install "sas-gym[{extra}]"`'
            ) from error
