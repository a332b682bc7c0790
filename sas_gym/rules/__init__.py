"""Hand-written policies: simple rules against which agents are measured.

A rule is made for a task, and called with batched observations and action masks:

    rule = sas_gym.rules.shortest_path(task)
    returns = sas_gym.episode_returns(env, rule, 10_000, seed=0)

It also has Stable-Baselines3's `predict`, and `sas_gym.planning.policy_return`
evaluates it exactly where the task is tabular.
"""

from sas_gym._evaluation import RandomPolicy
from sas_gym.rules._maze import shortest_way
from sas_gym.rules._recommender import most_profitable, myopic
from sas_gym.rules._routing import shortest_path
from sas_gym.rules._rule import Rule, rules_of
from sas_gym.rules._shut_the_box import fewest_tiles, highest_tile, most_tiles

__all__ = [
    "RandomPolicy",
    "Rule",
    "fewest_tiles",
    "highest_tile",
    "most_profitable",
    "most_tiles",
    "myopic",
    "rules_of",
    "shortest_path",
    "shortest_way",
]
