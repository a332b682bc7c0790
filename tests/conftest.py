"""Settings of the whole suite."""

import os

# Before NumPy and torch load: small arrays run many times slower on more threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import pytest

hypothesis.settings.register_profile("default", deadline=None, max_examples=50)
# For `benchmarks/mutants.py`, where a failure is enough, and need not be simple.
hypothesis.settings.register_profile(
    "mutants",
    hypothesis.settings.get_profile("default"),
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)
hypothesis.settings.load_profile("default")

# These train for long; measuring coverage would add 60 % to their time, and other tests
# run the same lines.
WITHOUT_COVERAGE = {"test_gradient", "test_learning"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Switch coverage off in the slowest tests."""
    for item in items:
        if item.path.stem in WITHOUT_COVERAGE:
            item.add_marker(pytest.mark.no_cover)
