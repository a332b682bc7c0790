"""The algorithms of Stable-Baselines3 and sb3-contrib, with masks."""
