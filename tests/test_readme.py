"""The README's code runs as it is, and the files it names exist."""

import re
import tomllib
from pathlib import Path

import pytest

import sas_gym

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
ENVIRONMENTS = ROOT / "docs" / "environments.md"
PAGES = [
    "README.md",
    "docs/a-state-without-the-dice.md",
    "docs/agents.md",
    "docs/environments.md",
    "docs/results.md",
    "docs/saving.md",
    "examples/paper/README.md",
]


def test_readme_code_runs():
    """All code blocks run one after the other, with fewer training steps."""
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) >= 4
    code = "\n".join(blocks)
    assert "100_000" in code
    exec(code.replace("100_000", "4_096"), {})


@pytest.mark.parametrize("page", PAGES)
def test_links_exist(page):
    """Every link and picture that is not a web address is a file of this repository."""
    path = ROOT / page
    targets = re.findall(r"\]\(([^):#]+)(?:#[^)]*)?\)", path.read_text())
    assert targets
    for target in targets:
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_named_paths_exist(page):
    """Every path of a package or of the tests that a page names in code exists."""
    text = (ROOT / page).read_text()
    folders = "sas_gym|sas_agents|tests|examples|benchmarks|docs"
    paths = re.findall(rf"`((?:{folders})/[\w./]*)`", text)
    for path in paths:
        assert (ROOT / path).exists(), path


def test_named_tests_exist():
    """Every test of ours in the table of the peers' tests."""
    files = [*(ROOT / "tests").rglob("test_*.py")]
    found = {
        name
        for path in files
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    rows = re.findall(r"^\|.*\|(.*)\|$", (ROOT / "docs/peers.md").read_text(), re.M)
    named = {name for cell in rows for name in re.findall(r"`(test_\w+)`", cell)}
    assert len(named) > 80
    assert named <= found, named - found


def test_extra_for_everything_has_every_package():
    """`[all]` installs what each extra for users installs, and the README names it."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]

    def packages(extra: str) -> set[str]:
        found = set()
        for requirement in extras[extra]:
            name, _, inner = requirement.partition("[")
            if name == "sas-gym":
                for other in inner.rstrip("]").split(","):
                    found |= packages(other)
            else:
                found.add(requirement)
        return found

    for extra in extras.keys() - {"all", "dev"}:
        assert packages(extra) <= packages("all"), extra
    assert 'pip install ".[all]"' in README


@pytest.mark.parametrize("name", ["a-state-without-the-dice", "environments"])
def test_code_of_the_pages_runs(name, capsys):
    text = (ROOT / "docs" / f"{name}.md").read_text()
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(block, {"__name__": "page"})
        assert float(capsys.readouterr().out) < 0


def test_table_of_environments_is_the_catalogue():
    """`python tests/test_readme.py` writes it."""
    assert environments_page(sas_gym.catalogue()) == ENVIRONMENTS.read_text()


def environments_page(rows):
    """Return the page of the environments with the rows of the catalogue."""
    before, after = ENVIRONMENTS.read_text().split("<!-- table: catalogue -->")
    _, after = after.split("<!-- end -->")
    return f"{before}<!-- table: catalogue -->\n{rows}\n<!-- end -->{after}"


if __name__ == "__main__":
    ENVIRONMENTS.write_text(environments_page(sas_gym.catalogue()))
