"""Programs and notebooks that show the packages in use."""
