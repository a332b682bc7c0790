"""Which code a module is: a hash of local files, the versions of installed packages.

Modules are found and read, never imported: a hash must not run a user's code.
"""

import ast
import hashlib
import sys
import sysconfig
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import NamedTuple

INSTALLED = {"site-packages", "dist-packages"}
STANDARD = Path(sysconfig.get_path("stdlib"))


class Code(NamedTuple):
    """The identity of some modules."""

    parts: list[str]
    """The hash of the local files, and the version of each installed package."""
    names: set[str]
    """All names that the local files use."""


def code_of(modules: set[str], skipped: set[str]) -> Code:
    """Return the identity of some modules and of all modules that they import.

    Local files share one hash, of their syntax trees without docstrings: comments do
    not make results old. An installed package counts by its version.

    Args:
        modules: Names of modules, such as `"my_package.my_module"`.
        skipped: Top-level packages that do not count.

    Raises:
        ValueError: If one of the modules is nowhere.
    """
    local: dict[str, bytes] = {}
    installed: set[str] = set()
    names: set[str] = set()
    todo = sorted(modules)
    while todo:
        name = todo.pop()
        top = name.partition(".")[0]
        if name in local or top in skipped | sys.stdlib_module_names:
            continue
        path = _path_of(name)
        if path is None:
            if name in modules:
                raise ValueError(
                    f"there is no module {name!r}: its file must be in this folder, or "
                    "its package installed"
                )
        elif _is_installed(path):
            installed.add(_distribution(top))
        else:
            local[name], tree = _content(path)
            todo += _imports(name, path, tree)
            names |= _names(tree)
    parts = sorted(installed)
    return Code([f"local {_digest(local)}", *parts] if local else parts, names)


def _path_of(module: str) -> Path | None:
    """Return the file of a module, of which no parent is imported either."""
    path: list[str] | None = None
    spec: ModuleSpec | None = None
    parts = module.split(".")
    for end in range(len(parts)):
        spec = PathFinder.find_spec(".".join(parts[: end + 1]), path)
        if spec is None:
            return None
        places = spec.submodule_search_locations
        path = None if places is None else list(places)
        if path is None and end < len(parts) - 1:
            return None
    return Path(spec.origin) if spec is not None and spec.origin else None


def _is_installed(path: Path) -> bool:
    return bool(INSTALLED & set(path.parts)) or path.is_relative_to(STANDARD)


@cache
def _distributions() -> dict[str, list[str]]:
    return dict(packages_distributions())


def _distribution(top: str) -> str:
    """Return name and version of the distribution that installed a package."""
    names = sorted(set(_distributions().get(top, [])))
    return ", ".join(f"{name} {version(name)}" for name in names) or top


def _content(path: Path) -> tuple[bytes, ast.Module]:
    """Return the bytes to hash of a file, and its syntax tree if it has one."""
    try:
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # An extension module, or no Python.
        return path.read_bytes(), ast.Module(body=[], type_ignores=[])
    return without_docstrings(source).encode(), tree


def _imports(module: str, path: Path, tree: ast.Module) -> list[str]:
    """Return the names that a file imports; some may not be modules."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            found += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return found


def _names(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.alias):
            names.add(node.name)
    return names


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    parents = parts[: len(parts) - node.level + 1]
    return ".".join([*parents, *([node.module] if node.module else [])])


def _digest(contents: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(contents):
        digest.update(name.encode())
        digest.update(contents[name])
    return digest.hexdigest()[:12]


def without_docstrings(source: str) -> str:
    """Return the syntax tree of a source as a text, without its docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            body[:] = [line for line in body if not _is_text(line)]
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
