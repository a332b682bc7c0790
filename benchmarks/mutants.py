"""Small faults in the mathematics: which of them does no test notice?

    python benchmarks/mutants.py [FILE ...] [--sample N] [--seed N] [--again]

One operator, comparison, constant or negation at a time is changed in a copy of the
project, and the tests of that file run until the first one fails. A survivor means that
a test is missing, or that the change is no fault: `equivalent_mutants.toml` says why.
What became of each file is kept in `results/mutants.txt`.
"""

import argparse
import ast
import compileall
import gc
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

# The parent has what is slow to import, and nothing of ours.
import gymnasium  # noqa: F401  # loaded before the forks
import hypothesis.extra.numpy
import hypothesis.strategies  # noqa: F401  # likewise
import pytest
import sb3_contrib  # noqa: F401  # likewise
import scipy.sparse.linalg  # likewise
import scipy.stats  # noqa: F401  # likewise

ROOT = Path(__file__).parent.parent
AGENTS, GYM = "tests/sas_agents", "tests/sas_gym"
SETS = [
    f"{GYM}/action_sets/test_action_sets.py",
    f"{GYM}/action_sets/test_sampling.py",
]
PLANNERS = f"{GYM}/planning/test_planning.py"
PLANNING = [
    PLANNERS,
    f"{GYM}/planning/test_tabular.py",
    f"{GYM}/planning/test_returns.py",
    f"{GYM}/planning/test_decision_lists.py",
    f"{GYM}/planning/test_sampled_sets.py",
]
THEORY = [f"{GYM}/planning/test_theory.py"]
APPROXIMATIONS = [f"{GYM}/planning/test_approximations.py"]
TESTS: dict[str, list[str]] = {
    "sas_gym/masks.py": [f"{GYM}/test_masks.py", f"{GYM}/test_wrappers.py"],
    "sas_gym/action_sets/_base.py": SETS,
    "sas_gym/action_sets/_correlated.py": SETS,
    "sas_gym/action_sets/_independent.py": SETS,
    "sas_gym/action_sets/_persistent.py": SETS,
    "sas_gym/action_sets/_sampler.py": SETS,
    "sas_gym/action_sets/_action_probs.py": [
        PLANNERS,
        f"{GYM}/planning/test_sampled_sets.py",
    ],
    "sas_gym/planning/_bellman.py": PLANNING,
    "sas_gym/planning/_dynamic_programming.py": PLANNING,
    "sas_gym/planning/_exact_gradient.py": THEORY,
    "sas_gym/planning/_linear_program.py": PLANNING,
    "sas_gym/planning/_policies.py": [
        f"{GYM}/planning/test_decision_lists.py",
        PLANNERS,
    ],
    "sas_gym/planning/_returns.py": [f"{GYM}/planning/test_returns.py"],
    "sas_gym/planning/_sampled_sets.py": [f"{GYM}/planning/test_sampled_sets.py"],
    "sas_gym/tasks/_tabular.py": [f"{GYM}/planning/test_tabular.py", PLANNERS],
    "sas_gym/planning/approximations/_maze.py": APPROXIMATIONS,
    "sas_gym/planning/approximations/_recommender.py": APPROXIMATIONS,
    "sas_agents/maths/_masked_ops.py": [
        f"{AGENTS}/maths/test_softmax.py",
        f"{AGENTS}/maths/test_masked_ops.py",
    ],
    "sas_agents/maths/_estimators.py": [
        f"{AGENTS}/maths/test_softmax.py",
        f"{AGENTS}/maths/test_estimators.py",
        f"{AGENTS}/base/test_known_answers.py",
        f"{AGENTS}/q_learning/test_sas_q.py",
    ],
    "sas_agents/models/_encoder.py": [f"{AGENTS}/models/test_encoder.py"],
    "sas_agents/models/_model.py": [
        f"{AGENTS}/models/test_tangents.py",
        f"{AGENTS}/models/test_fits.py",
    ],
    "sas_agents/models/_mlp.py": [
        f"{AGENTS}/models/test_tangents.py",
        f"{AGENTS}/models/test_fits.py",
        f"{AGENTS}/policy_gradient/test_policies.py",
        f"{AGENTS}/base/test_errors.py",
        f"{AGENTS}/base/test_spaces.py",
    ],
    "sas_agents/_fast.py": [
        f"{AGENTS}/test_fast.py",
        f"{AGENTS}/maths/test_softmax.py",
        f"{AGENTS}/models/test_fits.py",
    ],
}
# Survivors that are no faults, by file and by what becomes of a line, and why.
EQUIVALENT: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("equivalent_mutants.toml").read_text()
)
RESULTS = Path(__file__).parent / "results" / "mutants.txt"

