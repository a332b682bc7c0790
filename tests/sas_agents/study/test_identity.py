"""The versions of a run: declared ones of our code, and what others' code is."""

import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import sas_agents
import sas_gym
from sas_agents.study.definition._code import code_of, without_docstrings
from sas_agents.study.definition._identity import PACKAGES, versions_for

SASPG = "sas_agents:SASPG"


def identity(environment: str = "SAS/Maze-v0", algorithm: str = SASPG) -> list[str]:
    """Return the identity of an environment and of an algorithm."""
    versions_for.cache_clear()
    found = versions_for(environment, algorithm)
    assert set(found) == {*PACKAGES, "python", "study", "environment", "algorithm"}
    return [found["environment"], found["algorithm"]]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder whose modules Python finds."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "environment", ["SAS/Maze-v0", "sas_gym:SAS/Maze-v0", "sas_gym:Maze"]
)
def test_our_code_is_known_by_its_declared_version(
    environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it is named; moved files and other tasks and agents do not matter."""
    number = sas_agents.SASPG.behaviour_version
    assert identity(environment) == ["Maze 1", f"SASPG {number}"]
    monkeypatch.setattr(sas_gym.Maze, "behaviour_version", 7)
    monkeypatch.setattr(sas_gym.Recommender, "behaviour_version", 7)
    monkeypatch.setattr(sas_agents.SASPG, "behaviour_version", 3)
    monkeypatch.setattr(sas_agents.SASQ, "behaviour_version", 3)
    assert identity(environment) == ["Maze 7", "SASPG 3"]


def test_installed_code_is_known_by_its_version(here: Path) -> None:
    """Peers by that of their package, and what a local file imports, too."""
    (here / "my_graph.py").write_text("import networkx, numpy, json\n")
    (found, _) = identity("examples.grid:grid")
    assert f"networkx {version('networkx')}" in found
    code = code_of({"my_graph"}, {"numpy"})
    assert code.parts[1:] == [f"networkx {version('networkx')}"]
    assert identity(algorithm="sb3_contrib:MaskablePPO")[1] == ""
    (peer,) = code_of({"sb3_contrib"}, set()).parts
    assert peer.endswith(f"contrib {version('sb3-contrib')}")


def test_edited_local_file_is_other_code(here: Path) -> None:
    """So is an edited file that it imports; comments and other files are not."""
    (here / "my_package").mkdir()
    (here / "my_package" / "__init__.py").write_text("")
    main, helper = here / "my_package" / "algo.py", here / "my_package" / "nets.py"
    main.write_text("from . import nets\nfrom sas_agents import SASPG as Base\n")
    helper.write_text("WIDTH = 64\n")
    (here / "other.py").write_text("")

    def found() -> str:
        return identity(algorithm="my_package.algo:MyPG")[1]

    first = found()
    assert first.startswith("local ")
    assert first.endswith(f", SASPG {sas_agents.SASPG.behaviour_version}")
    main.write_text("# New.\n" + main.read_text())
    (here / "other.py").write_text("x = 1\n")
    assert found() == first
    helper.write_text("WIDTH = 65\n")
    second = found()
    assert second != first
    main.write_text(main.read_text() + "x = 1\n")
    assert found() not in (first, second)


def test_code_is_found_without_running_it(here: Path) -> None:
    """Nothing of a user's is imported, its packages included."""
    (here / "my_loud").mkdir()
    for name in ("__init__", "algo"):
        (here / "my_loud" / f"{name}.py").write_text("raise RuntimeError\n")
    (here / "my_broken.py").write_text("def f(:\n")
    assert identity(algorithm="my_loud.algo:MyPG")[1].startswith("local ")
    assert identity(algorithm="my_broken:MyPG")[1].startswith("local ")
    assert not {"my_loud", "my_broken"} & set(sys.modules)
    with pytest.raises(ValueError, match=r"no module 'my_nowhere'.*folder"):
        identity(algorithm="my_nowhere:MyPG")


def test_id_of_a_user_counts_with_its_module_and_its_task(here: Path) -> None:
    """The file that registers, and the one that has the dynamics."""
    task, ids = here / "my_task.py", here / "my_ids.py"
    task.write_text("from sas_gym import Maze\n")
    ids.write_text(
        "import sas_gym\nsas_gym.register('My/Maze-v0', 'my_task:Maze', 80)\n"
    )
    (first, _) = identity("my_ids:My/Maze-v0")
    assert first.endswith(", Maze 1")
    task.write_text("from sas_gym import Maze\nx = 1\n")
    assert identity("my_ids:My/Maze-v0")[0] != first


def test_hash_ignores_words_and_sees_code() -> None:
    """Comments and docstrings do not make results old; a changed default does."""
    code = 'def f(x=1):\n    """Say."""\n    return x\n'
    same = 'def f(x=1):\n    """Say more."""\n    # Why.\n    return x\n'
    assert without_docstrings(code) == without_docstrings(same)
    assert without_docstrings(code) != without_docstrings(code.replace("1", "2"))
