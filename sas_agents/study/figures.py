"""Figures of results; `sas_agents.study.analysis` draws them."""

from sas_agents.study.analysis._figures import (
    FIGURES,
    baseline_weights,
    final_returns,
    gradient_variance,
    learning_curves,
    performance_by_availability,
    performance_profiles,
    score_intervals,
)

__all__ = [
    "FIGURES",
    "baseline_weights",
    "final_returns",
    "gradient_variance",
    "learning_curves",
    "performance_by_availability",
    "performance_profiles",
    "score_intervals",
]
