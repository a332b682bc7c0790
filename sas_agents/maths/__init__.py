"""Pure functions of arrays: operations on masked values, and estimators."""
