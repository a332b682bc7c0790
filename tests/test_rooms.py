"""Imports between the rooms of the packages go one way."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# From the bottom to the top: a room may import the rooms before it. Rooms in one
# group do not import each other.
LAYERS = {
    "sas_gym": [
        ["_types"],
        ["_arguments"],
        ["_sparse", "masks", "action_sets"],
        ["_finite_actions", "_mask_source"],
        ["tasks"],
        ["rendering"],
        ["envs"],
        ["_wrappers"],
        ["_evaluation"],
        ["_action_features", "_flatten_actions", "rules"],
        ["checking", "_registration", "planning"],
        ["_catalogue"],
    ],
    "sas_agents": [
        ["_fast"],
        ["maths", "vec_env"],
        ["models"],
        ["base"],
        ["policy_gradient", "q_learning", "masked"],
        ["study"],
    ],
}


def imports(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports, but for type checking."""
    tree = ast.parse(path.read_text())
    guards = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    skipped = {child for guard in guards for child in ast.walk(guard)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node not in skipped:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def rooms_between(package: str) -> Iterator[tuple[Path, str, str]]:
    """Yield each import inside a package: the file, its room and the other room."""
    for path in sorted((ROOT / package).rglob("*.py")):
        room = path.relative_to(ROOT / package).with_suffix("").parts[0]
        for name in imports(path):
            source, _, rest = name.partition(".")
            if source == package and rest and room != "__init__":
                yield path, room, rest.partition(".")[0]


@pytest.mark.parametrize("package", LAYERS)
def test_imports_point_downwards(package):
    level = {room: i for i, group in enumerate(LAYERS[package]) for room in group}
    for path, room, target in rooms_between(package):
        # A name that is no room is the package's front door, above all rooms.
        is_below = level.get(target, len(level)) < level[room]
        assert room == target or is_below, f"{path} imports {target}"


@pytest.mark.parametrize("package", LAYERS)
def test_the_layers_name_every_room(package):
    rooms = {
        path.stem
        for path in (ROOT / package).iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    named = [room for group in LAYERS[package] for room in group]
    assert rooms - {"__init__"} == set(named)
    assert len(named) == len(set(named))


def test_agents_do_not_reach_below_the_suite():
    """`sas_gym` knows nothing of `sas_agents`."""
    for path in (ROOT / "sas_gym").rglob("*.py"):
        assert not any(name.startswith("sas_agents") for name in imports(path)), path
