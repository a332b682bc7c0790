"""Measure learning on masked problems, from random play (0) to the rule (1).

    python benchmarks/masked.py --label today
    python benchmarks/masked.py --label long --agents SASQ --variant 5-step \
        --arguments '{"n_steps": 5}' --problems towing wholesale --seeds 0-2
    python benchmarks/masked.py --compare today long

The program skips every run that the CSV file has. `PYTHONPATH` names the agents' code;
problems and settings are always the ones of this folder. One program therefore measures
two versions of the code, under two labels. Choose settings with other seeds than the
reported ones. `--problems` takes names, `own`, `nine` and `all`.
"""

import argparse
import json
import os
from itertools import product
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from contest.entries import ENTRIES, NINE, OWN
from contest.runs import AGENTS, REFERENCES, Run, Store, execute
from contest.tables import print_differences, print_shares
from joblib import Parallel, delayed, parallel_config

RESULTS = Path(__file__).parent / "results" / "masked_runs.csv"
GROUPS = {"own": OWN, "nine": NINE, "all": tuple(ENTRIES)}


def seeds_of(text: str) -> list[int]:
    """Return the seeds of a text such as "3" or "0-9"."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def names_of(given: list[str]) -> list[str]:
    """Return the problems of names and groups of names.

    Raises:
        ValueError: If there is no problem of a name.
    """
    names = [name for group in given for name in GROUPS.get(group, (group,))]
    for name in names:
        if name not in ENTRIES:
            raise ValueError(
                f"there is no problem {name!r}: choose from {list(ENTRIES)}, or a "
                f"group of {list(GROUPS)}"
            )
    return names


def wanted_runs(arguments: argparse.Namespace) -> list[Run]:
    """Return the references and the runs that the arguments ask for."""
    names = names_of(arguments.problems)
    seeds = [seed for given in arguments.seeds for seed in seeds_of(given)]
    references = [Run(name, agent) for name, agent in product(names, REFERENCES)]
    # All problems with a seed, then all with the next one: a part is a fair sample.
    chosen = product(seeds, arguments.steps, names, arguments.agents)
    return references + [
        Run(
            name,
            agent,
            arguments.variant,
            steps,
            seed,
            arguments.label,
            json.dumps(json.loads(arguments.arguments), sort_keys=True),
            json.dumps(json.loads(arguments.environment), sort_keys=True),
        )
        for seed, steps, name, agent in chosen
    ]


def carry_out(runs: list[Run], store: Store, num_jobs: int) -> None:
    """Run side by side, one thread each, and keep every result at once."""
    with parallel_config(backend="loky", n_jobs=num_jobs):
        rows = Parallel(return_as="generator_unordered")(
            delayed(execute)(run) for run in runs
        )
        for number, row in enumerate(rows, 1):
            store.add(row)
            print(
                f"{number} of {len(runs)}: {row.problem}, {row.agent}, {row.variant}, "
                f"{row.num_steps:,} steps, seed {row.seed}: sampled {row.sampled:.4g}, "
                f"greedy {row.greedy:.4g}, {row.cpu_seconds} s",
                flush=True,
            )


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--problems", nargs="+", default=["own"], metavar="NAME")
    made.add_argument("--agents", nargs="+", default=list(AGENTS), choices=AGENTS)
    made.add_argument("--steps", nargs="+", type=int, default=[25_000, 100_000])
    made.add_argument("--seeds", nargs="+", default=["1000-1009"], metavar="N-M")
    made.add_argument("--label", default="today", help="name of the code")
    made.add_argument("--variant", default="default", help="name of the arguments")
    made.add_argument("--arguments", default="{}", help="of the agent, as JSON")
    made.add_argument("--environment", default="{}", help="its arguments, as JSON")
    made.add_argument("--csv", type=Path, default=RESULTS)
    made.add_argument("--jobs", type=int, default=1, help="processes side by side")
    made.add_argument("--compare", nargs=2, metavar=("OLD", "NEW"))
    made.add_argument("--table", action="store_true", help="run nothing")
    return made


def main() -> None:
    """Run the runs without a result, and print a table."""
    arguments = parser().parse_args()
    store, names = Store(arguments.csv), names_of(arguments.problems)
    if arguments.compare:
        rows = [row for row in store.rows if row.problem in names]
        print_differences(rows, *arguments.compare)
        return
    if not arguments.table:
        runs = wanted_runs(arguments)
        carry_out(store.missing(runs), store, arguments.jobs)
    print_shares([row for row in store.rows if row.problem in names])


if __name__ == "__main__":
    main()
