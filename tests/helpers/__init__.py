"""Tools of the tests; pyproject.toml names `helpers.check_shapes`."""

from helpers.shapes import check_shapes

__all__ = ["check_shapes"]
