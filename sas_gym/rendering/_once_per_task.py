"""Values that are computed once for each task and kept for all its frames."""

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

from sas_gym.tasks._task import Task

Made = TypeVar("Made")
Drawn = TypeVar("Drawn", bound=Task)


class OncePerTask(Generic[Drawn, Made]):
    """Make a function of a task keep its result for as long as the task exists.

    The results are kept here by the task's id: they are neither copied nor pickled with
    their task, and a task need not be hashable.

    Args:
        function: The function, which returns the same for the same task.
    """

    def __init__(self, function: Callable[[Drawn], Made]) -> None:
        self.function = function
        self.kept: dict[int, Made] = {}

    def __call__(self, task: Drawn) -> Made:
        """Return the function's result, computed at the first call for a task."""
        key = id(task)
        if key not in self.kept:
            self.kept[key] = self.function(task)
            weakref.finalize(task, self.kept.pop, key)
        return self.kept[key]
