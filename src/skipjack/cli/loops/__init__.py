"""Commands of ``skipjack loops``: loop nests as a game."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.cli.loops.commands import app

__all__ = [
    "app",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "commands": "app",
    },
)
