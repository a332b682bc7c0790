"""The rule for road maps."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from sas_gym._types import Floats
from sas_gym.rules._rule import Rule, rules_of
from sas_gym.tasks._routing import NO_ROAD, Routing


def shortest_path(task: Routing) -> Rule:
    """Take the open road with which the best path begins, were all roads open for ever.

    Waiting is the last resort: with all roads open nobody waits.

    Args:
        task: A road map.
    """
    values = _action_values(task)
    return Rule("shortest_path", lambda node: values[np.asarray(node)])


@rules_of.register
def _(task: Routing) -> Sequence[Rule]:
    return (shortest_path(task),)


def _action_values(task: Routing) -> Float[Floats, "S A"]:
    """Return the value of each road if all roads were open, by value iteration."""
    exists = (task.successor != NO_ROAD) & (task.availability > 0)
    reward = np.where(exists, task.reward, -np.inf)
    best = np.full(len(task.labels), -np.inf)
    best[task.goal] = 0.0
    for _ in range(len(best)):
        values: Floats = reward + best[task.successor]
        better = values.max(axis=1)
        better[task.goal] = 0.0
        if np.array_equal(better, best):
            return values
        best = better
    raise ValueError(
        "there is no best path: some roads lead round in a circle at a profit"
    )
