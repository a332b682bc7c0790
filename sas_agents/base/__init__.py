"""The part that all agents share: masks, checks, exploration and saving."""
