"""The tasks: batched models of problems, which environments drive."""
