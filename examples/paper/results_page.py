"""The tables of `docs/results.md`, from the results in the repository.

    python -m examples.paper.results_page

Each table stands between two comments, of which the first has its name.
"""

from argparse import ArgumentParser
from pathlib import Path

import pandas as pd

from sas_agents.study.statistics import difference, final_rows, mean_interval

from .tables import Rows, Table, filled, spread

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "results.md"
STUDIES = ROOT / "examples" / "paper" / "results"
BENCHMARKS = ROOT / "benchmarks" / "results"
PEER = "MaskablePPO"
ACTS = {"SASPG": "sampled", "SASNPG": "sampled", "SASQ": "greedy"}
"""Our agents, and how the studies evaluate them."""
PROBLEMS = {
    "map": "`SAS/SanFrancisco-v0`",
    "map, availability 0.2": "`SAS/SanFrancisco-v0`, availability 0.2",
    "Bay Area": "`SAS/BayArea-v0`",
    "maze": "`SAS/Maze-v0`",
    "maze, availability 0.2": "`SAS/Maze-v0`, availability 0.2",
    "recommender": "`SAS/Recommender-v0`",
    "recommender, availability 0.2": "`SAS/Recommender-v0`, availability 0.2",
    "grid, 30 x 30": "grid of 30 x 30 streets",
}
"""Problems of `benchmarks/learning.py` that the page shows, and their names there."""


def summary(results: pd.DataFrame) -> Rows:
    """Return the final returns of our agents at availability 0.8, with intervals.

    An interval covers the seeds and the evaluation episodes, and is that of the agent's
    own way of acting.
    """
    shown = results[(results.variant == "0.8") & results.label.isin(list(ACTS))]
    ways = {way: final_rows(shown, way) for way in ("sampled", "greedy")}
    rows: Rows = []
    for (environment, label), group in final_rows(shown).groupby(
        ["environment", "label"], sort=False
    ):
        optimum, random = group.optimal.iloc[0], group.random.iloc[0]
        luck = group.shared_error.mean() / (optimum - random)
        score = mean_interval(group.score, luck)
        row: dict[str, object] = {"environment": f"`{environment}`", "agent": label}
        for way, final in ways.items():
            is_cell = (final.environment == environment) & (final.label == label)
            row[way] = spread(final.mean_return[is_cell])
        row["optimum"] = f"{optimum:.{2 if optimum >= 10 else 3}f}"
        interval = f"[{score.low:.3f}, {score.high:.3f}]"
        row["normalized, 95 % interval"] = f"{score.value:.3f} {interval}"
        row["seeds"] = len(group)
        rows.append(row)
    return rows


def defaults(results: pd.DataFrame) -> Rows:
    """Return the returns of each agent with its defaults, sampled and greedy."""
    rows: Rows = []
    for problem, name in PROBLEMS.items():
        chosen = results[results.problem == problem]
        for (agent, policy), group in chosen.groupby(["agent", "policy"], sort=False):
            acts_greedily = ACTS[agent] == "greedy"
            rows.append(
                {
                    "problem": name,
                    "agent": f'{agent}, `"{policy}"`',
                    "sampled": "-" if acts_greedily else spread(group.mean_return),
                    "greedy": spread(group.greedy_return),
                    "seeds": len(group),
                }
            )
    return rows


def against_peer(results: pd.DataFrame) -> Rows:
    """Return the final returns, and intervals of the gaps to MaskablePPO."""
    rows: Rows = []
    final = final_rows(results)
    for environment, group in final.groupby("environment", sort=False):
        returns = {label: runs.mean_return for label, runs in group.groupby("label")}
        row: dict[str, object] = {
            "problem": f"`{str(environment).rpartition(':')[2]}`",
            "steps": f"{group.num_steps.iloc[0]:,}",
        }
        row |= {label: spread(returns[label]) for label in (PEER, *ACTS)}
        for label in ACTS:
            row[f"{label} less {PEER}"] = welch(returns[label], returns[PEER])
        rows.append(row)
    return rows


def welch(x: pd.Series, y: pd.Series) -> str:
    """Write Welch's 95 % interval of the difference of two means."""
    found = difference(x, y)
    is_tie = not found.low * found.high > 0
    return f"[{found.low:.2f}, {found.high:.2f}]{', tie' if is_tie else ''}"


STUDY_TABLES = {"results": Table("ours", summary)}
BENCHMARK_TABLES = {
    "defaults": Table("learning", defaults),
    "against MaskablePPO": Table("masked_benchmark", against_peer),
}


def main() -> None:
    """Fill the page."""
    parser = ArgumentParser(description="Fill the tables of docs/results.md.")
    parser.add_argument("--page", type=Path, default=PAGE)
    page = parser.parse_args().page
    text = filled(page.read_text(), STUDY_TABLES, STUDIES)
    page.write_text(filled(text, BENCHMARK_TABLES, BENCHMARKS))
    print(f"filled {page}")


if __name__ == "__main__":
    main()
