"""Small faults in the mathematics: which of them does no test notice?

    python tests/benchmarks/mutants.py [FILE ...] [--sample N] [--seed N]

One operator, comparison, constant or negation at a time is changed in a copy of the
project, and the tests of that file run until the first one fails. Printed are the
survivors: a test is missing, or the change changes nothing (`EQUIVALENT` says why).
"""

import argparse
import ast
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
AGENTS, GYM = "tests/sas_agents", "tests/sas_gym"
SETS = [f"{GYM}/test_action_sets.py", f"{GYM}/test_sampling.py"]
PLANNING = [
    f"{GYM}/planning/test_planning.py",
    f"{GYM}/planning/test_decision_lists.py",
    f"{GYM}/planning/test_theory.py",
]
TESTS: dict[str, list[str]] = {
    "sas_gym/masks.py": [f"{GYM}/test_masks.py", f"{GYM}/test_wrappers.py"],
    "sas_gym/action_sets/_base.py": SETS,
    "sas_gym/action_sets/_correlated.py": SETS,
    "sas_gym/action_sets/_independent.py": SETS,
    "sas_gym/action_sets/_persistent.py": SETS,
    "sas_gym/action_sets/_sampler.py": SETS,
    "sas_gym/planning/_action_probs.py": PLANNING,
    "sas_gym/planning/_bellman.py": PLANNING,
    "sas_gym/planning/_dynamic_programming.py": PLANNING,
    "sas_agents/_masked_ops.py": [f"{AGENTS}/test_masked_ops.py"],
    "sas_agents/_estimators.py": [
        f"{AGENTS}/test_estimators.py",
        f"{AGENTS}/test_known_answers.py",
        f"{AGENTS}/test_sas_q.py",
        f"{AGENTS}/test_gradient.py",
    ],
}
# Lines whose survivors are no faults, by file, and why.
_INDEPENDENT = "sas_gym/action_sets/_independent.py"
EQUIVALENT: dict[tuple[str, str], str] = {
    (
        _INDEPENDENT,
        "return bool((self.availability <= possible).all())",
    ): "says only whether work can be saved",
    (
        _INDEPENDENT,
        "if possible is not None and np.count_nonzero((p > 0) > possible):",
    ): "computes again what is known already",
}
TIMEOUT = 300

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


def passes(folder: Path, tests: list[str]) -> bool:
    """Run tests in a fork, which has the heavy packages already."""
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        sys.path.insert(0, str(folder))
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        import pytest

        os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])))
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)  # a loop that never ends is noticed
    os.waitpid(child, 0)
    return False


def try_file(folder: Path, name: str, sample: int | None, seed: int) -> int:
    """Print the survivors among a file's mutants; return how many there are."""
    source = (ROOT / name).read_text()
    found = list(mutants(source))
    tried = found
    if sample is not None and sample < len(found):
        tried = random.Random(seed).sample(found, sample)
    lines, survivors = source.splitlines(), 0
    for line, changed, text in sorted(tried):
        (folder / name).write_text(text)
        before = lines[line - 1].strip() if line else ""
        if (name, before) not in EQUIVALENT and passes(folder, TESTS[name]):
            survivors += 1
            short = changed.splitlines()[0]
            print(f"  {name}:{line}: {before}  ->  {short}", flush=True)
    (folder / name).write_text(source)
    print(f"{name}: {survivors} of {len(tried)} survive ({len(found)} in all)")
    return survivors


def main() -> None:
    """Try the files; fail if a mutant survives."""
    parser = argparse.ArgumentParser(description="Look for faults that tests miss.")
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    # The parent has what is slow to import, and nothing of ours.
    import scipy.stats  # noqa: F401  # loaded before the forks
    import stable_baselines3  # noqa: F401  # likewise

    sys.dont_write_bytecode = True
    with tempfile.TemporaryDirectory(prefix="sas_gym_mutants_") as name:
        folder = Path(name)
        for part in ("sas_gym", "sas_agents", "tests", "pyproject.toml"):
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
            copy(ROOT / part, folder / part)
        for cache in list(folder.rglob("__pycache__")):
            shutil.rmtree(cache)
        files = given.files or list(TESTS)
        for file in files:
            if not passes(folder, TESTS[file]):
                sys.exit(f"the tests of {file} fail without a change: {TESTS[file]}")
        survivors = [try_file(folder, f, given.sample, given.seed) for f in files]
    print(f"{sum(survivors)} survivors")
    sys.exit(sum(survivors) > 0)


if __name__ == "__main__":
    main()
