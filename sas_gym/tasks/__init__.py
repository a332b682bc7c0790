"""The tasks, one per file: a class's docstring is its environment's page."""
