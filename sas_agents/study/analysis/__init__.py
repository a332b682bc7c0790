"""Intervals, tables, comparisons and figures of results."""
