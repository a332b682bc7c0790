"""A state and its action set as an array of pixels."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium.error import DependencyNotInstalled
from numpy.typing import NDArray

from sas_gym._types import Mask
from sas_gym.rendering._draw import draw, draw_background, draw_outcome
from sas_gym.rendering._once_per_task import OncePerTask
from sas_gym.rendering._style import write_footer
from sas_gym.tasks._task import Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Frame = NDArray[np.uint8]
"""A picture [H, W, 3] in red, green and blue."""

Canvas = Any
"""A `FigureCanvasAgg`, whose methods matplotlib leaves untyped."""

INCHES = (6.0, 6.0)
DOTS_PER_INCH = 100
# Left, bottom, width, height: a square with room for a title above and a legend below.
AXES = (0.06, 0.06, 0.88, 0.88)


class Background(NamedTuple):
    """The part that all frames of a task share, drawn once."""

    pixels: Any
    """A matplotlib `BufferRegion`."""
    view: dict[str, Any]
    """The limits and the aspect of its axes."""


class Story(NamedTuple):
    """The last action, the return so far and the outcome behind a picture."""

    total: float
    """Return of the episode so far."""
    last_action: str | None = None
    """Name of the last action, if the episode has had one."""
    outcome: int | None = None
    """Number of the outcome that decided the action set, if one did."""

    def __str__(self) -> str:
        last = "" if self.last_action is None else f"last action: {self.last_action}, "
        return f"{last}return so far: {self.total:.6g}"


def frame(task: Task, state: Any, mask: Mask, story: Story | None = None) -> Frame:
    """Draw a state and its action set, always in the same size.

    Args:
        task: The task.
        state: The state of one environment.
        mask: Its action set, [A].
        story: The last action, the return so far and the outcome, if known.
    """
    background = _background(task)
    canvas, ax = _empty_axes()
    canvas.figure.set_facecolor("none")
    ax.set(facecolor="none", **background.view)
    draw(task, ax, state, mask)
    if story is not None:
        write_footer(ax, str(story))
        if story.outcome is not None:
            draw_outcome(task, ax, state, story.outcome)
    renderer = canvas.get_renderer()
    canvas.restore_region(background.pixels)
    canvas.figure.draw(renderer)
    pixels = np.asarray(canvas.buffer_rgba())
    # Channel by channel: seven times as fast as a copy of `pixels[..., :3]`.
    return np.stack([pixels[..., channel] for channel in range(3)], axis=-1)


@OncePerTask
def _background(task: Task) -> Background:
    """Draw the background of a task."""
    canvas, ax = _empty_axes()
    draw_background(task, ax)
    canvas.draw()
    view = {name: getattr(ax, f"get_{name}")() for name in ("xlim", "ylim")}
    view["aspect"] = ax.get_aspect()
    return Background(canvas.copy_from_bbox(canvas.figure.bbox), view)


def _empty_axes() -> "tuple[Canvas, Axes]":
    """Return new axes and the canvas they lie on.

    Raises:
        DependencyNotInstalled: If there is no matplotlib.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise DependencyNotInstalled(
            'rendering needs matplotlib: run `pip install "sas-gym[render]"`'
        ) from error
    # A figure of its own, not pyplot's: no backend is chosen and nothing is kept.
    figure = Figure(INCHES, DOTS_PER_INCH, facecolor="white")
    return FigureCanvasAgg(figure), figure.add_axes(AXES)
