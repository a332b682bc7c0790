"""The figures of a study, from its table of results.

Every function takes the table that `collect` returns and gives a Matplotlib figure.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sas_agents.study.analysis._drawing import (
    BAND,
    Style,
    draw_band,
    draw_references,
    grid,
    say_steps,
    short_name,
    styles,
    with_legend,
)
from sas_agents.study.analysis._intervals import performance_profile, profile_band
from sas_agents.study.analysis._rows import curve_rows, final_rows, scores_by_task
from sas_agents.study.analysis._statistics import aggregate_table, improvement_table
from sas_agents.study.definition._runs import LAMBDAS

VARIANCES = "train/gradient_variance", "train/gradient_variance_without_baselines"


def learning_curves(results: pd.DataFrame) -> Figure:
    """Draw mean return against steps, with one standard deviation over seeds.

    A row per availability and a column per environment, as in the paper. Final scores
    are left out: other episodes have other luck, and a step at the end would look like
    learning.
    """
    results = curve_rows(results)
    figure, panels = grid(results, "mean return")
    looks = styles(list(results.label.unique()))
    for axes, task in panels:
        draw_references(axes, task)
        for label, group in task.groupby("label", sort=False):
            draw_band(axes, group, "mean_return", label, looks[label])
        say_steps(axes)
    return with_legend(figure)


def baseline_weights(results: pd.DataFrame) -> Figure:
    """Draw the two adapted weights of each algorithm that has them, over training."""
    results = curve_rows(results)
    columns = [name for name in LAMBDAS if name in results]
    with_weights = results[results[columns].notna().any(axis=1)]
    if not columns or with_weights.empty:
        raise ValueError(
            "no result has logged baseline weights: SASPG and SASNPG have them"
        )
    figure, panels = grid(with_weights, "weight of the baseline")
    labels = list(with_weights.label.unique())
    names = {
        LAMBDAS[0]: r"$\lambda_1$, of $\hat v$",
        LAMBDAS[1]: r"$\lambda_2$, of $\bar q$",
    }
    series = [(label, name) for label in labels for name in columns]
    looks = styles([f"{label} {name}" for label, name in series])
    for axes, task in panels:
        axes.axhline(0, color="black", lw=0.6)
        for label, name in series:
            group = task[(task.label == label) & task[name].notna()]
            legend = names[name] if len(labels) == 1 else f"{label}: {names[name]}"
            if len(group):
                draw_band(axes, group, name, legend, looks[f"{label} {name}"])
        say_steps(axes)
    return with_legend(figure)


def gradient_variance(results: pd.DataFrame) -> Figure:
    """Draw which share of the gradient's variance the baselines leave, over training.

    It is measured on the rollouts of each algorithm itself: 1 is no baseline.
    """
    if VARIANCES[0] not in results or results[VARIANCES[0]].isna().all():
        raise ValueError(
            f"no result has logged {list(VARIANCES)}: put them into `log` of the "
            "study's [evaluation]"
        )
    results = curve_rows(results)
    shares = results[results[VARIANCES[1]] > 0].copy()
    shares["share"] = shares[VARIANCES[0]] / shares[VARIANCES[1]]
    figure, panels = grid(shares, "variance left by the baselines")
    looks = styles(list(results.label.unique()))
    for axes, task in panels:
        axes.axhline(1, color="black", lw=0.6)
        for label, group in task.groupby("label", sort=False):
            draw_band(axes, group, "share", label, looks[label])
        axes.set_ylim(bottom=0)
        say_steps(axes)
    return with_legend(figure)


def performance_by_availability(results: pd.DataFrame) -> Figure:
    """Draw the final return against availability, with one standard deviation.

    Below it the same less the optimum, where that is known: there agents differ.

    Raises:
        ValueError: If no environment has an availability.
    """
    final = final_rows(results)
    final = final[final.availability.notna()]
    if final.empty:
        raise ValueError("no result has an availability")
    environments = list(final.environment.unique())
    looks = styles(list(results.label.unique()))
    num_rows = 2 if final.optimal.notna().any() else 1
    size = 3.2 * len(environments) + 0.6, 2.7 * num_rows
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(num_rows, len(environments), squeeze=False)
    for (axes, *others), environment in zip(panels.T, environments, strict=True):
        group = final[final.environment == environment]
        _draw_references_by_availability(axes, group)
        _draw_by_availability(axes, group, group.mean_return, looks)
        axes.set(title=short_name(environment), xlabel="availability")
        for below in others:
            if group.optimal.isna().any():
                below.remove()
                continue
            below.axhline(0, color="black", lw=1)
            gaps = group.mean_return - group.optimal
            _draw_by_availability(below, group, gaps, looks)
            below.set(xlabel="availability", ylabel="less the optimum")
            axes.set_xlabel("")
    panels[0, 0].set_ylabel("final mean return")
    return with_legend(figure)


def _draw_references_by_availability(axes: Axes, group: pd.DataFrame) -> None:
    """Draw the optimum and random play, if they are known."""
    known = group.drop_duplicates("availability").sort_values("availability")
    if len(known) == 1:
        draw_references(axes, known)
        return
    for column, label, look in (
        ("optimal", "optimum", {"color": "black", "lw": 1}),
        ("random", "random", {"color": "0.4", "ls": ":"}),
    ):
        if known[column].notna().any():
            axes.plot(known.availability, known[column], label=label, **look)


def _draw_by_availability(
    axes: Axes, group: pd.DataFrame, values: pd.Series, looks: dict[str, Style]
) -> None:
    labels = list(group.label.unique())
    for i, label in enumerate(labels):
        chosen = group.label == label
        by_availability = values[chosen].groupby(group.availability[chosen])
        mean, deviation = by_availability.mean(), by_availability.std(ddof=1)
        axes.errorbar(
            # A little apart, or error bars hide each other.
            mean.index + 0.012 * (i - (len(labels) - 1) / 2),
            mean,
            deviation.fillna(0),
            label=label,
            capsize=2,
            lw=1.3,
            ms=4,
            **looks[label]._asdict(),
        )
    ticks = sorted(group.availability.unique())
    axes.set_xticks(ticks)
    axes.set_xlim(ticks[0] - 0.08, ticks[-1] + 0.08)
    axes.grid(alpha=0.25)


def performance_profiles(results: pd.DataFrame) -> Figure:
    """Draw the share of runs above each score, with its 95 % band.

    Raises:
        ValueError: If no optimum is known: there are no scores then.
    """
    _check_scores(results)
    # From where the first run drops out: before that every line is at 1.
    low = np.floor(20 * np.nanmin(final_rows(results).score, initial=1) - 0.5) / 20
    thresholds = np.linspace(np.clip(low, 0, 0.9), 1.02, 201)
    figure = Figure(figsize=(5.2, 3.6), layout="constrained")
    axes = figure.subplots()
    for label, look in styles(list(results.label.unique())).items():
        scores = scores_by_task(results, label)
        if not scores:
            continue
        profile = performance_profile(scores, thresholds)
        axes.plot(
            thresholds,
            profile,
            label=label,
            lw=1.6,
            markevery=40,
            ms=4,
            **look._asdict(),
        )
        low, high = profile_band(scores, thresholds)
        axes.fill_between(thresholds, low, high, color=look.color, alpha=BAND, lw=0)
    axes.set(
        xlabel="score: 0 is random play, 1 the optimum",
        ylabel="share of runs above it",
        ylim=(-0.02, 1.02),
    )
    axes.grid(alpha=0.25)
    return with_legend(figure)


def score_intervals(results: pd.DataFrame) -> Figure:
    """Draw mean scores and probabilities of improvement, with their 95 % intervals.

    Raises:
        ValueError: If no optimum is known: there are no scores then.
    """
    _check_scores(results)
    means, improvements = aggregate_table(results), improvement_table(results)
    # Over all tasks, or of the only environment.
    means = means.drop_duplicates("algorithm", keep="last").reset_index(drop=True)
    pairs = [
        f"{x} over {y}" for x, y in zip(improvements.X, improvements.Y, strict=True)
    ]
    height = 1.2 + 0.32 * max(len(means), len(improvements))
    # Long names must leave the panels their width.
    names = sum(max(map(len, of), default=0) for of in (means.algorithm, pairs))
    figure = Figure(figsize=(5.5 + 0.075 * names, height), layout="constrained")
    left, right = figure.subplots(1, 2)
    looks = styles(list(results.label.unique()))
    colors = [looks[label].color for label in means.algorithm]
    _draw_intervals(left, means, "score", list(means.algorithm), colors)
    _draw_intervals(right, improvements, "P(X > Y)", pairs, ["black"] * len(pairs))
    left.set_title("Mean score over all tasks", fontsize="medium")
    left.set_xlabel("score")
    right.axvline(0.5, color="0.4", ls=":", lw=1)
    right.set_title("Probability of improvement", fontsize="medium")
    right.set(xlim=(-0.03, 1.03), xlabel="P(X > Y)")
    return figure


def _check_scores(results: pd.DataFrame) -> None:
    if results.score.isna().all():
        raise ValueError("no optimum is known in these environments, so no scores")


def final_returns(results: pd.DataFrame) -> Figure:
    """Draw the final return of every seed, with the time of a run."""
    final = final_rows(results)
    figure, panels = grid(final, "")
    looks = styles(list(results.label.unique()))
    for axes, task in panels:
        draw_references(axes, task, horizontal=False)
        labels = list(task.label.unique())
        for row, label in enumerate(labels):
            group, look = task[task.label == label], looks[label]
            axes.scatter(
                group.mean_return,
                np.full(len(group), row),
                s=18,
                color=look.color,
                marker=look.marker,
                alpha=0.6,
                lw=0,
            )
            mean = group.mean_return.mean()
            axes.plot([mean], [row], "|", color=look.color, ms=15, mew=2)
        seconds = task.groupby("label", sort=False).seconds.mean()
        names = [f"{label}, {seconds[label]:.0f} s" for label in labels]
        axes.set_yticks(range(len(labels)), names, fontsize="small")
        axes.set_ylim(len(labels) - 0.5, -0.5)
        axes.set_xlabel("final mean return")
    return with_legend(figure)


def _draw_intervals(
    axes: Axes, table: pd.DataFrame, column: str, names: list[str], colors: list[str]
) -> None:
    for row, (_, entry) in enumerate(table.iterrows()):
        if np.isfinite(entry.low):
            axes.plot(
                [entry.low, entry.high],
                [row, row],
                color=colors[row],
                lw=7,
                alpha=0.35,
                solid_capstyle="butt",
            )
        axes.plot([entry[column]], [row], "|", color=colors[row], ms=13, mew=2.5)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="x", alpha=0.25)


FIGURES: dict[str, Callable[[pd.DataFrame], Figure]] = {
    "learning_curves": learning_curves,
    "final_returns": final_returns,
    "baseline_weights": baseline_weights,
    "gradient_variance": gradient_variance,
    "performance_by_availability": performance_by_availability,
    "performance_profiles": performance_profiles,
    "score_intervals": score_intervals,
}
