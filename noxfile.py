"""The suite with the lowest and the newest supported versions: `make versions`.

    nox                                        every combination
    nox -s lowest                              the lower ends of the ranges
    nox -s newest-3.12 -- tests/sas_gym -q     one Python, some tests
    nox -s files                               models saved and loaded across versions

Each combination has a virtual environment of its own. The lower ends of the ranges in
pyproject.toml are tried with the lowest Python, as newer ones have no builds of the
oldest packages. The versions with which the whole suite passed are kept in
`benchmarks/results/versions`. With pyenv, `PYENV_VERSION=3.11:3.12:3.13` shows nox the
interpreters.
"""

import os
import re
from pathlib import Path

import nox

ROOT = Path(__file__).parent
RESULTS = ROOT / "benchmarks" / "results" / "versions"
PROJECT = nox.project.load_toml(ROOT / "pyproject.toml")["project"]
LOWEST_PYTHON = PROJECT["requires-python"].removeprefix(">=")
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
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

# A package elsewhere would come before those of a session's environment.
OUTSIDE = {"PYTHONPATH": None}

nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = False


@nox.session(python=LOWEST_PYTHON)
def lowest(session: nox.Session) -> None:
    """Run the suite with the lower ends of the ranges."""
    run_suite(session, *lowest_versions())


@nox.session(python=PYTHONS)
def newest(session: nox.Session) -> None:
    """Run the suite with the newest versions."""
    run_suite(session, "--upgrade", *RANGED)


@nox.session(python=LOWEST_PYTHON)
def files(session: nox.Session) -> None:
    """Load models that the lowest versions have saved with the newest, and back."""
    program = "benchmarks/model_files.py"
    saved = Path(session.create_tmp())
    session.install(torch_build())
    session.install("--editable", ".[contrib]", *lowest_versions())
    session.run("python", program, "save", str(saved / "lowest"), env=OUTSIDE)
    session.install("--upgrade", *RANGED)
    session.run("python", program, "load", str(saved / "lowest"), env=OUTSIDE)
    session.run("python", program, "save", str(saved / "newest"), env=OUTSIDE)
    session.install(*lowest_versions())
    session.run("python", program, "load", str(saved / "newest"), env=OUTSIDE)


def torch_build() -> str:
    """Return the Makefile's build of torch; with `TORCH=torch` the newest."""
    pinned = re.search(r"torch==[\d.]+", (ROOT / "Makefile").read_text())
    assert pinned is not None
    return os.environ.get("TORCH", pinned[0])


def run_suite(session: nox.Session, *pins: str) -> None:
    """Install the project with some versions and run the tests."""
    session.install(torch_build())
    session.install("--editable", ".[dev]", *pins)
    session.run("pytest", "-q", "-n", "2", *session.posargs, env=OUTSIDE)
    if not session.posargs:
        keep_versions(session)


def keep_versions(session: nox.Session) -> None:
    """Write down the versions with which the whole suite has passed."""
    freeze = ["python", "-m", "pip", "list", "--format=freeze"]
    installed = str(session.run(*freeze, silent=True)).replace("_", "-").splitlines()
    kept = [line for line in installed if line.split("==")[0] in ("torch", *RANGED)]
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{session.name}.txt"
    path.write_text("\n".join([f"python=={session.python}", *kept]) + "\n")


def lowest_versions() -> list[str]:
    """Return a pin to the lower end of each range, by pip's compatible release."""
    extras = PROJECT["optional-dependencies"].values()
    ranges = [*PROJECT["dependencies"], *(line for lines in extras for line in lines)]
    pins = set()
    for line in ranges:
        found = re.fullmatch(r"([\w-]+)>=([\d.]+).*", line)
        if found and found[1] in RANGED:
            name, version = found.groups()
            # 2.8 means the 2.8 series: its first release may never have been built.
            # Below 1, where a series has no end, it means that release.
            series = ".".join([*version.split("."), "0"][:2]) + ".*"
            pins.add(f"{name}=={version if version[0] == '0' else series}")
    return sorted(pins)
