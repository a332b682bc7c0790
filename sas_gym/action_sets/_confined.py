"""A law confined to the actions that each state has."""

import numpy as np

from sas_gym.action_sets._base import ActionSets, Floats, Ints, Mask
from sas_gym.action_sets._independent import Independent


class Confined(ActionSets):
    """Another law, of whose sets only the actions that a state has are left.

    Args:
        law: The other law, which must forget (`is_sas_mdp`).
        possible: Actions that each state has, [S, A].
    """

    def __init__(self, law: ActionSets, possible: Mask) -> None:
        self.law = law
        self.possible = possible

    def num_uniforms(self, num_actions: int) -> int:
        """Return what the inner law needs."""
        return self.law.num_uniforms(num_actions)

    def fit(self, num_actions: int, num_states: int | None) -> "Confined":
        """Fit the inner law and check the table."""
        if self.possible.shape != (num_states, num_actions):
            raise ValueError(
                f"the law is confined for {self.possible.shape} states and actions, "
                f"not for {(num_states, num_actions)}"
            )
        return Confined(self.law.fit(num_actions, num_states), self.possible)

    def sets_from(
        self, row: Floats, state: Ints | None, possible: Mask | None = None
    ) -> Mask:
        """Make the inner law's sets of what the states have."""
        here: Mask = self.possible[state]
        both = here if possible is None else here & possible
        return self.law.sets_from(row, state, both)


def confine(law: ActionSets, possible: Mask) -> ActionSets:
    """Return the law with only those actions that each state has, [S, A]."""
    if possible.all():
        return law
    if isinstance(law, Confined):
        return Confined(law.law, law.possible & possible)
    if isinstance(law, Independent):
        return Independent(np.where(possible, law.availability, 0.0))
    return Confined(law, possible)
