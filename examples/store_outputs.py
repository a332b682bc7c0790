"""Run the notebooks of this folder in full size, and store their outputs in them.

    python examples/store_outputs.py

Readers see the stored outputs without running anything. Run this program whenever an
agent or an environment changes.
"""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent


def main() -> None:
    """Run every notebook."""
    for path in sorted(HERE.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        # Times of execution would change the file at every run.
        client = NotebookClient(notebook, timeout=1200, record_timing=False)
        client.execute(cwd=str(HERE))
        nbformat.write(notebook, path)
        print(f"stored the outputs of {path}")


if __name__ == "__main__":
    main()
