"""The README's code runs as it is, and the files it names exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_readme_code_runs():
    """All code blocks run one after the other, with fewer training steps."""
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) >= 4
    code = "\n".join(blocks)
    assert "100_000" in code
    exec(code.replace("100_000", "4_096"), {})


def test_readme_links_exist():
    """Every link and picture that is not a web address is a file of this repository."""
    targets = re.findall(r"\]\(([^):]+)\)", README)
    assert targets
    for target in targets:
        assert (ROOT / target).exists(), target


def test_named_paths_exist():
    """Every path of a package or of the tests that the page names in code exists."""
    paths = re.findall(r"`((?:sas_gym|sas_agents|tests|examples)/[\w./]*)`", README)
    assert paths
    for path in paths:
        assert (ROOT / path).exists(), path
