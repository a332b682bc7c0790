"""The tables of this folder's page, from the results of the studies.

    python examples/paper/tables.py

It reads `examples/paper/results/STUDY.csv.gz`, as `sas-study table STUDY --csv` writes
it, and replaces the tables in `examples/paper/README.md`. Each table stands between two
comments, of which the first has its name.
"""

from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from sas_agents.study import statistics as study
from sas_agents.study.statistics import evaluation_rows, final_rows

HERE = Path(__file__).parent
PAGE = HERE / "README.md"
TASK = ["environment", "variant"]
SHARE = "train/gradient_variance", "train/gradient_variance_without_baselines"
OURS = "SASPG", "SASNPG", "SASQ"
Rows = list[dict[str, object]]


class Table(NamedTuple):
    """A table of the page: the study it shows, and the function that makes its rows."""

    study: str
    make: Callable[[pd.DataFrame], Rows]


def spread(values: pd.Series) -> str:
    """Return mean and standard deviation over seeds as a text."""
    if not len(values):
        return "-"
    digits = 2 if abs(values.mean()) >= 10 else 3
    mean = f"{values.mean():.{digits}f}"
    return f"{mean} ± {values.std(ddof=1):.{digits}f}" if len(values) > 1 else mean


def of_task(group: pd.DataFrame) -> dict[str, object]:
    """Return the columns that name a task."""
    row = group.iloc[0]
    return {"environment": f"`{row.environment}`", "sets": row.variant}


def final_returns(
    results: pd.DataFrame,
) -> Iterator[tuple[dict[str, object], dict[str, np.ndarray]]]:
    """Yield, for each task, its columns and the final returns of each algorithm."""
    for _, group in final_rows(results).groupby(TASK, sort=False):
        by_label = group.groupby("label").mean_return
        yield of_task(group), {label: runs.to_numpy() for label, runs in by_label}


def returns(results: pd.DataFrame) -> Rows:
    """Return the final return of each algorithm on each task."""
    rows = []
    for _, group in final_rows(results).groupby(TASK, sort=False):
        cells = {
            label: spread(runs.mean_return)
            for label, runs in group.groupby("label", sort=False)
        }
        optimum = group.optimal.iloc[0]
        known = {"optimum": f"{optimum:.2f}"} if np.isfinite(optimum) else {}
        counts = sorted(set(group.groupby("label").size()))
        seeds = {"seeds": ", ".join(map(str, counts))}
        rows.append({**of_task(group), **cells, **known, **seeds})
    return rows


def against_sas_q(results: pd.DataFrame) -> Rows:
    """Return how SAS-PG and SAS-NPG compare with SAS-Q, and the seeds' spread."""
    rows = []
    for row, by_label in final_returns(results):
        if "SASQ" not in by_label:
            continue
        for label in ("SASPG", "SASNPG"):
            if label not in by_label:
                continue
            gaps = by_label[label][:, None] - by_label["SASQ"]
            row[f"{label} less SASQ"] = difference(
                by_label[label], by_label["SASQ"], digits=3
            )
            row[f"P({label} > SASQ)"] = f"{np.heaviside(gaps, 0.5).mean():.2f}"
        for label in ("SASPG", "SASNPG", "SASQ"):
            if len(by_label.get(label, ())) > 1:
                row[f"sd of {label}"] = f"{by_label[label].std(ddof=1):.3f}"
        rows.append(row)
    return rows


def difference(x: np.ndarray, y: np.ndarray, digits: int = 2) -> str:
    """Write Welch's 95 % interval of the difference of two means.

    Of one seed each there is only the difference.
    """
    found = study.difference(x, y)
    if np.isfinite(found.low):
        return f"[{found.low:.{digits}f}, {found.high:.{digits}f}]"
    return f"{found.value:.{digits}f}, one seed"


