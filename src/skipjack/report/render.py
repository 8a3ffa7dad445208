"""How records become tables for people and JSON for machines: one way for all commands."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from json import dumps
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from skipjack.json_formats import FORMATS
from skipjack.report import screen
from skipjack.report.escaping import escaped


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table."""

    title: str
    right: bool = False
    """Numbers stand at the right."""
    folded: bool = False
    """Long texts may go on in a second line."""


def table(
    columns: Iterable[TableColumn | str],
    rows: Iterable[Sequence[Text | str]],
    *,
    styles: Iterable[str] = (),
    framed: bool = False,
) -> Table:
    """The rows below the titles. A plain title is a column of words; nothing in them is markup.

    `styles` are those of the rows. What is `framed` has an empty line above and below it.
    """
    if framed:
        made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    else:
        made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for one in columns:
        column = one if isinstance(one, TableColumn) else TableColumn(one)
        made.add_column(
            Text(escaped(column.title)),
            justify="right" if column.right else "left",
            no_wrap=not column.folded,
        )
    for row, style in zip_longest(rows, styles):
        cells = (cell if isinstance(cell, Text) else Text(escaped(cell)) for cell in row)
        made.add_row(*cells, style=style)
    return made


def print_rows(
    columns: Iterable[TableColumn | str],
    rows: Iterable[Sequence[Text | str]],
    *,
    if_empty: str = "",
    framed: bool = False,
    console: Console | None = None,
) -> None:
    """A table, upright where the screen is narrow, or a sentence where there are no rows."""
    made = table(columns, rows, framed=framed)
    if made.rows or not if_empty:
        screen.print_table(made, console)
    else:
        say(if_empty, console)


def say(line: str, console: Console | None = None, style: str = "") -> None:
    """A line on standard output; nothing in it is markup."""
    (console or screen.out()).print(Text(line, style), soft_wrap=True)


def warn(sentence: str) -> None:
    """A line on standard error, for a person to know: what is waited for, left out or wrong."""
    print(f"skipjack: {sentence}", file=sys.stderr, flush=True)


def envelope(kind: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """What ``--json`` prints of a record of this kind: its fields with the version of its format.

    The kind is one of `skipjack.json_formats`. A payload that brings its own version keeps it:
    records that are also stored know theirs.
    """
    return {"format": FORMATS[kind], **payload}


def print_json(kind: str, payload: Mapping[str, Any]) -> None:
    """One line on standard output, at once."""
    print(dumps(envelope(kind, payload)), flush=True)
