"""The parts of a study, each of them checked, and its runs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from sas_agents.study.definition._algorithms import (
    Algorithm,
    algorithm_of,
    check_arguments,
    place_of,
)
from sas_agents.study.definition._checks import (
    check_arguments_are_numbers,
    check_availability,
    check_counts,
    check_names,
    check_range,
    check_types,
)
from sas_agents.study.definition._environments import find_spec
from sas_agents.study.definition._identity import versions_for
from sas_agents.study.definition._presets import preset
from sas_agents.study.definition._runs import Evaluation, Run


@dataclass(frozen=True)
class EnvironmentSettings:
    """An `[[environment]]` of a study.

    Args:
        id: Its id; `"module:Id-v0"` imports the module that registers it. Or
            `"module:name"` for a class or function that returns an environment or a
            task.
        availabilities: Each is run. By default none: the environment keeps its own
            arguments and masks. An environment that has no such argument gets
            `StochasticActionSets` around it, whose sets lie inside its own mask.
        num_steps: Steps to learn from, if not the study's.
        policy: Policy of all algorithms that do not name one of their own.
        arguments: Further arguments; `action_sets = {Markov = [0.1, 0.05]}` names a
            class of `sas_gym.action_sets` and its arguments, `max_episode_steps` is a
            time limit, and `mask = "legal"` says where an environment has its mask, if
            in an unusual place (see `sas_gym.MaskInObservation`).
    """

    id: str
    availabilities: tuple[float, ...] = ()
    num_steps: int | None = None
    policy: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_types(self)
        for value in self.availabilities:
            check_availability("availabilities", value)
        check_counts(self, "num_steps")
        find_spec(self.id)

    def variants(self) -> list[dict[str, Any]]:
        """Return the arguments of each variant: one per availability."""
        if not self.availabilities:
            return [self.arguments]
        return [
            {**self.arguments, "availability": float(value)}
            for value in self.availabilities
        ]


@dataclass(frozen=True)
class AlgorithmSettings:
    """An `[[algorithm]]` of a study.

    Args:
        name: Its name in tables and figures.
        algorithm: Its entry in the table of algorithms, if not `name`; or an algorithm
            of your own, `"module:name"` (the key `class` in a file). It is a class as
            Stable-Baselines3 has them, or a function
            `train(env, steps, seed, callback, **arguments)` that returns a policy, a
            function from observations and action masks to actions. `callback(step,
            policy)`, called now and then, gives the learning curve.
        policy: Its policy, if not the environment's, the preset's or the table's.
        preset: The preset file whose arguments come first: a shipped name or a path.
        num_envs: Environments in parallel, if not the study's.
        num_seeds: Number of seeds, if not the study's.
        arguments: Arguments of the class, over the preset's.
        search: Ranges for `sas-study search`: a list is a choice, a table has `low`,
            `high` and perhaps `log = true`, `integer = true`, `schedule = "linear"`.
        mask: How masks reach it: in the `"observation"` (the default of an own
            algorithm), in the `"info"`, by the `"method"` `action_masks()`, or not at
            all, with unavailable actions replaced (`"repair"`).
        greedy: Whether its greedy policy is evaluated alone, as a value-based one is.
    """

    name: str
    algorithm: str | Callable[..., Any] = ""
    policy: str | None = None
    preset: str | None = None
    num_envs: int | None = None
    num_seeds: int | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    search: dict[str, Any] = field(default_factory=dict)
    mask: str | None = None
    greedy: bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.algorithm, str):
            object.__setattr__(self, "algorithm", place_of(self.algorithm))
        check_types(self)
        _ = self.entry
        check_counts(self, "num_envs", "num_seeds")
        check_arguments_are_numbers(self.arguments)
        for name, search_range in self.search.items():
            check_range(name, search_range)

    @property
    def place(self) -> str:
        """Its name in the table of algorithms, or the place of an own one."""
        return str(self.algorithm or self.name)

    @property
    def entry(self) -> Algorithm:
        """The algorithm, and how it acts."""
        return algorithm_of(self.place, self.mask, self.greedy)

    def settings_in(
        self, environment: EnvironmentSettings
    ) -> tuple[str, dict[str, Any]]:
        """Return policy and arguments for an environment."""
        table: dict[str, Any] = {"arguments": {}}
        if self.preset is not None:
            # A variant of an algorithm may have a preset under its own name.
            own = preset(environment.id, self.name, self.preset)
            general = preset(environment.id, self.place, self.preset)
            table = own if len(own) > 1 else general
        default = table.get("policy", self.entry.policy)
        policy = self.policy or environment.policy or default
        return policy, {**table["arguments"], **self.arguments}


@dataclass(frozen=True)
class SearchSettings:
    """The `[search]` of a study.

    Args:
        num_trials: Settings to try, for each algorithm and environment.
        num_seeds: Seeds of each setting; no run of the study has them.
        first_seed: The first of them.
        num_finalists: How many of the best settings are played again in the end,
            with the settings that the search started from.
        num_final_seeds: Seeds of that, which follow; their mean decides. With 0 the
            best of the settings tried is taken without more play.
        availability: Where to search.
        objective: `"final"`, the last evaluation, or `"area"`, the mean of the curve.
    """

    num_trials: int = 60
    num_seeds: int = 1
    first_seed: int = 10_000
    num_finalists: int = 4
    num_final_seeds: int = 5
    availability: float = 0.8
    objective: str = "final"

    def __post_init__(self) -> None:
        check_types(self)
        check_counts(self, "num_trials", "num_seeds", "num_finalists")
        if self.num_final_seeds < 0:
            raise ValueError(
                f"num_final_seeds must be at least 0, got {self.num_final_seeds}"
            )
        check_availability("availability", self.availability)
        if self.objective not in ("final", "area"):
            raise ValueError(
                f"objective must be 'final' or 'area', got {self.objective!r}"
            )


class Labelled(NamedTuple):
    """A run and the name of its algorithm in the study."""

    label: str
    run: Run


@dataclass(frozen=True)
class Study:
    """A study: every algorithm in every environment, over seeds.

    Args:
        environments: See `EnvironmentSettings`.
        algorithms: See `AlgorithmSettings`.
        description: The purpose of the study.
        num_steps: Steps to learn from, of all environments in parallel together.
        num_envs: Environments in parallel.
        num_seeds: Number of seeds.
        first_seed: The first of them; the others follow.
        evaluation: See `Evaluation`.
        search: See `SearchSettings`.
    """

    environments: tuple[EnvironmentSettings, ...]
    algorithms: tuple[AlgorithmSettings, ...]
    description: str = ""
    num_steps: int = 300_000
    num_envs: int = 64
    num_seeds: int = 5
    first_seed: int = 0
    evaluation: Evaluation = field(default_factory=Evaluation)
    search: SearchSettings = field(default_factory=SearchSettings)

    def __post_init__(self) -> None:
        check_types(self)
        check_counts(self, "num_steps", "num_envs", "num_seeds")
        if self.first_seed < 0:
            raise ValueError(f"first_seed must be at least 0, got {self.first_seed}")
        for kind, names in (
            ("algorithm", [entry.name for entry in self.algorithms]),
            ("environment", [entry.id for entry in self.environments]),
        ):
            if not names:
                raise ValueError(f"a study needs at least one [[{kind}]]")
            if kind == "algorithm" and len(set(names)) < len(names):
                raise ValueError(f"two algorithms have one name, in {names}")

    def runs(self) -> list[Labelled]:
        """Return all runs, seed by seed: so every part of a study has all of its cells.

        Raises:
            ValueError: If an algorithm does not have one of its arguments.
        """
        versions_for.cache_clear()  # A user may have edited an algorithm.
        runs = list(self._runs())
        for run in {(run.algorithm, *run.arguments): run for _, run in runs}.values():
            check_arguments(run.entry, run.arguments)
        for algorithm in self.algorithms:
            check_arguments(algorithm.entry, algorithm.search)
        return sorted(runs, key=lambda labelled: labelled.run.seed)

    def _runs(self) -> Iterator[Labelled]:
        for environment in self.environments:
            for arguments in environment.variants():
                for algorithm in self.algorithms:
                    for index in range(algorithm.num_seeds or self.num_seeds):
                        seed = self.first_seed + index
                        run = self.make_run(environment, arguments, algorithm, seed)
                        yield Labelled(algorithm.name, run)

    def make_run(
        self,
        environment: EnvironmentSettings,
        environment_arguments: dict[str, Any],
        algorithm: AlgorithmSettings,
        seed: int,
    ) -> Run:
        """Return one run of the study."""
        policy, arguments = algorithm.settings_in(environment)
        return Run(
            environment=environment.id,
            environment_arguments=environment_arguments,
            algorithm=algorithm.place,
            policy=policy,
            arguments=arguments,
            num_envs=algorithm.num_envs or self.num_envs,
            num_steps=environment.num_steps or self.num_steps,
            seed=seed,
            evaluation=self.evaluation,
            versions=versions_for(environment.id, algorithm.entry.location),
            mask=algorithm.mask,
            greedy=algorithm.greedy,
        )

    def part(
        self,
        environments: list[str] | None = None,
        algorithms: list[str] | None = None,
        availabilities: list[float] | None = None,
        num_seeds: int | None = None,
    ) -> "Study":
        """Return a part of the study; a `None` leaves all of it."""
        ids = [entry.id for entry in self.environments]
        names = [entry.name for entry in self.algorithms]
        check_names("environment", environments or [], ids)
        check_names("algorithm", algorithms or [], names)
        chosen = [
            e for e in self.environments if environments is None or e.id in environments
        ]
        if availabilities is not None:
            known = sorted({p for entry in chosen for p in entry.availabilities})
            check_names("availability", availabilities, known)
            chosen = [
                replace(
                    entry,
                    availabilities=tuple(
                        p for p in entry.availabilities if p in availabilities
                    ),
                )
                for entry in chosen
                if set(entry.availabilities) & set(availabilities)
            ]
        kept = [
            a for a in self.algorithms if algorithms is None or a.name in algorithms
        ]
        if num_seeds is not None:
            kept = [replace(algorithm, num_seeds=num_seeds) for algorithm in kept]
        return replace(self, environments=tuple(chosen), algorithms=tuple(kept))