def untrained(results: pd.DataFrame) -> Rows:
    """Return the returns of untrained agents, whose greedy ties are a policy, too."""
    rows = []
    for _, group in evaluation_rows(results).groupby(TASK, sort=False):
        first, last = group[group.step == 0], final_rows(group)
        row = of_task(group)
        for label in ("SASPG", "SASQ"):
            row[f"{label} untrained"] = spread(first[first.label == label].mean_return)
            row[f"{label} trained"] = spread(last[last.label == label].mean_return)
        row["random play"] = f"{group.random.iloc[0]:.3f}"
        rows.append(row)
    return rows


def saturation(results: pd.DataFrame) -> Rows:
    """Return the return in the course of training, and how much it moves.

    The final evaluation is left out: it has other episodes than the earlier ones.
    """
    rows = []
    points = evaluation_rows(results)
    chosen = points[points.label.isin(OURS)]
    for _, group in chosen.groupby([*TASK, "label"], sort=False):
        row = of_task(group) | {"agent": group.label.iloc[0]}
        end = group.step.max()
        for share in (0.25, 0.5, 0.75, 0.95):
            step = group.step[group.step <= share * end].max()
            row[f"{share:.0%}"] = spread(group[group.step == step].mean_return)
        second_half = group[(group.step >= end / 2) & (group.step < end)]
        along = second_half.groupby("key").mean_return.std(ddof=1).mean()
        row["sd along the second half"] = f"{along:.3f}"
        rows.append(row)
    return rows


def weights(results: pd.DataFrame) -> Rows:
    """Return the two adapted weights at the end of the training."""
    final = final_rows(results)
    final = final[(final.label == "SASPG") & final["train/weight_v_hat"].notna()]
    return [
        {
            **of_task(group),
            "λ₁, of v": spread(group["train/weight_v_hat"]),
            "λ₂, of q-bar": spread(group["train/weight_q_bar"]),
        }
        for _, group in final.groupby(TASK, sort=False)
    ]


def starts(results: pd.DataFrame) -> Rows:
    """Return the two weights in the course of training, for each start."""
    rows = []
    points = evaluation_rows(results)
    known = points[points["train/weight_v_hat"].notna()]
    for _, group in known.groupby([*TASK, "label"], sort=False):
        row = of_task(group) | {"weights": group.label.iloc[0]}
        for share in (0.25, 1.0):
            step = group.step[group.step <= share * group.step.max()].max()
            now = group[group.step == step]
            row[f"λ₁ at {share:.0%}"] = spread(now["train/weight_v_hat"])
            row[f"λ₂ at {share:.0%}"] = spread(now["train/weight_q_bar"])
        rows.append(row)
    return rows


def baselines(results: pd.DataFrame) -> Rows:
    """Return the share of the variance that baselines leave, and the final return."""
    rows = []
    points = evaluation_rows(results)
    for _, group in points.groupby([*TASK, "label"], sort=False):
        known = group[group[SHARE[1]] > 0]
        share = (known[SHARE[0]] / known[SHARE[1]]).groupby(known.key).mean()
        rows.append(
            {
                **of_task(group),
                "baselines": group.label.iloc[0],
                "variance left, mean over training": spread(share),
                "mean return over training": spread(
                    group.groupby("key").mean_return.mean()
                ),
                "final return": spread(final_rows(group).mean_return),
            }
        )
    return rows


def assumptions(results: pd.DataFrame) -> Rows:
    """Return the final return under each distribution, and the loss."""
    rows = []
    final = final_rows(results)
    for (environment, label), group in final.groupby(
        ["environment", "label"], sort=False
    ):
        row: dict[str, object] = {"environment": f"`{environment}`", "agent": label}
        kinds = {
            kind: runs.mean_return
            for kind, runs in group.groupby("variant", sort=False)
        }
        (name,) = (kind for kind in kinds if "(" not in kind)
        independent = kinds.pop(name)
        row["independent"] = spread(independent)
        for kind, values in kinds.items():
            row[kind] = spread(values)
            row[f"less independent, {kind.partition('(')[0]}"] = difference(
                values.to_numpy(), independent.to_numpy()
            )
        rows.append(row)
    return rows


