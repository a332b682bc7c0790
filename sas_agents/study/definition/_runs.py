"""One run: everything that defines it, and its key."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from sas_agents.study.definition._algorithms import Algorithm, algorithm_of
from sas_agents.study.definition._checks import check_counts, check_types

LAMBDAS = "train/weight_v_hat", "train/weight_q_bar"

# Fields that came later: a run that leaves them out has the key that it always had.
OPTIONAL = "mask", "greedy"


@dataclass(frozen=True)
class Evaluation:
    """How a run is evaluated, while it learns and at the end.

    Where the task is tabular and the policy tells its probabilities, both evaluations
    are exact, and no episode is played. Elsewhere the learning curves of all runs are
    played with the same action sets, and each final score has episodes of its own.

    Args:
        num_points: Number of evaluations after the one before learning.
        num_episodes: Episodes of each of them.
        num_final_episodes: Episodes of the final score. By default 40,000, and 1,000
            where the environment has no vector form and is slow.
        seed: Seed of the curve's environments; the others follow from it.
        log: Logged keys whose value at each evaluation is kept.
    """

    num_points: int = 20
    num_episodes: int = 100
    num_final_episodes: int | None = None
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
    mask: str | None = None
    greedy: bool | None = None

    @property
    def entry(self) -> Algorithm:
        """The algorithm, as the table or the study describes it."""
        return algorithm_of(self.algorithm, self.mask, self.greedy)

    @property
    def key(self) -> str:
        """Name of the run's result file: a hash of all fields."""
        return digest(self.to_dict())

    @property
    def setting(self) -> str:
        """A hash of all fields but the versions."""
        return digest({**self.to_dict(), "versions": None})

    @property
    def training(self) -> str:
        """A hash of all fields but the versions and the evaluation."""
        return digest({**self.to_dict(), "versions": None, "evaluation": None})

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, as JSON has them."""
        fields: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return {
            name: value
            for name, value in fields.items()
            if not (name in OPTIONAL and value is None)
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Run":
        """Build the run that `to_dict` took apart.

        Raises:
            ValueError: If a field is missing, unknown or of a wrong type.
        """
        try:
            run = cls(**{**fields, "evaluation": Evaluation(**fields["evaluation"])})
        except (TypeError, KeyError) as error:
            raise ValueError(f"not the definition of a run: {error}") from error
        check_types(run)
        return run


def digest(content: Any) -> str:
    """Return a hash of anything that JSON can hold."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
