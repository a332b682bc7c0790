"""One run: everything that defines it, and its key."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from sas_agents.study.definition._checks import check_counts, check_types

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
