"""Rankers: trained on ledgers to score candidates of problems that were never measured."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.learn.ranker.schedules import schedule_rows

__all__ = [
    "schedule_rows",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "schedules": "schedule_rows",
    },
)
