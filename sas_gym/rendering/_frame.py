"""One lane's state and action set as a picture."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sas_gym.action_sets import Mask
from sas_gym.rendering._dependencies import require
from sas_gym.rendering._draw import draw
from sas_gym.tasks._task import Task

Frame = NDArray[np.uint8]
"""A picture [H, W, 3] in red, green and blue."""

INCHES = (6.0, 6.0)
DOTS_PER_INCH = 100
# Left, bottom, width, height: a square with room for a title above and a legend below.
AXES = (0.06, 0.06, 0.88, 0.88)


def frame(task: Task, state: Any, mask: Mask) -> Frame:
    """Draw a state and its action set, always in the same size.

    Args:
        task: The task.
        state: The state of one lane.
        mask: Its action set, [A].
    """
    # A figure of its own, not pyplot's: no backend is chosen and nothing is kept.
    figure = require("matplotlib.figure").Figure(
        INCHES, DOTS_PER_INCH, facecolor="white"
    )
    canvas = require("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    draw(task, figure.add_axes(AXES), state, mask)
    canvas.draw()
    picture: Frame = np.asarray(canvas.buffer_rgba())[..., :3].copy()
    return picture
