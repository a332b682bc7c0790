"""Run the suite with the lowest and the newest supported versions.

    python tests/benchmarks/versions.py [--only lowest|newest] [pytest's arguments]

Every combination of a Python from 3.11 on that this machine has and of the two ends of
each range in pyproject.toml gets a virtual environment of its own, which is thrown away
afterwards.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PYTHONS = [f"python3.{minor}" for minor in range(11, 16)]
# The packages whose ranges are ours to keep; tools may be the newest.
RANGED = ("gymnasium", "numpy", "stable-baselines3", "sb3-contrib")


def lowest_versions() -> list[str]:
    """Return a pin to the lower end of each range, by pip's compatible release."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    ranges = [*project["dependencies"], *(line for lines in extras for line in lines)]
    pins = []
    for line in ranges:
        found = re.fullmatch(r"([\w-]+)>=([\d.]+).*", line)
        if found and found[1] in RANGED:
            name, version = found.groups()
            parts = version.split(".")
            # 2.8 means the 2.8 series: its first release may never have been built.
            pins.append(f"{name}=={'.'.join([*parts, '0'][:2])}.*")
    return sorted(set(pins))


def run(python: str, ends: str, arguments: list[str]) -> bool:
    """Build an environment and run the suite in it; return whether it passed."""
    with tempfile.TemporaryDirectory(prefix="sas_gym_versions_") as folder:
        pip = [f"{folder}/bin/python", "-m", "pip", "install", "--quiet"]
        pins = lowest_versions() if ends == "lowest" else ["--upgrade", *RANGED]
        commands = [
            [python, "-m", "venv", folder],
            [*pip, "--editable", f"{ROOT}[dev]", *pins],
            [f"{folder}/bin/python", "-m", "pytest", "-q", "-n", "2", *arguments],
        ]
        for command in commands:
            if subprocess.run(command, cwd=ROOT, check=False, env=_alone()).returncode:
                return False
        return True


def _alone() -> dict[str, str]:
    """Return an environment in which nothing installed elsewhere is found."""
    dropped = {"PYTHONPATH", "VIRTUAL_ENV"}
    return {key: value for key, value in os.environ.items() if key not in dropped}


def main() -> None:
    """Print one line per combination, and fail if any failed."""
    parser = argparse.ArgumentParser(description="Run the suite with other versions.")
    parser.add_argument("--only", choices=["lowest", "newest"])
    parser.add_argument("--list", action="store_true", help="print the combinations")
    given, arguments = parser.parse_known_args()
    results = {}
    for python in filter(shutil.which, PYTHONS):
        for ends in [given.only] if given.only else ["lowest", "newest"]:
            if given.list:
                pins = lowest_versions() if ends == "lowest" else RANGED
                print(f"{python}, {ends}: {' '.join(pins)}")
                continue
            results[python, ends] = run(python, ends, arguments)
    for (python, ends), passed in results.items():
        print(f"{python}, {ends} versions: {'passed' if passed else 'FAILED'}")
    sys.exit(not all(results.values()))


if __name__ == "__main__":
    main()
