"""The checker for environments with masks, and its report."""
