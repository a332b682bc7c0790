"""Agents for masked actions on nine problems, ours and others', with their defaults.

    python benchmarks/masked_benchmark.py
    python benchmarks/masked_benchmark.py --seeds 1 --environment Taxi-v4

It is a study, `masked_benchmark.toml` beside this file: what is done already is not
repeated, and the arguments are those of `sas-study run`. The table of all evaluations
and the figures go to `benchmarks/results`.
"""

import argparse
import sys
from pathlib import Path

from sas_agents.study.__main__ import main as sas_study

HERE = Path(__file__).parent
STUDY = str(HERE / "masked_benchmark.toml")
RESULTS = HERE / "results"
FIGURES = "learning_curves", "final_returns"


def main(arguments: list[str]) -> int:
    """Run what has no result yet, then write tables and figures."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--folder", default="results")
    options, others = parser.parse_known_args(arguments)
    source = [STUDY, "--folder", options.folder]
    code = sas_study(["run", *source, *others])
    RESULTS.mkdir(exist_ok=True)
    sas_study(["table", *source, "--csv", str(RESULTS / "masked_benchmark.csv.gz")])
    for figure in FIGURES:
        sas_study(["plot", *source, "--figure", figure, "--output", str(RESULTS)])
        (RESULTS / f"{figure}.png").replace(RESULTS / f"masked_{figure}.png")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
