"""Approximate optima of the tasks that have no exact one: maze and recommender."""
