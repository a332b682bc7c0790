"""A drawing of the San Francisco map: any road graph's, with the bridge named."""

from typing import TYPE_CHECKING

import numpy as np

from sas_gym.action_sets import Mask
from sas_gym.rendering._draw import draw
from sas_gym.rendering._routing import draw_routing
from sas_gym.rendering._style import GREY, write
from sas_gym.tasks._san_francisco import BRIDGE, POSITIONS, SanFrancisco

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ABOVE = np.array([0.03, 0.03])


@draw.register(SanFrancisco)
def draw_san_francisco(
    san_francisco: SanFrancisco, ax: "Axes", state: int, mask: Mask
) -> None:
    """Draw the map as a road graph, and write the bridge's name along it."""
    draw_routing(san_francisco, ax, state, mask)
    start, end = np.array(POSITIONS)[list(BRIDGE)]
    middle = (start + end) / 2
    slope = np.degrees(np.arctan2(*(end - start)[::-1]))
    write(ax, middle + ABOVE, "bridge", rotation=slope, color=GREY, fontstyle="italic")