def memory(results: pd.DataFrame) -> Rows:
    """Return the gain of an agent that sees the mask, and of one with a memory."""
    rows = []
    for task, by_label in final_returns(results):
        gains = {}
        for more, less in (
            ("MaskedPPO, sees the mask", "MaskedPPO"),
            ("MaskedRecurrentPPO", "MaskedPPO"),
            ("MaskedRecurrentPPO", "MaskedPPO, sees the mask"),
        ):
            if {more, less} <= by_label.keys():
                gains[f"{more} less {less}"] = difference(
                    by_label[more], by_label[less]
                )
        if gains:
            rows.append({**task, **gains})
    return rows


def aggregates(results: pd.DataFrame) -> Rows:
    """Return the mean score over all tasks, with its interval."""
    table = study.aggregate_table(results)
    return [
        {
            "agent": row.algorithm,
            "tasks": row.tasks,
            "runs": row.runs,
            "mean score": f"{row.score:.4f}",
            "95 % interval": f"[{row.low:.4f}, {row.high:.4f}]"
            if np.isfinite(row.low)
            else "of one seed: none",
        }
        for _, row in table.drop_duplicates("algorithm", keep="last").iterrows()
    ]


def efficiency(results: pd.DataFrame) -> Rows:
    """Return the steps to shares of the optimum, for good, at availability 0.8."""
    table = study.efficiency_table(results[results.variant == "0.8"])
    return [
        {
            "environment": f"`{row.environment}`",
            "agent": row.algorithm,
            **{
                name: f"{row[name]:,.0f}" if np.isfinite(row[name]) else "never"
                for name in table.columns
                if name.startswith("steps to")
            },
        }
        for _, row in table.iterrows()
    ]


TABLES = {
    "returns, ours": Table("ours", returns),
    "returns, paper": Table("paper", returns),
    "untrained": Table("ours", untrained),
    "against SAS-Q, ours": Table("ours", against_sas_q),
    "against SAS-Q, paper": Table("paper", against_sas_q),
    "saturation, ours": Table("ours", saturation),
    "saturation, paper": Table("paper", saturation),
    "weights, ours": Table("ours", weights),
    "weights, paper": Table("paper", weights),
    "baselines": Table("baselines", baselines),
    "assumptions": Table("assumptions", assumptions),
    "memory": Table("assumptions", memory),
    "features": Table("features", returns),
    "starts": Table("weights", starts),
    "aggregates, ours": Table("ours", aggregates),
    "efficiency, ours": Table("ours", efficiency),
    "aggregates, paper": Table("paper", aggregates),
    "efficiency, paper": Table("paper", efficiency),
}


def markdown(rows: Rows) -> str:
    """Return rows as a table."""
    if not rows:
        return "None of these agents has results yet."
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [columns, ["---"] * len(columns)]
    lines += [[str(row.get(name, "-")) for name in columns] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def filled(page: str, tables: Mapping[str, Table], folder: Path) -> str:
    """Return a page with every table whose results are in a folder.

    Args:
        page: The text of the page.
        tables: Its tables, by the name in the comment before each.
        folder: Folder with the results: a CSV file per study, compressed or not.
    """
    for name, table in tables.items():
        path = next(folder.glob(f"{table.study}.csv*"), None)
        text = f"Not run yet: `sas-study run {table.study}`."
        if path is not None:
            text = markdown(table.make(read_results(path)))
        start, end = f"<!-- table: {name} -->\n", "<!-- end -->"
        before, found, rest = page.partition(start)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"the page has no place for the table {name!r}")
        page = f"{before}{start}{text}\n{end}{after}"
    return page


def read_results(path: Path) -> pd.DataFrame:
    """Read a file of results, in which an environment may have no variant."""
    frame = pd.read_csv(path, dtype={"variant": str, "key": str})
    if "variant" in frame:
        frame["variant"] = frame.variant.fillna("")
    return frame


def main() -> None:
    """Fill the page."""
    parser = ArgumentParser(description="Fill the tables of this folder's page.")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--page", type=Path, default=PAGE)
    arguments = parser.parse_args()
    page = arguments.page
    page.write_text(filled(page.read_text(), TABLES, arguments.results))
    print(f"filled {page}")


if __name__ == "__main__":
    main()
