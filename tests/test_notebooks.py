"""The outputs that are stored in the notebooks come from agents that work.

`make notebooks` runs the notebooks at a small size and stores nothing. These tests read
the stored outputs. If a test fails, run `make outputs` and look at the notebooks.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
WHY = "why_sas_q_can_diverge"
NUMBER = r"(-?\d+(?:\.\d+)?)"


def code_cells(path: Path) -> list[dict[str, Any]]:
    """Return the cells of a notebook that run."""
    cells = json.loads(path.read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def printed(path: Path) -> str:
    """Return everything that a notebook has printed."""
    outputs = [out for cell in code_cells(path) for out in cell["outputs"]]
    return "".join("".join(out["text"]) for out in outputs if "text" in out)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs_are_from_one_run_without_warnings(path):
    cells = code_cells(path)
    counts = [cell["execution_count"] for cell in cells]
    assert counts == list(range(1, len(cells) + 1))
    for cell in cells:
        for output in cell["outputs"]:
            assert output["output_type"] != "error"
            assert output.get("name") != "stderr", "".join(output["text"])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_asserts_its_numbers(path):
    code = "".join("".join(cell["source"]) for cell in code_cells(path))
    assert code.count("assert ") >= 4


@pytest.mark.parametrize(
    ("name", "label", "low", "high"),
    [
        ("quickstart", "random play", -0.2, 0.9),
        ("quickstart", "optimum", 9.431, 9.433),
        ("quickstart", "deterministic = False", 9.38, 9.47),
        ("quickstart", "deterministic = True", 9.38, 9.47),
        (WHY, "η = 0.01: an update multiplies theta_2 by", 1.01, 1.01),
        (WHY, "η = 0.05: an update multiplies theta_2 by", 1.05, 1.05),
        (WHY, "η = 0.2: an update multiplies theta_2 by", 1.2, 1.2),
        (WHY, "maximum over all actions: theta_2 =", -4.001, -3.999),
        (WHY, "one transition: theta_2 =", -1e5, -5e4),
        (WHY, "all transitions: theta_2 =", -0.5, 0.0),
        (WHY, "SASQ, greedy:", 9.38, 9.47),
        ("your_own_problem", "DQN without masks", 20, 34),
        ("your_own_problem", "SASPG", 37.5, 38.6),
        ("your_own_problem", "SASQ", 37.5, 38.6),
        ("your_own_problem", "optimum", 38.2, 38.4),
        ("your_own_problem", "at random,", 150, 500),
        ("your_own_problem", "SASPG after 200,000 steps:", 37.5, 38.6),
    ],
)
def test_stored_number_is_in_its_bounds(name, label, low, high):
    text = printed(EXAMPLES / f"{name}.ipynb")
    found = re.search(rf"^.*{re.escape(label)}\s+{NUMBER}", text, flags=re.MULTILINE)
    assert found, f"{name}.ipynb prints no line with {label!r} and a number"
    assert low <= float(found[1]) <= high
