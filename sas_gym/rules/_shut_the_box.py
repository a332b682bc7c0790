"""The rules for Shut the Box: which of the tiles that fit are shut first."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from sas_gym._types import Floats
from sas_gym.rules._rule import Rule, rules_of
from sas_gym.tasks._shut_the_box import ShutTheBox, bits


def highest_tile(task: ShutTheBox) -> Rule:
    """Shut the highest tile that fits, with any others.

    Args:
        task: A game; with `one_die=True` it throws one die whenever it can.
    """
    highest = [bits(int(row))[-1] for row in task.tile_sets]
    return _ranked("highest_tile", task, np.array(highest, dtype=np.float64))


def fewest_tiles(task: ShutTheBox) -> Rule:
    """Shut as few tiles as fit.

    Args:
        task: A game; with `one_die=True` it throws one die whenever it can.
    """
    return _ranked("fewest_tiles", task, -_num_tiles(task))


def most_tiles(task: ShutTheBox) -> Rule:
    """Shut as many tiles as fit.

    Args:
        task: A game; with `one_die=True` it throws one die whenever it can.
    """
    return _ranked("most_tiles", task, _num_tiles(task))


@rules_of.register
def _(task: ShutTheBox) -> Sequence[Rule]:
    return (highest_tile(task), fewest_tiles(task), most_tiles(task))


def _num_tiles(task: ShutTheBox) -> Float[Floats, " K"]:
    return np.array([len(bits(int(row))) for row in task.tile_sets], dtype=np.float64)


def _ranked(name: str, task: ShutTheBox, of_sets: Floats) -> Rule:
    """Rank the sets of tiles; of the dice one, before two."""
    others = [2.0, 1.0, 0.0][: task.num_actions - len(of_sets)]
    preferences = np.append(of_sets, others)
    return Rule(name, lambda _: preferences)
