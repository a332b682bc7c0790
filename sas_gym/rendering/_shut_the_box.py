"""A drawing of Shut the Box: the tiles, the dice and the moves that fit."""

from typing import TYPE_CHECKING

import numpy as np

from sas_gym._types import Floats, Ints, Mask
from sas_gym.rendering._draw import draw, draw_background, draw_outcome
from sas_gym.rendering._style import (
    AVAILABLE,
    DARK,
    GREY,
    LARGE,
    MARKER,
    MEDIUM,
    PALE,
    SMALL,
    Style,
    draw_legend,
    width_in_points,
    write,
    write_labels,
    write_summary,
    write_title,
)
from sas_gym.tasks._shut_the_box import CHOOSING, ONE_DIE, THROWS, ShutTheBox, bits

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Where things lie in axes of width and height 1.
TILES_TOP, TILES_PER_ROW, TILES_HEIGHT = 0.97, 10, 0.14
DICE_Y, DICE_X, DIE_WIDTH = 0.61, (0.4, 0.6), 0.15
MOVES_TOP, MOVES_BOTTOM = 0.46, 0.02
FEW_MOVES, FEW_COLUMNS, MANY_COLUMNS = 12, 3, 6
PIP = 0.27  # from the middle of a die, over its width
# The places of the pips on each face: left, middle and right columns from the top.
PIPS: dict[int, list[tuple[int, int]]] = {
    1: [(0, 0)],
    2: [(-1, 1), (1, -1)],
    3: [(-1, 1), (0, 0), (1, -1)],
    4: [(-1, 1), (1, 1), (-1, -1), (1, -1)],
    5: [(-1, 1), (1, 1), (0, 0), (-1, -1), (1, -1)],
    6: [(-1, 1), (-1, 0), (-1, -1), (1, 1), (1, 0), (1, -1)],
}
OPEN: Style = {**MARKER, "marker": "s", "color": AVAILABLE}
SHUT: Style = {**MARKER, "marker": "s", "color": "white", "markeredgecolor": PALE}


@draw_background.register(ShutTheBox)
def draw_shut_the_box_background(game: ShutTheBox, ax: "Axes") -> None:
    """Write the title, the heading of the moves and the legend."""
    ax.set(xlim=(0, 1), ylim=(0, 1))
    write_title(ax, game)
    draw_legend(
        ax,
        {
            "open tile": {**OPEN, "markersize": 2 * MEDIUM},
            "shut tile": {**SHUT, "markersize": 2 * MEDIUM},
        },
    )


@draw.register(ShutTheBox)
def draw_shut_the_box(game: ShutTheBox, ax: "Axes", state: int, mask: Mask) -> None:
    """Draw the tiles, and write the moves that are available."""
    _draw_tiles(ax, game, int(state) & game.all_open)
    names = game.action_names
    _write_moves(ax, [names[move] for move in np.flatnonzero(mask).tolist()])
    write_summary(ax, f"{mask.sum()} of {mask.size} moves available")


@draw_outcome.register(ShutTheBox)
def draw_dice(game: ShutTheBox, ax: "Axes", state: int, outcome: int) -> None:
    """Draw the dice that were thrown, if any were."""
    (phase,) = game.phase(np.array([int(state)]))
    if phase == CHOOSING:
        write(ax, (0.5, DICE_Y), "one die or two?", fontsize=LARGE)
        return
    faces = THROWS[outcome][:1] if phase == ONE_DIE else THROWS[outcome]
    middles = [0.5] if len(faces) == 1 else DICE_X
    for middle, face in zip(middles, faces.tolist(), strict=True):
        _draw_die(ax, middle, face)


def _draw_tiles(ax: "Axes", game: ShutTheBox, tiles: int) -> None:
    """Draw one square per tile: filled if open, else pale and hollow."""
    numbers = np.arange(game.num_tiles)
    row, column = np.divmod(numbers, TILES_PER_ROW)
    per_row = min(game.num_tiles, TILES_PER_ROW)
    pitch = 1 / TILES_PER_ROW
    x = 0.5 + (column - (per_row - 1) / 2) * pitch
    y = TILES_TOP - TILES_HEIGHT * (row + 0.5)
    size = 0.8 * pitch * width_in_points(ax)
    is_open = np.isin(numbers + 1, bits(tiles))
    ax.plot(x[is_open], y[is_open], **OPEN, markersize=size)
    ax.plot(x[~is_open], y[~is_open], **SHUT, markersize=size)
    colors = np.where(is_open, "white", GREY).tolist()
    names = map(str, (numbers + 1).tolist())
    write_labels(ax, np.stack([x, y], axis=1), names, colors, LARGE)


def _draw_die(ax: "Axes", middle: float, face: int) -> None:
    size = DIE_WIDTH * width_in_points(ax)
    ax.plot(middle, DICE_Y, **SHUT | {"markeredgecolor": DARK, "markersize": size})
    x, y = np.array(PIPS[face]).T * PIP * DIE_WIDTH
    ax.plot(middle + x, DICE_Y + y, **MARKER, marker="o", color=DARK, markersize=7)


def _write_moves(ax: "Axes", names: list[str]) -> None:
    """Write the names of moves in columns, smaller if there are many."""
    is_few = len(names) <= FEW_MOVES
    columns = min(FEW_COLUMNS if is_few else MANY_COLUMNS, max(len(names), 1))
    points = _grid(len(names), columns)
    size = LARGE - 1 if is_few else SMALL - 1
    labels = names if is_few else [name.replace(" ", "") for name in names]
    write_labels(ax, points, labels, AVAILABLE, size)


def _grid(count: int, columns: int) -> Floats:
    """Return the centres of the cells of a grid with so many columns."""
    place: Ints = np.arange(count)
    row, column = np.divmod(place, columns)
    num_rows = max(-(-count // columns), 4)
    height = (MOVES_TOP - MOVES_BOTTOM) / num_rows
    x = (column + 0.5) / columns
    return np.stack([x, MOVES_TOP - (row + 0.5) * height], axis=1)
