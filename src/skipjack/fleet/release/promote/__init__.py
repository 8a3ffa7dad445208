"""Promotion: databases of a label merged into a directory of databases, and undone."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.fleet.release.promote.history import Promotion, Promotions, undo
    from skipjack.fleet.release.promote.promotion import (
        Promoted,
        PromotionRequest,
        parse_kinds,
        promote,
        release_of,
    )

__all__ = [
    "Promoted",
    "Promotion",
    "PromotionRequest",
    "Promotions",
    "parse_kinds",
    "promote",
    "release_of",
    "undo",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "history": "Promotion Promotions undo",
        "promotion": "Promoted PromotionRequest parse_kinds promote release_of",
    },
)
