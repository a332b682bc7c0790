"""How the cost grows: with the environments, with the actions, with the junctions.

Prints a table and writes it, and a figure of it, beside the other pictures:

OMP_NUM_THREADS=1 python benchmarks/growth.py
"""

import csv
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from environments import OURS, RECOMMENDER, speed, step_vector
from planning import road_graph

from sas_gym import SPECS
from sas_gym.action_sets._action_probs import uniform_action_probs
from sas_gym.planning import TabularSASMDP, policy_iteration
from sas_gym.planning._bellman import evaluate, optimal_backup

NUM_TURNS = 5
NUM_ENVS = (1, 4, 16, 64, 256, 1024, 4096)
NUM_ACTIONS = (10, 100, 1_000, 10_000)
NUM_JUNCTIONS = (1_000, 3_000, 10_000, 30_000, 100_000)
OUTPUT = Path(__file__).parents[1] / "examples" / "pictures"
US_PER_SECOND = 1e6


class Point(NamedTuple):
    """One measurement."""

    panel: str
    """What grows: a name in `PANELS`."""
    line: str
    """What it is measured on."""
    size: int
    """How much work there is."""
    cost: float
    """Microseconds per step of all environments together; seconds of planning."""


PANELS = {
    "environments": ("environments", "µs per step of all"),
    "actions": ("actions (products)", "µs per step of all"),
    "junctions": ("junctions", "seconds of planning"),
}


def points() -> Iterator[Point]:
    """Measure everything, in processor time."""
    for spec in SPECS:
        for size in NUM_ENVS:
            cost = step_microseconds(spec.id, size)
            yield Point("environments", spec.id, size, cost)
    for num_envs in (1, 64):
        for size in NUM_ACTIONS:
            cost = step_microseconds(RECOMMENDER, num_envs, num_products=size)
            yield Point("actions", f"num_envs={num_envs}", size, cost)
    mdps = {size: road_graph(size).tabular() for size in NUM_JUNCTIONS}
    # How many rounds it takes depends on the graph: 5 for 1,000 junctions, 11 for
    # 10,000, 10 for 100,000.
    for name, plan in ("policy iteration", policy_iteration), ("one round", one_round):
        for size, mdp in mdps.items():
            yield Point("junctions", name, size, planning_seconds(plan, mdp))


def step_microseconds(env_id: str, num_envs: int, **options: Any) -> float:
    """Return the median time of a step of all environments, over some turns."""
    step = step_vector(env_id, num_envs, OURS, **options)
    return statistics.median(
        num_envs * US_PER_SECOND / speed(step) for _ in range(NUM_TURNS)
    )


def one_round(mdp: TabularSASMDP) -> None:
    """Evaluate the random policy and improve it, as policy iteration does at first."""
    anything = uniform_action_probs(mdp.action_sets, mdp.possible_actions)
    optimal_backup(mdp, evaluate(mdp, anything))


def planning_seconds(
    plan: Callable[[TabularSASMDP], object], mdp: TabularSASMDP
) -> float:
    """Return the median time of planning in a road graph, over some turns."""
    seconds = []
    for _ in range(NUM_TURNS):
        start = time.process_time()
        plan(mdp)
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)


def exponents(line: Sequence[Point]) -> list[float]:
    """Return how the cost grows from each point to the next: 1 is linearly."""
    return [
        math.log(after.cost / before.cost) / math.log(after.size / before.size)
        for before, after in pairwise(line)
    ]


def lines_of(measured: Sequence[Point]) -> dict[tuple[str, str], list[Point]]:
    """Return the points by panel and line."""
    lines: dict[tuple[str, str], list[Point]] = {}
    for point in measured:
        lines.setdefault((point.panel, point.line), []).append(point)
    return lines


def print_table(measured: Sequence[Point]) -> None:
    """Print one row per line, and by which power it grows, at most and in all."""
    for (panel, name), line in lines_of(measured).items():
        growth = exponents(line)
        whole = exponents([line[0], line[-1]])[0]
        cells = "".join(f"{p.size:>9,}: {p.cost:<8.3g}" for p in line)
        print(f"{panel:13}{name:22}{cells}")
        print(f"{'':35}power: {whole:.2f} in all, {max(growth):.2f} at most")


def write_csv(measured: Sequence[Point], path: Path) -> None:
    """Write the points."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Point._fields)
        writer.writerows((*p[:3], f"{p.cost:.4g}") for p in measured)


def write_figure(measured: Sequence[Point], path: Path) -> None:
    """Draw one panel per thing that grows, with a line of linear growth."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.6), layout="constrained")
    axes = dict(zip(PANELS, figure.subplots(1, len(PANELS)), strict=True))
    for (panel, name), line in lines_of(measured).items():
        sizes, costs = [p.size for p in line], [p.cost for p in line]
        axes[panel].loglog(sizes, costs, marker="o", markersize=3, label=name)
    for panel, (size_label, cost_label) in PANELS.items():
        ends = [line for (of, _), line in lines_of(measured).items() if of == panel]
        sizes = [ends[0][0].size, ends[0][-1].size]
        top = max(line[-1].cost for line in ends)
        linear = [top * size / sizes[1] for size in sizes]
        axis = axes[panel]
        axis.loglog(sizes, linear, color="grey", linestyle=":", label="linear")
        axis.set(xlabel=size_label, ylabel=cost_label)
        axis.legend(fontsize=7)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Print the table; write it and its figure."""
    measured = list(points())
    print_table(measured)
    write_csv(measured, OUTPUT / "growth.csv")
    write_figure(measured, OUTPUT / "growth.png")


if __name__ == "__main__":
    main()
