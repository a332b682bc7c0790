"""Environments as Stable-Baselines3's `VecEnv`, with masks in the observations."""
