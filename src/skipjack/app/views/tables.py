"""Tables of records, a page of rows at a time: for web pages, reports, CSV files, the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar, overload

from skipjack.errors import UsageError

Key = TypeVar("Key", int, str)
Row = TypeVar("Row")
Value = str | int | float | bool | None
Unit = Literal["", "ns", "s", "bytes", "time", "share", "count", "ratio"]
"""How a number is written: ``time`` is seconds since 1970, ``share`` is shown in percent."""

MOST_ROWS = 1_000
"""The largest page."""
MOST_PAGES = 10**9
"""Larger numbers of rows to leave out are refused by databases."""


@dataclass(frozen=True)
class ViewColumn(Generic[Row]):
    """A column of a table."""

    name: str
    """As in links, CSV files and JSON: ``best_ns``."""
    title: str
    """As people read it."""
    value: Callable[[Row], Value]
    unit: Unit = ""
    sortable: bool = True
    filterable: bool = False
    link: Callable[[Row], str | None] = lambda _: None
    """The path of the page about the value, such as ``/jobs/17``."""


@dataclass(frozen=True, slots=True)
class TableRequest:
    """Which rows of a table, in which order."""

    sort: str = ""
    """The name of a column; empty for the table's own order."""
    descending: bool = False
    filters: Mapping[str, str] = field(default_factory=dict)
    """By column: the text that a value contains, or is, as the table says."""
    page: int = 1
    size: int = 50
    whole: bool = False
    """All rows instead of a page: for files."""

    def __post_init__(self) -> None:
        if not 1 <= self.page <= MOST_PAGES:
            raise UsageError(
                f"page {self.page} does not exist; the first page is 1, the last {MOST_PAGES}"
            )
        if not 1 <= self.size <= MOST_ROWS:
            raise UsageError(f"a page has 1 to {MOST_ROWS} rows, not {self.size}")

    @property
    def offset(self) -> int:
        """How many rows are before the page."""
        return (self.page - 1) * self.size


class RowsByKey(Sequence[Row]):
    """All rows of a table of a database: their keys in order, and a function that reads rows.

    A row is neither repeated nor left out when others are added while it is read; rows that were
    deleted meanwhile are missing in slices.
    """

    def __init__(self, keys: Sequence[Key], read: Callable[[Sequence[Key]], Sequence[Row]]) -> None:
        self._keys: Sequence[Any] = keys
        self._read: Callable[[Any], Sequence[Row]] = read

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, at: int) -> Row: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Row]: ...

    def __getitem__(self, at: int | slice) -> Row | Sequence[Row]:
        if isinstance(at, slice):
            return self._read(self._keys[at])
        return self._read([self._keys[at]])[0]


@dataclass(frozen=True)
class RecordTable(Generic[Row]):
    """Rows of one page, and how many there are in all."""

    name: str
    """What the rows are, in the plural: ``jobs``."""
    columns: Sequence[ViewColumn[Row]]
    rows: Sequence[Row]
    total: int
    request: TableRequest = field(default_factory=TableRequest)

    @property
    def pages(self) -> int:
        """The number of pages, at least one."""
        if self.request.whole:
            return 1
        return max(1, -(-self.total // self.request.size))


def check_request(request: TableRequest, columns: Sequence[ViewColumn[Row]]) -> None:
    """Raise `UsageError` if the request names a column that cannot be sorted or filtered by."""
    sortable = [one.name for one in columns if one.sortable]
    if request.sort and request.sort not in sortable:
        raise UsageError(f"cannot sort by {request.sort!r}; choose one of {', '.join(sortable)}")
    filterable = [one.name for one in columns if one.filterable]
    for name in request.filters:
        if name not in filterable:
            known = ", ".join(filterable) or "none"
            raise UsageError(f"cannot filter by {name!r}; columns with a filter: {known}")


def table_of(
    name: str, columns: Sequence[ViewColumn[Row]], rows: Sequence[Row], request: TableRequest
) -> RecordTable[Row]:
    """A page of rows that are all in memory: filtered, sorted and cut here.

    Tables of databases do this in SQL.
    """
    check_request(request, columns)
    by_name = {one.name: one for one in columns}
    kept = [
        row
        for row in rows
        if all(
            wanted.lower() in _searched(by_name[column].value(row))
            for column, wanted in request.filters.items()
        )
    ]
    if request.sort:
        value = by_name[request.sort].value
        known = [row for row in kept if value(row) is not None]
        unknown = [row for row in kept if value(row) is None]
        known.sort(key=lambda row: _sort_key(value(row)), reverse=request.descending)
        kept = known + unknown
    page = kept if request.whole else kept[request.offset : request.offset + request.size]
    return RecordTable(name, columns, page, len(kept), request)


def _searched(value: Value) -> str:
    return "" if value is None else str(value).lower()


def _sort_key(value: Value) -> tuple[int, float, str]:
    if isinstance(value, bool | int | float):
        return 0, float(value), ""
    return 1, 0.0, str(value).lower()
