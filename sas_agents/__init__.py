"""Agents for environments whose actions are not always available.

Still empty: SASPG, SASNPG and SASQ, add-ons to Stable-Baselines3, come next.
"""
