"""Agents on masked problems: the problems, the runs, and their tables."""
