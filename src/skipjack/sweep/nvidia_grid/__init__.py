"""Sweeps with the command line, directories and table of NVIDIA's grid.py."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.sweep.nvidia_grid.request import GridOptions, GridRequest, dry_run, make_request

__all__ = [
    "GridOptions",
    "GridRequest",
    "dry_run",
    "make_request",
    "run",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "request": "GridOptions GridRequest dry_run make_request",
    },
)
