"""Pictures of tasks: what the state is, and which actions are available now.

A task of one's own is drawn as text and cells until it registers a drawing:

    @draw.register(Corridor)
    def draw_corridor(corridor, ax, state, mask):
        ax.plot(state, 0, "o")

Importing this loads neither matplotlib nor pygame: the first frame and the first window
do.
"""

from sas_gym.rendering._bay_area import draw_bay_area
from sas_gym.rendering._draw import draw
from sas_gym.rendering._frame import frame
from sas_gym.rendering._maze import draw_maze
from sas_gym.rendering._recommender import draw_recommender
from sas_gym.rendering._routing import draw_routing
from sas_gym.rendering._san_francisco import draw_san_francisco
from sas_gym.rendering._theta_two_theta import draw_theta_two_theta
from sas_gym.rendering._window import Window

__all__ = [
    "Window",
    "draw",
    "draw_bay_area",
    "draw_maze",
    "draw_recommender",
    "draw_routing",
    "draw_san_francisco",
    "draw_theta_two_theta",
    "frame",
]
