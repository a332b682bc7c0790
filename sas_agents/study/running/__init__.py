"""Training and evaluating runs, on cores or a cluster."""