# Plain asserts: to rewrite them for good messages takes longer than most tests.
QUICK = ["-x", "-q", "--assert=plain", "--hypothesis-profile=mutants"]
QUICK += ["-p", "no:cacheprovider", "-p", "no:nbmake", "-p", "no:xdist"]
# Of address space: an array may become far too large.
MAX_BYTES = 6 << 30

Change = Callable[[Any], None]

SWAPS: dict[type, Any] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.MatMult: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the changed line and the whole text of each mutant."""
    tree = ast.parse(source)
    for number, node in enumerate(list(_code(tree))):
        for change in _changes(node):
            mutant = deepcopy(tree)
            changed = list(_code(mutant))[number]
            change(changed)
            text = ast.unparse(changed)
            yield getattr(node, "lineno", 0), text, ast.unparse(mutant)


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk over what runs: neither annotations, nor types, nor errors' texts."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "op", "ops"):
            continue
        if isinstance(tree, ast.keyword) and tree.arg in ("axis", "dim"):
            value = getattr(value, "operand", value)  # -1 and 1: mostly the same axis
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.Raise):
                if not isinstance(child, ast.Slice | ast.Import | ast.ImportFrom):
                    yield child
                yield from _code(child)


def _changes(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign):
        if type(node.op) in SWAPS:
            yield _swap_operator
    elif isinstance(node, ast.Compare):
        yield _swap_comparison
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.UAdd):
        yield _drop_sign
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        yield _other_constant
    elif isinstance(node, ast.IfExp | ast.If):
        yield _negate


def _swap_operator(node: Any) -> None:
    node.op = SWAPS[type(node.op)]()


def _swap_comparison(node: Any) -> None:
    node.ops[0] = SWAPS[type(node.ops[0])]()


def _drop_sign(node: Any) -> None:
    # Twice, as + is not defined for booleans.
    node.operand = ast.UnaryOp(node.op, node.operand)


def _other_constant(node: Any) -> None:
    node.value = (not node.value) if isinstance(node.value, bool) else node.value + 1


def _negate(node: Any) -> None:
    node.test = ast.UnaryOp(ast.Not(), node.test)


class ShortestFirst:
    """Runs tests in the order of their times so far: most faults fail a short one.

    Args:
        path: File of the times, in seconds by test.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._times = json.loads(path.read_text()) if path.exists() else {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Sort the tests."""
        items.sort(key=lambda item: self._times.get(item.nodeid, 0.0))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test's time."""
        if report.when == "call" and report.passed:
            self._times[report.nodeid] = report.duration

    def pytest_sessionfinish(self) -> None:
        """Write down the times, whole or not at all."""
        written = self._path.with_suffix(".new")
        written.write_text(json.dumps(self._times))
        written.replace(self._path)


def passes(folder: Path, tests: list[str], seconds: int, *options: str) -> bool:
    """Run tests in a fork, which has the heavy packages already.

    Args:
        folder: A copy of the project.
        tests: Their files.
        seconds: Processor time after which they fail, as a loop may never end.
        *options: pytest's.
    """
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
        os.chdir(folder)
        sys.path.insert(0, str(folder))
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        plugins = [ShortestFirst(folder / "times.json")]
        os._exit(int(pytest.main([*QUICK, *options, *tests], plugins)))
    return os.waitpid(child, 0)[1] == 0


def survives(folder: Path, tests: list[str], seconds: int = 600) -> bool:
    """Return whether all tests pass.

    First without checks of shapes and file by file: most faults are found so in the
    time that it takes to import all files.
    """
    unchecked = "-o", "addopts=--import-mode=importlib"
    alone = (passes(folder, [test], seconds, *unchecked) for test in tests)
    return all(alone) and passes(folder, tests, seconds)


@cache
def seconds_of(folder: Path, tests: tuple[str, ...]) -> int:
    """Return the processor time of some tests without a change, and more."""
    start = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    if not survives(folder, list(tests)):
        sys.exit(f"the tests fail without a change: {tests}")
    return int(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - start) + 5


def try_file(
    folder: Path, name: str, sample: int | None, seed: int, again: bool
) -> tuple[int, str]:
    """Try a file's mutants; return how many are faults unseen, and what became of all.

    Args:
        folder: A copy of the project.
        name: The file.
        sample: How many to try, at random; all by default.
        seed: Which ones.
        again: Whether to try only those that survived last time, with newer tests.
    """
    source = (ROOT / name).read_text()
    found = sorted(mutants(source))
    tried = found
    if sample is not None and sample < len(found):
        tried = sorted(random.Random(seed).sample(found, sample))
    num_tried, lines, survivors = len(tried), source.splitlines(), []
    seconds = seconds_of(folder, tuple(TESTS[name]))
    counts: Counter[str] = Counter()
    if again:
        before = kept()[name].splitlines()
        tried = [mutant for mutant in tried if label(lines, mutant) in before]
        counts["killed"] = num_tried - len(tried)
    for mutant in tried:
        (folder / name).write_text(mutant[-1])
        if not survives(folder, TESTS[name], seconds):
            counts["killed"] += 1
            continue
        changed = label(lines, mutant)
        reason = EQUIVALENT.get(name, {}).get(changed.split(": ", 1)[1])
        counts["no fault" if reason else "survive"] += 1
        survivors += [changed, f"    {reason or 'SURVIVES: no test fails'}"]
        print("\n".join([name, *survivors[-2:]]), flush=True)
    (folder / name).write_text(source)
    summary = f"{name}: {num_tried} of {len(found)} mutants tried, " + ", ".join(
        f"{counts[outcome]} {outcome}" for outcome in ("killed", "no fault", "survive")
    )
    print(summary, flush=True)
    return counts["survive"], "\n".join([summary, *survivors])


def label(lines: list[str], mutant: tuple[int, str, str]) -> str:
    """Say what a mutant changes: a line, and what a part of it becomes."""
    line, changed, _ = mutant
    return f"  {line}: {lines[line - 1].strip()}  ->  {changed.splitlines()[0]}"


def kept() -> dict[str, str]:
    """Return what became of each file that has been tried."""
    parts = RESULTS.read_text().strip().split("\n\n") if RESULTS.exists() else []
    return {part.split(":")[0]: part for part in parts}


def keep(name: str, outcome: str) -> None:
    """Write what became of a file, beside what is known of the others."""
    outcomes = kept() | {name: outcome}
    parts = [outcomes[name] for name in TESTS if name in outcomes]
    RESULTS.write_text("\n\n".join(parts) + "\n")


def main() -> None:
    """Try the files; fail if a mutant survives."""
    parser = argparse.ArgumentParser(description="Look for faults that tests miss.")
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", action="store_true", help="try survivors only")
    given = parser.parse_args()
    sys.dont_write_bytecode = True
    with tempfile.TemporaryDirectory(prefix="sas_gym_mutants_") as name:
        folder = Path(name)
        for part in ("sas_gym", "sas_agents", "tests", "benchmarks", "pyproject.toml"):
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
            copy(ROOT / part, folder / part)
        compileall.compile_dir(folder, quiet=1, force=True)
        gc.freeze()  # the forks need not look through what the parent has
        num_survivors = 0
        for file in given.files or list(TESTS):
            Path(cache_from_source(str(folder / file))).unlink()
            survivors, outcome = try_file(
                folder, file, given.sample, given.seed, given.again
            )
            num_survivors += survivors
            keep(file, outcome)
    print(f"{num_survivors} survivors")
    sys.exit(num_survivors > 0)


if __name__ == "__main__":
    main()
