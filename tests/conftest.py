"""Settings of the whole suite."""

import os

# Before NumPy and torch load: small arrays run many times slower on more threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis

hypothesis.settings.register_profile("default", deadline=None, max_examples=50)
hypothesis.settings.load_profile("default")
