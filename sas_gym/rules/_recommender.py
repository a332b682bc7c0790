"""The rules for the recommender."""

from collections.abc import Sequence

import numpy as np

from sas_gym.rules._rule import Rule, rules_of
from sas_gym.tasks._recommender import Recommender


def myopic(task: Recommender) -> Rule:
    """Recommend the product in stock with the largest expected profit now.

    Args:
        task: A recommender.
    """
    return Rule("myopic", lambda context: task.expected_profit(np.asarray(context)))


def most_profitable(task: Recommender) -> Rule:
    """Recommend the product in stock with the largest profit, to every user.

    Args:
        task: A recommender.
    """
    return Rule("most_profitable", lambda _: task.profit)


@rules_of.register
def _(task: Recommender) -> Sequence[Rule]:
    return (myopic(task), most_profitable(task))
