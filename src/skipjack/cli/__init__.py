"""The ``skipjack`` command. A module has one command or one group of commands."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.cli.main import run

__all__ = [
    "run",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "main": "run",
    },
)
