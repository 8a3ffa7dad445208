"""Boxes of pixels: how a tile's pixels are spread over images, rows and columns."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

Box = tuple[int, int, int]
"""Images, rows, columns; each a power of two, as the copy engine and Triton want them."""
_LONGEST = 256
"""Of a side of a box that the copy engine brings at once."""


def ceil_div(a: int, b: int) -> int:
    """Rounded up."""
    return -(-a // b)


def count(sizes: tuple[int, int, int], box: Box) -> int:
    """Boxes that cover all pixels."""
    return prod(map(ceil_div, sizes, box))


def waste(sizes: tuple[int, int, int], box: Box) -> float:
    """Pixels of all boxes for each that there is."""
    return count(sizes, box) * prod(box) / prod(sizes)


def best_boxes(
    sizes: tuple[int, int, int], pixels: int, most: int, wide: bool = False
) -> list[Box]:
    """Boxes of so many pixels that waste least.

    `wide`: columns are written one after the other, so that short ones cost more.
    """
    narrow = 0.5 if wide else 0.02

    def cost(box: Box) -> tuple[float, Box]:
        return waste(sizes, box) * (1 + narrow / box[2]), box

    return sorted(_boxes(pixels), key=cost)[:most]


def _boxes(pixels: int) -> Iterator[Box]:
    columns = 1
    while columns <= min(pixels, _LONGEST):
        rows = 1
        while rows * columns <= pixels and rows <= _LONGEST:
            if pixels // (rows * columns) <= _LONGEST:
                yield pixels // (rows * columns), rows, columns
            rows *= 2
        columns *= 2


def text(box: Box) -> str:
    """As in a config: ``2x8x8``."""
    return "x".join(map(str, box))


def read(text_: str) -> Box:
    """The inverse of `text`."""
    images, rows, columns = map(int, text_.split("x"))
    return images, rows, columns
