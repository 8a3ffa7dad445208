"""Records that web pages, reports and the terminal show, of fleets, ledgers and banks."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.app.views.tables import (
        MOST_ROWS,
        RecordTable,
        TableRequest,
        Unit,
        ViewColumn,
        check_request,
        table_of,
    )

__all__ = [
    "MOST_ROWS",
    "RecordTable",
    "TableRequest",
    "Unit",
    "ViewColumn",
    "check_request",
    "table_of",
]

__getattr__, __dir__ = lazy(
    __name__,
    {"tables": "MOST_ROWS RecordTable TableRequest Unit ViewColumn check_request table_of"},
)
