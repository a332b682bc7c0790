"""The README's code runs as it stands."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_code_blocks_run_one_after_the_other():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) >= 4
    # The same code in fewer steps.
    exec("\n".join(blocks).replace("100_000", "2_000"), {})


def test_every_file_it_shows_exists():
    for target in re.findall(r"\]\(([^):]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
