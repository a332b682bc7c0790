"""Tables of the results: shares of the way to the rule, and paired differences."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from contest.runs import REFERENCES, Row

Floats = NDArray[np.float64]
WAYS = "sampled", "greedy"
LEVEL = 0.05


class Difference(NamedTuple):
    """A paired difference with its Holm-corrected interval."""

    name: str
    mean: float
    low: float
    high: float
    p_value: float
    num_seeds: int


def scale(rows: Iterable[Row], problem: str) -> tuple[float, float]:
    """Return the returns of random play and of the rule.

    Raises:
        ValueError: If one is not among the rows.
    """
    found = {row.agent: row.greedy for row in rows if row.problem == problem}
    for name in REFERENCES:
        if name not in found:
            raise ValueError(
                f"the file has no row of {name!r} for {problem!r}: run the program on "
                "this problem without --table or --compare"
            )
    low, high = (found[name] for name in REFERENCES)
    return low, high


def shares(rows: Iterable[Row]) -> dict[tuple[str, ...], dict[int, float]]:
    """Return each seed's share of the way from random play to the rule.

    The key says label, problem, agent, variant, steps and way of acting.
    """
    rows = list(rows)
    ends = {problem: scale(rows, problem) for problem in problems_of(rows)}
    found: dict[tuple[str, ...], dict[int, float]] = defaultdict(dict)
    for row, way in product(rows, WAYS):
        if row.agent in REFERENCES:
            continue
        low, high = ends[row.problem]
        steps = f"{row.num_steps:,}"
        key = row.label, row.problem, row.agent, row.variant, steps, way
        found[key][row.seed] = (getattr(row, way) - low) / (high - low)
    return dict(found)


def problems_of(rows: Iterable[Row]) -> list[str]:
    """Return the problems of the rows, each once."""
    return list(dict.fromkeys(row.problem for row in rows))


def interval(values: Floats, level: float = LEVEL) -> tuple[float, float]:
    """Return the t-interval of a mean; without end where there is one value."""
    if len(values) < 2:
        return -np.inf, np.inf
    error = stats.sem(values)
    if error == 0:
        return float(values[0]), float(values[0])
    low, high = stats.t.interval(1 - level, len(values) - 1, values.mean(), error)
    return float(low), float(high)


def holm_levels(p_values: Floats, level: float = LEVEL) -> Floats:
    """Return the level at which Holm's procedure judges each hypothesis.

    The smallest p-value is judged at level / m, the next at level / (m - 1), up to the
    first that is not rejected; all after it are judged as that one.
    """
    order = p_values.argsort()
    levels = level / np.arange(len(p_values), 0, -1)
    is_kept = p_values[order] > levels
    if is_kept.any():
        first = is_kept.argmax()
        levels[first:] = levels[first]
    judged = np.empty_like(levels)
    judged[order] = levels
    return judged


def differences(rows: Iterable[Row], old: str, new: str) -> list[Difference]:
    """Return the differences new - old of all that both labels have, by seed."""
    by_key, pairs = shares(rows), {}
    for key, values in by_key.items():
        after = by_key.get((new, *key[1:]), {})
        seeds = sorted(values.keys() & after.keys())
        if key[0] == old and len(seeds) > 1:
            name = ", ".join(key[1:])
            pairs[name] = np.array([after[seed] - values[seed] for seed in seeds])
    p_values = np.array([_p_value(values) for values in pairs.values()])
    levels = holm_levels(p_values)
    return [
        Difference(name, float(values.mean()), *interval(values, level), p, len(values))
        for (name, values), p, level in zip(
            pairs.items(), p_values, levels, strict=True
        )
    ]


def _p_value(values: Floats) -> float:
    if np.ptp(values) == 0:
        return float(values[0] == 0)
    return float(stats.ttest_1samp(values, 0.0).pvalue)


def print_differences(rows: Iterable[Row], old: str, new: str) -> None:
    """Print the paired differences, those that lie below 0 with a mark."""
    found = differences(rows, old, new)
    print(
        f"{new} - {old}, paired by seed; Holm-corrected 95 % intervals ({len(found)})"
    )
    for name, mean, low, high, p_value, num_seeds in found:
        mark = " WORSE" if high < 0 else " better" if low > 0 else ""
        bounds = f"[{low:+.3f}, {high:+.3f}]"
        print(f"{name:58} {mean:+.3f} {bounds} p {p_value:.4f} n {num_seeds}{mark}")


def print_shares(rows: Iterable[Row]) -> None:
    """Print the mean share of each problem, agent and number of steps."""
    rows = list(rows)
    for problem in problems_of(rows):
        low, high = scale(rows, problem)
        print(f"{problem}: random {low:.4g}, rule {high:.4g}")
        _print_problem([row for row in rows if row.problem == problem])


def _print_problem(rows: list[Row]) -> None:
    seconds: dict[Any, list[float]] = defaultdict(list)
    for row in rows:
        steps = f"{row.num_steps:,}"
        seconds[row.label, row.agent, row.variant, steps].append(row.cpu_seconds)
    by_key = shares(rows)
    for (label, agent, variant, steps), cpu in seconds.items():
        if agent in REFERENCES:
            continue
        cells = []
        for way in WAYS:
            key = label, rows[0].problem, agent, variant, steps, way
            values = np.array(list(by_key[key].values()))
            low, high = interval(values)
            width = f"{(high - low) / 2:.2f}" if len(values) > 1 else "-"
            cells.append(f"{way} {values.mean():6.3f} ± {width}")
        name = f"{label:8} {agent:12} {variant:10} {steps:>8}"
        print(f"  {name}  {'  '.join(cells)}  n {len(cpu)}  {np.mean(cpu):5.1f} s")
