"""The files, classes and functions that CONTRIBUTING.md names exist."""

import ast
import importlib.util
import re
from collections.abc import Iterator
from functools import cache, reduce
from pathlib import Path
from typing import Any

import jaxtyping
import pytest

import sas_agents
import sas_gym

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
PACKAGES = "sas_gym", "sas_agents"
SOURCES = [
    path
    for folder in (*PACKAGES, "tests", "benchmarks", "examples")
    for path in sorted((ROOT / folder).rglob("*.py"))
]


# Names that are defined elsewhere: a class, a Greek letter, markers of pytest.
FOREIGN = {"VecEnv", "psi", "slow", *PACKAGES}


def is_public(name: str) -> bool:
    """Return whether a dotted name leads somewhere in the packages."""
    if name.startswith(PACKAGES):
        return importlib.util.find_spec(name) is not None
    packages: list[Any] = [sas_gym, sas_agents]
    return any(
        reduce(lambda found, part: getattr(found, part, None), name.split("."), package)
        for package in packages
    )


def section(title: str) -> str:
    """Return the part of the page below a heading."""
    return TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]


def code(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text)


@cache
def defined_names() -> set[str]:
    """Names of classes, functions, arguments and attributes; of methods, both."""
    found: set[str] = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            found.update(names_of(node))
    return found


def names_of(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    if isinstance(node, ast.ClassDef):
        for each in node.body:
            if isinstance(each, ast.FunctionDef):
                yield f"{node.name}.{each.name}"
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.id if isinstance(node, ast.Name) else node.attr


def test_named_files_exist():
    """By their path, or in a folder that the same line names before."""
    for line in TEXT.splitlines():
        folders = [ROOT]
        for name in code(line):
            if re.fullmatch(r"[\w.]+(/[\w.]*)+|\w+\.(py|toml|ipynb|csv\.gz)", name):
                found = [f / name for f in folders if (f / name).exists()]
                assert found, name
                folders.append(found[0] if found[0].is_dir() else found[0].parent)


def test_layout_has_every_module_and_room():
    layout = section("Layout")
    rows = [code(line.split("|")[1]) for line in layout.splitlines() if "|" in line]
    for package in PACKAGES:
        for path in (ROOT / package).iterdir():
            if path.suffix == ".py" and path.name != "__init__.py":
                assert any(path.name in name for row in rows for name in row), path
            elif (path / "__init__.py").exists():
                assert [f"{package}/{path.name}/"] in rows, path


def test_named_classes_and_functions_exist():
    """All Python names in code of three or more letters, `Class.method` included."""
    names = {
        name
        for name in code(TEXT)
        if re.fullmatch(r"[A-Za-z]\w{2,}(\.[a-z]\w+)?", name)
        and not name.endswith((".py", ".toml"))
    }
    assert {"SASEnv.step", "TaskBatch", "q_bar"} <= names
    unknown = names - defined_names() - FOREIGN
    assert [name for name in sorted(unknown) if not is_public(name)] == []


def walk_steps() -> list[tuple[str, list[str]]]:
    """Return each step's file and the code that the step names in it."""
    steps = re.findall(
        r"\n\d\. (.+(?:\n   .+)*)", section("Two walks through the code")
    )
    return [(names[0], names[1:]) for names in map(code, steps)]


def test_walks_name_code_of_their_files():
    steps = walk_steps()
    assert len(steps) >= 6
    for file, names in steps:
        source = (ROOT / file).read_text()
        defined = {n for node in ast.walk(ast.parse(source)) for n in names_of(node)}
        for name in names:
            is_method = re.fullmatch(r"[A-Z]\w+\.\w+", name)
            assert name in (defined if is_method else source), f"{name} in {file}"


def test_named_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    for name in re.findall(r"`make ([\w-]+)", TEXT):
        assert re.search(rf"^{name}:", makefile, re.MULTILINE), name


def axis_names(path: Path) -> Iterator[str]:
    """Yield the letters in the array shapes of a file's annotations."""
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and hasattr(jaxtyping, node.value.id)
            and isinstance(node.slice, ast.Tuple)
            and isinstance(node.slice.elts[-1], ast.Constant)
        ):
            shape = str(node.slice.elts[-1].value)
            yield from re.findall(r"[A-Za-z]+", shape)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_letter_of_a_shape_is_in_the_table(package):
    table = {row for row in re.findall(r"\n\| ([A-Z]) \|", section("Tests"))}
    used = {
        letter for path in (ROOT / package).rglob("*.py") for letter in axis_names(path)
    }
    assert used - table == set()
