"""Compare speeds side by side: turn by turn in one run, as ratios with their spread.

Speeds alone differ from machine to machine and from minute to minute; the ratio of two
neighbouring turns hardly does.
"""

import statistics
from collections.abc import Callable, Iterable
from typing import NamedTuple

SpeedMeter = Callable[[], float]
"""Runs for one turn and returns the steps per second."""


class Comparison(NamedTuple):
    """Two speeds to compare, and the ratio that we want."""

    name: str
    ours: SpeedMeter
    peer: SpeedMeter
    wanted: float


class Result(NamedTuple):
    """The turns of a comparison, summarised."""

    median_speed: float
    """Of ours, in steps per second."""
    median_ratio: float
    min_ratio: float


def compare(ours: SpeedMeter, peer: SpeedMeter, num_turns: int) -> Result:
    """Measure both in turn; which of them goes first alternates."""
    speeds, ratios = [], []
    # One turn more than asked for: the first one warms up and does not count.
    for turn in range(num_turns + 1):
        if turn % 2:
            our_speed, peer_speed = ours(), peer()
        else:
            peer_speed, our_speed = peer(), ours()
        if turn > 0:
            speeds.append(our_speed)
            ratios.append(our_speed / peer_speed)
    return Result(statistics.median(speeds), statistics.median(ratios), min(ratios))


def print_comparisons(comparisons: Iterable[Comparison], num_turns: int) -> None:
    """Run the comparisons and print one row for each."""
    print(f"ratios over {num_turns} turns, ours / peer")
    print(f"{'comparison':56} {'steps/s':>11} {'median':>7} {'min':>7} {'wanted':>7}")
    for name, ours, peer, wanted in comparisons:
        speed, median, least = compare(ours, peer, num_turns)
        print(f"{name:56} {speed:11,.0f} {median:7.2f} {least:7.2f} {wanted:7.2f}")
