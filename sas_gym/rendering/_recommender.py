"""A drawing of the recommender: the shelves of the shop, and the user."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sas_gym.action_sets import Floats, Ints, Mask
from sas_gym.rendering._draw import draw
from sas_gym.rendering._style import (
    AVAILABLE,
    CROSS,
    HERE,
    INK,
    MARKER,
    MEDIUM,
    PALE,
    UNAVAILABLE,
    Style,
    caption,
    legend,
    segments,
    width_in_points,
    write,
)
from sas_gym.tasks._recommender import Recommender

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_TOPICS, MOST_COLUMNS = 15, 20
NUMBERED_PITCH, WIDEST_PITCH = 0.05, 0.08
"""Distance between cells from which on there is room for numbers, and the greatest."""
# Where things lie in axes of width and height 1.
TOPICS_AT, BARS_AT, SHELVES_AT = 0.02, 0.06, 0.27
BARS_WIDTH, SHELVES_WIDTH = 0.17, 0.73
HEADINGS_AT, TOP, BOTTOM, ATTENTION_AT = 0.97, 0.93, 0.11, 0.05
CONTRAST = 0.4
WHITE, DARKEST = np.ones(3), np.array([0.0, 0.45, 0.70])


class Shelves(NamedTuple):
    """The products that are shown, M of them, and where."""

    product: Ints
    """Number of each product, [M]."""
    x: Floats
    y: Floats
    topics: Ints
    """Topic of each shelf."""
    heights: Floats
    """Height at which each shelf hangs."""
    pitch: float
    """Distance between neighbours."""


@draw.register(Recommender)
def draw_recommender(
    recommender: Recommender, ax: "Axes", state: Floats, mask: Mask
) -> None:
    """Draw a shelf a topic, shaded by what each product is worth to the user now."""
    ax.set(xlim=(0, 1), ylim=(0, 1))
    shelves = _stock_shelves(recommender, state)
    _draw_user(ax, recommender, shelves, state)
    worth = recommender.expected_profit(state[None])[0, shelves.product]
    # Profits are heavy-tailed: in proportion, all but a few would look worthless.
    shade = (worth / (recommender.profit.max() or 1.0)) ** CONTRAST
    _draw_products(ax, shelves, shade, mask[shelves.product])
    shown = len(shelves.product)
    left_out = "" if shown == mask.size else f", best {shown} shown"
    caption(ax, recommender, f"{mask.sum()} of {mask.size} products in stock{left_out}")


def _stock_shelves(recommender: Recommender, state: Floats) -> Shelves:
    """Put the products on a shelf a topic, in an order that lasts: the best first."""
    topics = np.sort(np.argsort(-state[:-1], kind="stable")[:MOST_TOPICS])
    order = np.lexsort((-recommender.appeal * recommender.profit, recommender.topic))
    topic = recommender.topic[order]
    column = np.arange(len(order)) - np.searchsorted(topic, topic)
    kept = (column < MOST_COLUMNS) & np.isin(topic, topics)
    width = SHELVES_WIDTH / (column[kept].max() + 1)
    height = (TOP - BOTTOM) / len(topics)
    heights = TOP - height * np.arange(0.5, len(topics))
    pitch = min(width, height, WIDEST_PITCH)
    x = SHELVES_AT + pitch * (column[kept] + 0.5)
    y = heights[np.searchsorted(topics, topic[kept])]
    return Shelves(order[kept], x, y, topics, heights, float(pitch))


def _draw_user(
    ax: "Axes", recommender: Recommender, shelves: Shelves, state: Floats
) -> None:
    """Draw the user's interests beside the shelves, and their attention below."""
    heights = np.append(shelves.heights, ATTENTION_AT)
    shares = np.append(state[:-1][shelves.topics], state[-1])
    thickness = 0.4 * shelves.pitch * width_in_points(ax)
    start = np.stack([np.full_like(heights, BARS_AT), heights], axis=1)
    for filled, colour in ((np.ones_like(shares), PALE), (shares, HERE)):
        end = start + BARS_WIDTH * np.stack([filled, np.zeros_like(filled)], axis=1)
        bars = segments(start, end).T
        ax.plot(*bars, color=colour, linewidth=thickness, solid_capstyle="butt")
    for topic, height in zip(shelves.topics, shelves.heights, strict=True):
        write(ax, (TOPICS_AT, height), str(topic))
    total = recommender.num_recommendations
    left = round(float(state[-1]) * total)
    write(ax, (TOPICS_AT, HEADINGS_AT), "topic")
    beginning: Style = {"ha": "left"}
    write(ax, (BARS_AT, HEADINGS_AT), "interest", **beginning)
    write(
        ax, (SHELVES_AT, HEADINGS_AT), "products, darker: worth more now", **beginning
    )
    attention = f"attention: {left} of {total} recommendations left"
    write(ax, (SHELVES_AT, ATTENTION_AT), attention, **beginning)


def _draw_products(ax: "Axes", shelves: Shelves, shade: Floats, mask: Mask) -> None:
    """Draw one cell a product, numbered or, if it is sold out, crossed.

    Args:
        ax: Where to draw.
        shelves: The M products and their places.
        shade: How dark each is from 0 to 1, [M].
        mask: Which are available, [M].
    """
    x, y = shelves.x, shelves.y
    size = 0.75 * shelves.pitch * width_in_points(ax)
    colour = WHITE + shade[:, None] * (DARKEST - WHITE)
    edge = np.where(mask, AVAILABLE, UNAVAILABLE).tolist()
    ax.scatter(x, y, size**2, colour, marker="s", edgecolors=edge, linewidths=1.5)
    cross: Style = {**CROSS, "linestyle": "none"}
    ax.plot(x[~mask], y[~mask], **cross | {"markersize": size, "mew": 1.2})
    if shelves.pitch >= NUMBERED_PITCH:
        for i in np.flatnonzero(mask):
            ink = "white" if shade[i] > 0.5 else INK
            write(ax, (x[i], y[i]), str(shelves.product[i]), color=ink)
    box: Style = {**MARKER, "marker": "s", "color": "white", "markersize": 2 * MEDIUM}
    legend(
        ax,
        {
            "available": {**box, "markeredgecolor": AVAILABLE},
            "unavailable": {**cross, "markersize": 2 * MEDIUM},
        },
    )
