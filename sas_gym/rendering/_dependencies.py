"""The packages that come with the extra `render`, loaded when first used."""

import warnings
from importlib import import_module
from types import ModuleType

from gymnasium.error import DependencyNotInstalled


def require(module: str) -> ModuleType:
    """Import a module of matplotlib or pygame.

    Raises:
        DependencyNotInstalled: If it is missing, with the command that installs it.
    """
    try:
        with warnings.catch_warnings():
            # pygame 2.6 loads pkg_resources where there is one, and that warns.
            warnings.simplefilter("ignore")
            return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise DependencyNotInstalled(
            f'rendering needs {package}: run `pip install "sas-gym[render]"`'
        ) from error
