"""One screen about an environment: its masks, its sets, random play, its faults."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sas_gym._types import Floats, Mask
from sas_gym.checking._play import Player, Trace

# More actions than this are summarised.
MAX_LISTED = 12


def report_text(player: Player, trace: Trace, findings: Sequence[str]) -> str:
    """Return the report of random play.

    Args:
        player: The player, with its statistics.
        trace: The steps of the play.
        findings: The faults and warnings, each with its cure.
    """
    rows = [("environment", str(player.env))]
    if player.sets:
        masks = np.array(player.sets)
        rows += [
            ("mask", _places(player)),
            ("sets", _sizes(player, masks)),
            ("actions", _availability(masks.mean(axis=0), _names(player))),
        ]
    if trace:
        rows += [("episodes", _episodes(trace)), ("random play", _returns(trace))]
        speed = player.num_steps / max(player.seconds, 1e-9)
        rows += [("speed", f"{speed:,.0f} steps per second")]
    lines = [f"{name:<12} {text}" for name, text in rows]
    if not findings:
        return "\n".join([*lines, "findings     none: agents take this environment"])
    numbered = [f"{number:>4}. {text}" for number, text in enumerate(findings, 1)]
    return "\n".join([*lines, f"findings     {len(findings)}", *numbered])


def _places(player: Player) -> str:
    names = sorted(player.places)
    return ", ".join(names) + (": they agree" if len(names) > 1 else "")


def _sizes(player: Player, masks: Mask) -> str:
    sizes = masks.sum(axis=1)
    empty = "never empty"
    if player.num_empty_at_the_end:
        empty = (
            f"empty in {player.num_empty_at_the_end} of {player.num_final} final "
            "states, which is allowed"
        )
    return (
        f"{sizes.min()} to {sizes.max()} of {masks.shape[1]} available, "
        f"{sizes.mean():.1f} in the mean; {empty}"
    )


def _names(player: Player) -> list[str]:
    """Return the names of a mask's entries: `2:0` is choice 0 of dimension 2."""
    sizes = player.actions.sizes
    if len(sizes) == 1:
        return [str(action) for action in range(sizes[0])]
    return [
        f"{dimension}:{choice}"
        for dimension, size in enumerate(sizes)
        for choice in range(size)
    ]


def _availability(shares: Floats, names: list[str]) -> str:
    """Return how often each action is available, in per cent of the steps."""
    percent = np.round(100 * shares).astype(int)
    if len(shares) <= MAX_LISTED:
        pairs = zip(names, percent, strict=True)
        return ", ".join(f"{name} in {share} %" for name, share in pairs)
    extremes = [
        f"{text} {_listed([names[action] for action in np.flatnonzero(which)])}"
        for text, which in (("never", shares == 0), ("always", shares == 1))
        if which.any()
    ]
    low, middle, high = np.percentile(percent, [0, 50, 100]).astype(int)
    span = f"each in {low} % to {high} % of the steps, median {middle} %"
    return "; ".join([span, *extremes])


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:MAX_LISTED])
    return shown if len(names) <= MAX_LISTED else f"{shown}, ... ({len(names)})"


def _ended(trace: Trace) -> Any:
    return np.array([terminated or cut for *_, terminated, cut in trace])


def _episodes(trace: Trace) -> str:
    num_ended = int(_ended(trace).sum())
    if not num_ended:
        return f"none has ended in {len(trace)} steps"
    num_cut = sum(cut for *_, cut in trace)
    last = np.flatnonzero(_ended(trace))[-1] + 1
    return (
        f"{num_ended} in {len(trace)} steps, {last / num_ended:.1f} steps in the mean; "
        f"{num_cut} of them truncated"
    )


def _returns(trace: Trace) -> str:
    ends = np.flatnonzero(_ended(trace)) + 1
    rewards = np.array([reward for _, _, reward, _, _ in trace])
    if not len(ends):
        return f"{rewards.mean():.4g} reward per step"
    returns = np.array([part.sum() for part in np.split(rewards, ends)[: len(ends)]])
    if len(returns) == 1:
        return f"return {returns[0]:.4g} in one episode"
    error = returns.std(ddof=1) / np.sqrt(len(returns))
    return (
        f"return {returns.mean():.4g} ± {error:.2g} (standard error) over "
        f"{len(returns)} episodes"
    )
