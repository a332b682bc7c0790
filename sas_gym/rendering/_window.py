"""A window on the screen for the render mode `human`."""

import os
import sys
from contextlib import suppress
from typing import Any

from sas_gym.rendering._dependencies import require
from sas_gym.rendering._frame import Frame

DRIVER = "SDL_VIDEODRIVER"
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")
UNSEEN_DRIVERS = ("dummy", "offscreen")


class Window:
    """A pygame window that shows one frame after the other.

    Where there is no display (a server, a container, a continuous integration job) the
    frames go to SDL's `dummy` driver: nothing is seen, nothing is printed, and no time
    is spent on holding the frame rate. The environment variable `SDL_VIDEODRIVER`, if
    set, is obeyed. pygame has one window a process: environments in the mode `human`
    share it.

    Args:
        title: What the title bar says.
        fps: Frames a second at which `show` holds the caller.
    """

    def __init__(self, title: str, fps: float) -> None:
        self.title = title
        self.fps = fps
        self._pygame = require("pygame")
        self._clock = self._pygame.time.Clock()

    def show(self, frame: Frame) -> None:
        """Show a frame, and wait until it is time for the next one."""
        pygame = self._pygame
        columns_first = frame.swapaxes(0, 1)
        screen = self._screen(columns_first.shape[:2])
        pygame.surfarray.blit_array(screen, columns_first)
        pygame.event.pump()
        pygame.display.flip()
        if pygame.display.get_driver() not in UNSEEN_DRIVERS:
            self._clock.tick(self.fps)

    def close(self) -> None:
        """Close the window; a further `show` opens it again."""
        self._pygame.display.quit()

    def _screen(self, size: tuple[int, ...]) -> Any:
        """Return the window's surface; open the window if it is not open."""
        display = self._pygame.display
        screen = display.get_surface()
        if screen is None or screen.get_size() != size:
            _start(self._pygame)
            screen = display.set_mode(size)
            display.set_caption(self.title)
        return screen


def _start(pygame: Any) -> None:
    """Start the display, SDL's dummy one if there is no other."""
    if DRIVER in os.environ:
        pygame.display.init()
        return
    # SDL complains aloud if it looks for a display where Linux has none: do not ask it.
    linux = sys.platform.startswith("linux")
    if not linux or any(map(os.environ.get, DISPLAYS)):
        with suppress(pygame.error):
            pygame.display.init()
            return
    os.environ[DRIVER] = "dummy"
    try:
        pygame.display.init()
    finally:
        del os.environ[DRIVER]
