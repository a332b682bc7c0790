"""The two drivers of a task: a Gymnasium environment and a vector environment."""
