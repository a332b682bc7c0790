"""SASPG and SASNPG: rollouts, critics, scores and policies."""
