"""Scales of returns: from random play, or from the best simple rule, to the optimum."""

Reference = dict[str, float | None]
"""The mean returns of `random` play, of the best `rule`, and the `optimal` one."""

# A rule that comes so near to the optimum leaves no scale above it.
LEAST_ROOM = 0.01


def normalized(mean_return: float, reference: Reference) -> float | None:
    """Put a return on a scale from random play, 0, to the optimum, 1, if both known."""
    return _share(mean_return, reference["random"], reference["optimal"])


def rule_score(mean_return: float, reference: Reference) -> float | None:
    """Put a return on a scale from the best simple rule, 0, to the optimum, 1.

    There is none where the rule comes within 1 % of the way from random play.
    """
    rule, optimal = reference.get("rule"), reference["optimal"]
    if rule is None or optimal is None:
        return None
    share = normalized(rule, reference)
    if share is None or share > 1 - LEAST_ROOM:
        return None
    return _share(mean_return, rule, optimal)


def _share(value: float, low: float | None, high: float | None) -> float | None:
    if low is None or high is None or not high > low:
        return None
    return (value - low) / (high - low)
