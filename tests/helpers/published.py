"""Numbers that are in print: the tests of tasks and of planners both refer to them."""

SAN_FRANCISCO_OPTIMA = {0.2: 3.967, 0.4: 7.567, 0.6: 9.047, 0.8: 9.432, 1.0: 9.596}
"""Optimal mean return by availability, undiscounted, within 30 steps."""

SAN_FRANCISCO_RANDOM = 0.341
"""Mean return of the random policy, at each of these availabilities."""

BAY_AREA_COSTS = {
    1: (11.3, 11.3),
    0.8: (12.5, 12.5),
    0.4: (18.8, 18.8),
    0.2: (31.3, 31.3),
    0.1: (56.3, 56.3),
    0.05: (68.8, 106.3),
    0.02: (72.8, 256.3),
    0.01: (74.1, 506.3),
}
"""Kilometres from the San Francisco end of the bridge, by the bridge's availability.

Those of the optimal policy and of one planned as if everything were available, with all
other links open half of the time.
"""

BAY_AREA_START = 9
"""The San Francisco end of the bridge."""
