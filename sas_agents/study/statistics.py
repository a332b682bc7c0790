"""Tables and intervals of results; `sas_agents.study.analysis` computes them."""

from sas_agents.study.analysis._statistics import (
    aggregate,
    aggregate_table,
    efficiency_table,
    final_rows,
    final_table,
    improvement_table,
    interquartile_mean,
    performance_profile,
    probability_of_improvement,
    profile_band,
    scores_by_task,
)

__all__ = [
    "aggregate",
    "aggregate_table",
    "efficiency_table",
    "final_rows",
    "final_table",
    "improvement_table",
    "interquartile_mean",
    "performance_profile",
    "probability_of_improvement",
    "profile_band",
    "scores_by_task",
]
