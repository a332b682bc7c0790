"""Problems of kinds that people pay for, each with a hand-written rule.

Plain Gymnasium environments as users write them: raw units, a Dict observation, a mask
in the observation, in the info or from a method. `gymnasium.make(PROBLEMS["towing"])`
makes one with flat arrays, `action_features=True` one with a row of features per
action.
"""

import gymnasium as gym

from problems.haulage import Haulage
from problems.job_shop import JobShop
from problems.loading import Loading
from problems.picking import Picking
from problems.towing import Towing
from problems.wholesale import Wholesale

PROBLEMS = {
    "towing": "benchmarks/Towing-v0",
    "wholesale": "benchmarks/Wholesale-v0",
    "picking": "benchmarks/Picking-v0",
    "loading": "benchmarks/Loading-v0",
    "haulage": "benchmarks/Haulage-v0",
    "job shop": "benchmarks/JobShop-v0",
}
"""Ids, by the names that the benchmark prints."""

# Steps of an episode, without a number until it ends by itself; the job shop has
# a step for each operation.
_LIMITS = {
    "Towing": 100,
    "Wholesale": 120,
    "Picking": 100,
    "Loading": 200,
    "Haulage": None,
    "JobShop": 150,
}
for _id, (_class, _limit) in zip(PROBLEMS.values(), _LIMITS.items(), strict=True):
    _entry_point = f"problems:{_class}"
    gym.register(_id, _entry_point, max_episode_steps=_limit, disable_env_checker=True)

__all__ = [
    "PROBLEMS",
    "Haulage",
    "JobShop",
    "Loading",
    "Picking",
    "Towing",
    "Wholesale",
]
