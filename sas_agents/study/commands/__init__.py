"""The commands of `sas-study`."""
