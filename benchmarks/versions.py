"""Run the suite with the lowest and the newest supported versions.

    python benchmarks/versions.py [--only lowest|newest] [--python 3.12] [--list]
                                        [pytest's arguments]

The lower ends of the ranges in pyproject.toml are tried with the lowest Python, as
newer ones have no builds of the oldest packages; the newest versions with every Python
from 3.11 on that this machine has. Each combination gets a virtual environment of its
own, which is thrown away afterwards. What became of each is kept in
`results/versions.txt`.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results" / "versions.txt"
LOWEST_MINOR, NEWEST_MINOR = 11, 15
# The packages whose ranges are tested. Not tools, nor torch, of which there is one
# build, nor matplotlib, whose old releases warn of the newest pyparsing.
RANGED = (
    "gymnasium",
    "jaxtyping",
    "joblib",
    "numpy",
    "optuna",
    "pandas",
    "sb3-contrib",
    "scipy",
    "stable-baselines3",
)


def pythons() -> list[str]:
    """Return one interpreter per minor version: from the path, or pyenv's."""
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    folders += sorted(pyenv.glob("versions/*/bin"))
    found = []
    for minor in range(LOWEST_MINOR, NEWEST_MINOR + 1):
        names = (str(folder / f"python3.{minor}") for folder in folders)
        found += list(filter(_runs, names))[:1]
    return found


def _runs(python: str) -> bool:
    """Return whether a file is a Python: pyenv's shims may stand for none."""
    if not Path(python).exists():
        return False
    command = [python, "-c", "import venv"]
    return not subprocess.run(command, capture_output=True, check=False).returncode


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
            # 2.8 means the 2.8 series: its first release may never have been built.
            # Below 1, where a series has no end, it means that release.
            series = ".".join([*version.split("."), "0"][:2]) + ".*"
            pins.append(f"{name}=={version if version[0] == '0' else series}")
    return sorted(set(pins))


def torch_pin() -> str:
    """Return the build of torch that the Makefile installs."""
    found = re.search(r"torch==[\d.]+", (ROOT / "Makefile").read_text())
    assert found is not None
    return found[0]


def run(python: str, ends: str, arguments: list[str]) -> bool:
    """Build an environment and run the suite in it; return whether it passed."""
    with tempfile.TemporaryDirectory(prefix="sas_gym_versions_") as folder:
        inside = [f"{folder}/bin/python", "-m"]
        pip = [*inside, "pip", "install", "--quiet"]
        pins = lowest_versions() if ends == "lowest" else ["--upgrade", *RANGED]
        commands = [
            [python, "-m", "venv", folder],
            [*pip, "--upgrade", "pip"],
            [*pip, torch_pin()],
            [*pip, "--editable", f"{ROOT}[dev]", *pins],
        ]
        name = f"Python {version(python)}, {ends} versions"
        if arguments:
            name += f" (pytest {' '.join(arguments)})"
        if not all(_output(command)[0] for command in commands):
            keep(name, "could not be installed", "")
            return False
        installed = _output([*inside, "pip", "freeze"])[1]
        passed, text = _output([*inside, "pytest", "-q", "-n", "2", *arguments])
        keep(name, text.strip().splitlines()[-1].strip("= "), installed)
        return passed


def _output(command: list[str]) -> tuple[bool, str]:
    """Run a command and show what it prints; return whether it succeeded, and that."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=_alone(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line)
    return process.wait() == 0, "".join(lines)


def version(python: str) -> str:
    """Return the version of an interpreter."""
    return _output([python, "-V"])[1].split()[-1]


def keep(name: str, outcome: str, installed: str) -> None:
    """Write what became of a combination, beside what is known of the others."""
    kept = RESULTS.read_text().strip().split("\n\n") if RESULTS.exists() else []
    lines = installed.replace("_", "-").splitlines()
    found = [line for line in lines if line.split("==")[0] in ("torch", *RANGED)]
    part = "\n".join([f"{name}: {outcome}", *(f"  {line}" for line in found)])
    others = [each for each in kept if each.split(":")[0] != name]
    RESULTS.write_text("\n\n".join(sorted([*others, part])) + "\n")


def _alone() -> dict[str, str]:
    """Return an environment in which nothing installed elsewhere is found."""
    dropped = {"PYTHONPATH", "VIRTUAL_ENV"}
    return {key: value for key, value in os.environ.items() if key not in dropped}


def main() -> None:
    """Print one line per combination, and fail if any failed."""
    parser = argparse.ArgumentParser(description="Run the suite with other versions.")
    parser.add_argument("--only", choices=["lowest", "newest"])
    parser.add_argument("--python", help="only this version, such as 3.12")
    parser.add_argument("--list", action="store_true", help="print the combinations")
    given, arguments = parser.parse_known_args()
    found = pythons()
    combinations = [(found[0], "lowest"), *((python, "newest") for python in found)]
    results = {}
    for python, ends in combinations:
        is_other = given.python and not python.endswith(f"python{given.python}")
        if given.only not in (None, ends) or is_other:
            continue
        if given.list:
            pins = lowest_versions() if ends == "lowest" else RANGED
            print(f"{python}, {ends}: {torch_pin()} {' '.join(pins)}")
            continue
        results[python, ends] = run(python, ends, arguments)
    for (python, ends), passed in results.items():
        print(f"{python}, {ends} versions: {'passed' if passed else 'FAILED'}")
    sys.exit(not all(results.values()))


if __name__ == "__main__":
    main()
