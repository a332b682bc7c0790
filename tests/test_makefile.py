"""The programs behind the Makefile's targets exist, and so do the files they name."""

import re
from pathlib import Path

import mutants
import pytest

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text()


def test_programs_of_targets_exist():
    programs = re.findall(r"(?:benchmarks|examples|tests)/[\w/]+\.py", MAKEFILE)
    assert len(programs) > 10
    for program in programs:
        assert (ROOT / program).exists(), program


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=str)
def test_benchmarks_name_themselves_as_they_are_run(path):
    """The command in a program's docstring is that of its own file."""
    commands = re.findall(r"python ([\w/]+\.py)", path.read_text())
    assert set(commands) <= {f"benchmarks/{path.name}"}


def test_targets_are_not_taken_for_files():
    targets = set(re.findall(r"^([a-z][\w-]*):", MAKEFILE, re.MULTILINE))
    (phony,) = re.findall(r"^\.PHONY: (.*)", MAKEFILE, re.MULTILINE)
    assert set(phony.split()) == targets


@pytest.mark.parametrize("file", mutants.TESTS)
def test_mutated_files_and_their_tests_exist(file):
    assert (ROOT / file).exists()
    for test in mutants.TESTS[file]:
        assert (ROOT / test).exists(), test


def test_reasons_of_survivors_are_for_mutated_files():
    assert set(mutants.EQUIVALENT) <= set(mutants.TESTS)
