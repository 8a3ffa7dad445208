"""Tables of pages: requests from addresses, links to other orders and pages, CSV files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from skipjack.app.views import (
    MOST_ROWS,
    RecordTable,
    TableRequest,
    Value,
    ViewColumn,
)
from skipjack.errors import UsageError
from skipjack.reading import whole_number
from skipjack.web.content import AnyTable, TableSection

_SORT, _DESCENDING, _PAGE, _ROWS, _COLUMNS = "sort", "desc", "page", "rows", "columns"
_ALL = "all"
CSV = "csv"
"""The parameter that asks for a table of the page as a file."""
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
_NEWEST_FIRST = {"time", "ratio", "share", "count"}
"""Units of columns that are sorted in descending order at first."""


def table_request(section: TableSection, query: Mapping[str, str]) -> TableRequest:
    """The part of a table that an address asks for."""
    own = _own(section, query)
    filters = {
        name: value.strip()
        for name, value in own.items()
        if name not in (_SORT, _DESCENDING, _PAGE, _ROWS, _COLUMNS, CSV) and value.strip()
    }
    return TableRequest(
        sort=own.get(_SORT, ""),
        descending=own.get(_DESCENDING, "") in ("1", "true"),
        filters=filters,
        page=_number(own.get(_PAGE), 1, "page"),
        size=_number(own.get(_ROWS), section.rows, "number of rows"),
    )


def _own(section: TableSection, query: Mapping[str, str]) -> dict[str, str]:
    if section.main:
        return {name: value for name, value in query.items() if "." not in name}
    return {
        name.removeprefix(section.prefix): value
        for name, value in query.items()
        if name.startswith(section.prefix)
    }


def _number(text: str | None, default: int, what: str) -> int:
    if not text:
        return default
    try:
        return whole_number(text)
    except ValueError:
        raise UsageError(f"{what} {text!r} is not a whole number") from None


@dataclass(frozen=True, slots=True)
class ColumnHead:
    """The head of a column."""

    column: ViewColumn[Any]
    sort_path: str
    """The page in this column's order; empty if it has none."""
    direction: str = ""
    """``ascending`` or ``descending`` if the table is in its order."""


@dataclass(frozen=True, slots=True)
class TableView:
    """A table with the links around it."""

    section: TableSection
    table: AnyTable
    path: str
    query: Mapping[str, str]

    @property
    def columns(self) -> list[ViewColumn[Any]]:
        """The columns that the page has."""
        shown = self.section.shown
        if not shown or self.shows_all:
            return list(self.table.columns)
        asked = self.table.request
        more = {*asked.filters, asked.sort}
        return [one for one in self.table.columns if one.name in shown or one.name in more]

    @property
    def shows_all(self) -> bool:
        """Whether columns were asked for that the page does not have by itself."""
        return self.query.get(self.name(_COLUMNS)) == _ALL

    @property
    def hidden(self) -> int:
        """The number of columns that the page does not have."""
        return len(self.table.columns) - len(self.columns)

    @property
    def columns_path(self) -> str:
        """The page with all columns, or without those that it does not have by itself."""
        return self._with(columns="" if self.shows_all else _ALL)

    @property
    def heads(self) -> list[ColumnHead]:
        """The heads of its columns."""
        return [self._head(column) for column in self.columns]

    def _head(self, column: ViewColumn[Any]) -> ColumnHead:
        if not column.sortable:
            return ColumnHead(column, "")
        asked = self.table.request
        mine = asked.sort == column.name
        descending = not asked.descending if mine else column.unit in _NEWEST_FIRST
        way = ("descending" if asked.descending else "ascending") if mine else ""
        path = self._with(sort=column.name, desc="1" if descending else "", page="")
        return ColumnHead(column, path, way)

    @property
    def filters(self) -> list[tuple[ViewColumn[Any], str]]:
        """Columns with a filter, and what each filter is now."""
        chosen = self.table.request.filters
        return [
            (column, chosen.get(column.name, "")) for column in self.columns if column.filterable
        ]

    @property
    def has_filter(self) -> bool:
        """Whether some rows are left out."""
        return bool(self.table.request.filters)

    @property
    def kept(self) -> list[tuple[str, str]]:
        """Parameters that a form for filters keeps."""
        mine = {self.name(one.name) for one, _ in self.filters}
        mine |= {self.name(_PAGE), CSV}
        return [(name, value) for name, value in self.query.items() if name not in mine]

    @property
    def unfiltered_path(self) -> str:
        """The page without filters of this table."""
        return self._with(**{one.name: "" for one, _ in self.filters}, page="")

    @property
    def csv_path(self) -> str:
        """The address of all rows as a CSV file."""
        return self._link({**self.query, CSV: self.section.id, self.name(_PAGE): ""})

    @property
    def previous_path(self) -> str:
        """The page before; empty on the first."""
        page = self.table.request.page
        return self._with(page=str(page - 1) if page > 2 else "") if page > 1 else ""

    @property
    def next_path(self) -> str:
        """The page after; empty on the last."""
        page = self.table.request.page
        return self._with(page=str(page + 1)) if page < self.table.pages else ""

    @property
    def first_row(self) -> int:
        """The number of the first row of the page."""
        return self.table.request.offset + 1

    @property
    def last_row(self) -> int:
        """The number of the last row of the page."""
        return self.table.request.offset + len(self.table.rows)

    def name(self, parameter: str) -> str:
        """The name of a parameter in addresses."""
        return f"{self.section.prefix}{parameter}"

    def _with(self, **changes: str) -> str:
        return self._link(
            {**self.query, **{self.name(name): value for name, value in changes.items()}}
        )

    def _link(self, query: Mapping[str, str]) -> str:
        given = {name: value for name, value in query.items() if value}
        return f"{self.path}?{urlencode(given)}" if given else self.path


def read_table(section: TableSection, path: str, query: Mapping[str, str]) -> TableView:
    """The rows that an address asks for; a page after the last one becomes the last one."""
    request = table_request(section, query)
    table = section.read(request)
    if request.page > table.pages:
        table = section.read(replace(request, page=table.pages))
    kept = {name: value for name, value in query.items() if name != CSV}
    return TableView(section, table, path, kept)


def csv_lines(section: TableSection, query: Mapping[str, str]) -> Iterator[str]:
    """All rows that an address asks for, as text of a CSV file, in parts."""
    table = section.read(replace(table_request(section, query), page=1, whole=True))
    yield _text([[column.name for column in table.columns]])
    for start in range(0, len(table.rows), MOST_ROWS):
        yield _text([_cells(table, row) for row in table.rows[start : start + MOST_ROWS]])


def _text(rows: list[list[str]]) -> str:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()


def _cells(table: RecordTable[Any], row: object) -> list[str]:
    return [_cell(column.value(row)) for column in table.columns]


def _cell(value: Value) -> str:
    """A value that spreadsheets do not take for a formula."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return f"'{value}" if value.startswith(_FORMULAS) else value
