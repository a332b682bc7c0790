"""The definition of a study: environments, algorithms, settings, runs."""
