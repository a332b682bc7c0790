"""Tables and intervals of results; `sas_agents.study.analysis` computes them.

The tables are made of the table that `sas_agents.study.collect` returns.
"""

from sas_agents.study.analysis._comparison import (
    comparison_table,
    profile_table,
    renamed,
)
from sas_agents.study.analysis._intervals import (
    Difference,
    Estimate,
    difference,
    difference_over_tasks,
    holm,
    mean_interval,
    mean_over_tasks,
    performance_profile,
    probability_of_improvement,
    profile_band,
)
from sas_agents.study.analysis._rows import (
    curve_rows,
    evaluation_rows,
    final_rows,
    scores_by_task,
)
from sas_agents.study.analysis._statistics import (
    aggregate_table,
    efficiency_table,
    final_table,
    improvement_table,
)

__all__ = [
    "Difference",
    "Estimate",
    "aggregate_table",
    "comparison_table",
    "curve_rows",
    "difference",
    "difference_over_tasks",
    "efficiency_table",
    "evaluation_rows",
    "final_rows",
    "final_table",
    "holm",
    "improvement_table",
    "mean_interval",
    "mean_over_tasks",
    "performance_profile",
    "probability_of_improvement",
    "profile_band",
    "profile_table",
    "renamed",
    "scores_by_task",
]
