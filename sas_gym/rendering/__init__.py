"""Pictures of tasks: what the state is, and which actions are available now.

A task of one's own is drawn as text and cells until it registers a drawing:

    @draw.register(Corridor)
    def draw_corridor(corridor, ax, state, mask):
        ax.plot(state, 0, "o")

What is the same in all its pictures may be registered with `draw_background`, and is
then drawn only once. Importing this does not load matplotlib: the first frame does.
"""

from sas_gym.rendering import (  # noqa: F401  # they register their drawings
    _bay_area,
    _maze,
    _recommender,
    _routing,
    _shut_the_box,
)
from sas_gym.rendering._draw import draw, draw_background, draw_outcome
from sas_gym.rendering._frame import Frame, Story, frame

__all__ = ["Frame", "Story", "draw", "draw_background", "draw_outcome", "frame"]
