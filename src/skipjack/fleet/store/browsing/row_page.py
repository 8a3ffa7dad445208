"""Which rows of a large table are wanted, in which order: the part that is the same for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Select

from skipjack.errors import UsageError


@dataclass(frozen=True, slots=True)
class RowPage:
    """A page of rows; names of columns are those of the table that is read."""

    sort: str = ""
    """Empty for the table's own order."""
    descending: bool = False
    filters: Mapping[str, str] = field(default_factory=dict)
    """Wanted values by column; how they are compared depends on the column."""
    offset: int = 0
    limit: int | None = 50
    """None: all rows, without the offset."""


def contains(column: ColumnElement[Any], text: str) -> ColumnElement[bool]:
    """Condition that a text has this part, in any case."""
    return column.icontains(text, autoescape=True)


def ordered(
    query: Select[Any], page: RowPage, by: Mapping[str, ColumnElement[Any]], id: ColumnElement[int]
) -> Select[Any]:
    """The query in the page's order, and cut to it; ties are in the order of their ids.

    Missing values are last in both directions.
    """
    if page.sort and page.sort not in by:
        raise UsageError(f"cannot sort by {page.sort!r}; choose one of {', '.join(by)}")
    order: list[ColumnElement[Any]] = []
    if page.sort and page.sort != "id":
        key = by[page.sort]
        order = [key.is_(None), key.desc() if page.descending else key.asc()]
    down = page.descending if page.sort else True
    order.append(id.desc() if down else id.asc())
    cut = query.order_by(*order)
    return cut if page.limit is None else cut.limit(page.limit).offset(page.offset)
