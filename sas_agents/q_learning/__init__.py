"""SASQ and its policies."""
