"""Direct convolutions as loop nests.

`nests` describes the loops for each direction, `arrays` copies images and filters into the layout
that the loops read, `schedules` chooses register tiles and the order of loops, and `solver` puts
copies and nests together as the stages of a kernel.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.solvers.cpu.conv.direct.arrays import ArrayContext, PlacedArray, write_pixels

__all__ = [
    "ArrayContext",
    "PlacedArray",
    "write_pixels",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "arrays": "ArrayContext PlacedArray write_pixels",
    },
)
