"""One run: everything that defines it, and its key."""

import ast
import hashlib
import json
import platform
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from sas_agents.study._checks import check_counts, check_types

LAMBDAS = "train/weight_v_hat", "train/weight_q_bar"


@dataclass(frozen=True)
class Evaluation:
    """How a run is evaluated: on the same action sets at every point, for everybody.

    Args:
        num_points: Number of evaluations after the one before learning.
        num_episodes: Episodes of an evaluation.
        num_final_episodes: Episodes of the last evaluation.
        seed: Seed of the evaluation's environments.
        log: Logged keys whose value at each evaluation is kept.
    """

    num_points: int = 20
    num_episodes: int = 100
    num_final_episodes: int = 1000
    seed: int = 1_000_000
    log: tuple[str, ...] = LAMBDAS

    def __post_init__(self) -> None:
        if isinstance(self.log, list):  # JSON has no tuples.
            object.__setattr__(self, "log", tuple(self.log))
        check_types(self)
        check_counts(self, "num_points", "num_episodes", "num_final_episodes")
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0, got {self.seed}")


@dataclass(frozen=True)
class Run:
    """Everything that defines one run. Its key is a hash of all of it."""

    environment: str
    environment_arguments: dict[str, Any]
    algorithm: str
    policy: str
    arguments: dict[str, Any]
    num_envs: int
    num_steps: int
    seed: int
    evaluation: Evaluation
    versions: dict[str, str]

    @property
    def key(self) -> str:
        """Name of the run's result file: a hash of all fields."""
        return digest(asdict(self))

    @property
    def setting(self) -> str:
        """A hash of all fields but the versions."""
        return digest({**asdict(self), "versions": None})

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, as JSON has them."""
        fields: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return fields

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Run":
        """Build the run that `to_dict` took apart."""
        return cls(**{**fields, "evaluation": Evaluation(**fields["evaluation"])})


def digest(content: Any) -> str:
    """Return a hash of what JSON can hold."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def versions(environment: str = "", is_peer: bool = False) -> dict[str, str]:
    """Return the versions that a result depends on.

    `source` is a hash of the syntax trees of `sas_gym` and `sas_agents`: in a working
    copy the version number stays while agents change, and results of two agents must
    not be mixed. Comments, docstrings and this sub-package do not count. `environment`
    is a hash of the module that one is imported from, as in `"module:Id-v0"`.

    Args:
        environment: The environment's id.
        is_peer: Whether the algorithm is another library's: a change of our agents then
            leaves its results valid, and only what makes environments counts.
    """
    packages = ("stable_baselines3", "sb3_contrib", "torch", "numpy", "gymnasium")
    found = {
        "python": platform.python_version(),
        "sas_gym": version("sas-gym"),
        "source": _source_digest("_vec_*.py" if is_peer else "*.py"),
        **{name: _version(name) for name in packages},
    }
    module, colon, _ = environment.partition(":")
    path = getattr(import_module(module), "__file__", None) if colon else None
    if path is not None:
        code = _without_docstrings(Path(path).read_text())
        found["environment"] = hashlib.sha256(code.encode()).hexdigest()[:12]
    return found


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # An extra: what needs it says so.
        return "none"


def _source_digest(agent_modules: str) -> str:
    """Hash `sas_gym` and the modules of `sas_agents` that match a pattern."""
    import sas_agents
    import sas_gym

    digest = hashlib.sha256()
    ours = Path(__file__).parent
    for package, pattern in ((sas_gym, "*.py"), (sas_agents, agent_modules)):
        root = Path(package.__path__[0])
        for path in sorted(root.rglob(pattern)):
            if ours not in path.parents:
                digest.update(path.relative_to(root).as_posix().encode())
                digest.update(_without_docstrings(path.read_text()).encode())
    return digest.hexdigest()[:12]


def _without_docstrings(source: str) -> str:
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
