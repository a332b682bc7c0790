"""A drawing of the recommender: the products by topic, and the user."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sas_gym._types import Floats, Ints, Mask
from sas_gym.rendering._draw import draw, draw_background
from sas_gym.rendering._style import (
    AVAILABLE,
    CROSS,
    CURRENT,
    DARK,
    MARKER,
    MEDIUM,
    PALE,
    UNAVAILABLE,
    Style,
    draw_legend,
    draw_lines,
    width_in_points,
    write,
    write_labels,
    write_summary,
    write_title,
)
from sas_gym.tasks._recommender import Recommender

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_TOPICS, MAX_COLUMNS = 15, 20
MIN_NUMBERED_PITCH, MAX_PITCH = 0.05, 0.08
"""Distance between cells from which on there is room for numbers, and the largest."""
# Where things lie in axes of width and height 1.
TOPICS_X, BARS_X, PRODUCTS_X = 0.02, 0.06, 0.27
BARS_WIDTH, PRODUCTS_WIDTH = 0.17, 0.73
HEADINGS_Y, TOP, BOTTOM, ATTENTION_Y = 0.97, 0.93, 0.11, 0.05
CONTRAST = 0.4
WHITE, DARKEST = np.ones(3), np.array([0.0, 0.45, 0.70])


class ProductGrid(NamedTuple):
    """The M products that are shown, one row per topic, and where they lie."""

    product: Ints
    """Number of each product, [M]."""
    points: Floats
    """Centre of each product's cell, [M, 2]."""
    topics: Ints
    """Topic of each row."""
    heights: Floats
    """Height of each row."""
    pitch: float
    """Distance between neighbours."""


@draw_background.register(Recommender)
def draw_recommender_background(recommender: Recommender, ax: "Axes") -> None:
    """Write the headings and the legend."""
    ax.set(xlim=(0, 1), ylim=(0, 1))
    write(ax, (TOPICS_X, HEADINGS_Y), "topic")
    write(ax, (BARS_X, HEADINGS_Y), "interest", ha="left")
    heading = "products, darker: worth more now"
    write(ax, (PRODUCTS_X, HEADINGS_Y), heading, ha="left")
    write_title(ax, recommender)
    cell: Style = {**MARKER, "marker": "s", "color": "white", "markersize": 2 * MEDIUM}
    draw_legend(
        ax,
        {
            "available": {**cell, "markeredgecolor": AVAILABLE},
            "unavailable": {**CROSS, "markersize": 2 * MEDIUM},
        },
    )


@draw.register(Recommender)
def draw_recommender(
    recommender: Recommender, ax: "Axes", state: Floats, mask: Mask
) -> None:
    """Draw a row of products per topic, shaded by what each is worth to the user."""
    grid = _product_grid(recommender, state)
    _draw_user(ax, recommender, grid, state)
    worth = recommender.expected_profit(state[None])[0, grid.product]
    # Profits are heavy-tailed: in proportion, all but a few would look worthless.
    shade = (worth / (recommender.profit.max() or 1.0)) ** CONTRAST
    _draw_products(ax, grid, shade, mask[grid.product])
    shown = len(grid.product)
    left_out = "" if shown == mask.size else f", best {shown} shown"
    write_summary(ax, f"{mask.sum()} of {mask.size} products available{left_out}")


def _product_grid(recommender: Recommender, state: Floats) -> ProductGrid:
    """Lay out the products by topic, in an order that lasts: the best first."""
    topics = np.sort(np.argsort(-state[:-1], kind="stable")[:MAX_TOPICS])
    order = np.lexsort((-recommender.appeal * recommender.profit, recommender.topic))
    topic = recommender.topic[order]
    column = np.arange(len(order)) - np.searchsorted(topic, topic)
    kept = (column < MAX_COLUMNS) & np.isin(topic, topics)
    width = PRODUCTS_WIDTH / (column[kept].max() + 1)
    height = (TOP - BOTTOM) / len(topics)
    heights = TOP - height * np.arange(0.5, len(topics))
    pitch = min(width, height, MAX_PITCH)
    x = PRODUCTS_X + pitch * (column[kept] + 0.5)
    y = heights[np.searchsorted(topics, topic[kept])]
    points = np.stack([x, y], axis=1)
    return ProductGrid(order[kept], points, topics, heights, float(pitch))


def _draw_user(
    ax: "Axes", recommender: Recommender, grid: ProductGrid, state: Floats
) -> None:
    """Draw the user's interests beside the products, and their attention below."""
    heights = np.append(grid.heights, ATTENTION_Y)
    shares = np.append(state[:-1][grid.topics], state[-1])
    thickness = 0.4 * grid.pitch * width_in_points(ax)
    start = np.stack([np.full_like(heights, BARS_X), heights], axis=1)
    for share, color in ((np.ones_like(shares), PALE), (shares, CURRENT)):
        end = start + BARS_WIDTH * np.stack([share, np.zeros_like(share)], axis=1)
        bars = np.stack([start, end], axis=1)
        draw_lines(ax, bars, {"color": color, "linewidth": thickness})
    topics = np.stack([np.full_like(grid.heights, TOPICS_X), grid.heights], axis=1)
    write_labels(ax, topics, map(str, grid.topics))
    total = recommender.num_recommendations
    left = round(float(state[-1]) * total)
    attention = f"attention: {left} of {total} recommendations left"
    write(ax, (PRODUCTS_X, ATTENTION_Y), attention, ha="left")


def _draw_products(ax: "Axes", grid: ProductGrid, shade: Floats, mask: Mask) -> None:
    """Draw one cell per product: shaded and numbered, or crossed if unavailable.

    Args:
        ax: Where to draw.
        grid: The M products and their places.
        shade: How dark each is from 0 to 1, if available, [M].
        mask: Which are available, [M].
    """
    size = 0.75 * grid.pitch * width_in_points(ax)
    # On a dark cell, a cross would differ from a number by its colour only.
    color = WHITE + (mask * shade)[:, None] * (DARKEST - WHITE)
    edge = np.where(mask, AVAILABLE, UNAVAILABLE).tolist()
    x, y = grid.points.T
    ax.scatter(x, y, size**2, color, marker="s", edgecolors=edge, linewidths=1.5)
    ax.plot(x[~mask], y[~mask], **CROSS | {"markersize": size, "mew": 1.2})
    if grid.pitch >= MIN_NUMBERED_PITCH:
        numbers = map(str, grid.product[mask])
        colors = np.where(shade[mask] > 0.5, "white", DARK).tolist()
        write_labels(ax, grid.points[mask], numbers, colors)
