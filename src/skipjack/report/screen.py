"""The screen: consoles, tables for people, and one envelope of JSON for machines."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from json import dumps
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import StyleType
from rich.table import Table
from rich.text import Text

from skipjack.json_formats import FORMATS
from skipjack.report.escaping import escaped, unescaped_stream

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn
    from rich.table import Column, Table


# The screen: one console for results, and one for progress.

_WIDE = 240
_GAP = "   "
_LEAST_FOLDED = 40
"""Least width of a wrapped column of long texts in a table."""
_LEAST_VALUE = 20
_UNBOUNDED = 1_000_000


class _Screen(Console):
    """A console that escapes all texts, so that only its own control codes take effect."""

    def render_str(self, text: str, **how: Any) -> Text:
        """Escape before measuring, so that cells are as wide as what is shown."""
        return super().render_str(escaped(text), **how)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render texts and styles, with all texts escaped."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(escaped(segment.text), segment.style)


def out() -> Console:
    """Standard output; wide if it is not a terminal, so that tables in files are not wrapped."""
    width = None if sys.stdout.isatty() else max(_WIDE, shutil.get_terminal_size().columns)
    return _Screen(width=width, highlight=False, emoji=False, file=unescaped_stream(sys.stdout))


def err() -> Console:
    """Standard error."""
    return _Screen(stderr=True, highlight=False, emoji=False, file=unescaped_stream(sys.stderr))


def live_bars(console: Console, *columns: ProgressColumn) -> Progress:
    """Progress bars with the elapsed time, which vanish at the end."""
    from rich.progress import Progress, TimeElapsedColumn  # not needed for tables

    return Progress(*columns, TimeElapsedColumn(), console=console, transient=True)


def print_table(table: Table, console: Console | None = None) -> None:
    """Print a table; if the screen is too narrow, a list with a line for each field of each row."""
    console = console or out()
    if fits(table, console):
        console.print(table)
        return
    names = [_text(column.header, console).plain for column in table.columns]
    rows = zip(*(column.cells for column in table.columns), strict=True)
    for row, cells in zip(table.rows, rows, strict=True):
        texts = [_text(cell, console) for cell in cells]
        _print_upright(names, texts, console, style=row.style or "bold")


def _print_upright(
    names: Sequence[str], cells: Sequence[Text], console: Console, style: StyleType = "bold"
) -> None:
    """Print the first cell as a heading and the others below it; empty cells are left out."""
    (name, first), *fields = [one for one in zip(names, cells, strict=True) if one[1].plain]
    # A number alone does not show what it counts.
    head = Text(f"{name} {first}".strip()) if first.plain.isdigit() else first.copy()
    head.stylize(style)
    console.print(head, soft_wrap=True)
    print_fields(fields, console, indent=2)


def fits(table: Table, console: Console) -> bool:
    """Whether the screen is wide enough to neither cut texts nor wrap them to a narrow column."""
    options = console.options.update(max_width=_UNBOUNDED)
    needed = Measurement.get(console, options, table).maximum
    for column in table.columns:
        if not column.no_wrap:
            widest, least = _widths(column, console, options)
            needed -= max(0, widest - max(least, _LEAST_FOLDED))
    return needed <= console.width


def _widths(column: Column, console: Console, options: ConsoleOptions) -> tuple[int, int]:
    """The widths of the longest cell and of the longest word."""
    found = [Measurement.get(console, options, cell) for cell in (column.header, *column.cells)]
    return max(one.maximum for one in found), max(one.minimum for one in found)


def _text(cell: RenderableType, console: Console) -> Text:
    return cell if isinstance(cell, Text) else console.render_str(str(cell))


def print_fields(
    fields: Sequence[tuple[Text | str, Text | str]],
    console: Console | None = None,
    *,
    indent: int = 0,
) -> None:
    """Print a line for each name and its value; long values are wrapped with indentation."""
    console = console or out()
    pairs = [(_as_text(name), _as_text(value)) for name, value in fields]
    width = indent + max((name.cell_len for name, _ in pairs), default=0)
    room = max(console.width - width - 2, _LEAST_VALUE)
    for name, value in pairs:
        name.pad_left(width - name.cell_len)
        for line in value.wrap(console, room) or [Text("")]:
            shown = Text.assemble(name, "  ", line)
            shown.rstrip()
            console.print(shown, soft_wrap=True)
            name = Text(" " * width)


def _as_text(value: Text | str) -> Text:
    return value.copy() if isinstance(value, Text) else Text(value)


def print_long_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], to_the_right: Collection[str]
) -> None:
    """Print a table like rich, but faster, with one line for each row.

    Each row has a cell for each name in `head`; the columns `to_the_right` are aligned right. On a
    terminal that is too narrow, it is printed as a list, like any table.
    """
    shown = [tuple(map(escaped, row)) for row in (head, *rows)]
    widths = [max(map(cell_len, map(itemgetter(at), shown))) for at in range(len(head))]
    rule = "─" * (sum(widths) + len(_GAP) * (len(widths) - 1))
    if sys.stdout.isatty() and len(rule) + 1 > (console := out()).width:
        for row in rows:
            _print_upright(head, [Text(cell) for cell in row], console)
        return
    stream = unescaped_stream(sys.stdout)  # all is escaped already
    stream.write("\n")
    for number, row in enumerate(shown):
        cells = []
        for name, cell, width in zip(head, row, widths, strict=True):
            blank = " " * (width - cell_len(cell))
            cells.append(blank + cell if name in to_the_right else cell + blank)
        stream.write(f" {_GAP.join(cells)}".rstrip() + "\n")
        if number == 0:
            stream.write(f" {rule}\n")
    stream.write("\n")


# Records as tables for users and as JSON for programs, in the same way for all commands.


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table."""

    title: str
    right: bool = False
    """Aligned right, for numbers."""
    folded: bool = False
    """Long texts may be wrapped."""


def table(
    columns: Iterable[TableColumn | str],
    rows: Iterable[Sequence[Text | str]],
    *,
    styles: Iterable[str] = (),
    framed: bool = False,
) -> Table:
    """A table of rows. A plain title is a left-aligned column; texts are never markup.

    `styles` are those of the rows. A `framed` table has an empty line above and below it.
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
    """Print a table, as a list if the screen is too narrow; `if_empty` if there are no rows."""
    made = table(columns, rows, framed=framed)
    if made.rows or not if_empty:
        print_table(made, console)
    else:
        say(if_empty, console)


def say(line: str, console: Console | None = None, style: str = "") -> None:
    """Print a line to standard output, without markup."""
    (console or out()).print(Text(line, style), soft_wrap=True)


def warn(sentence: str) -> None:
    """Print a line to standard error: what is waited for, left out or wrong."""
    print(f"skipjack: {sentence}", file=sys.stderr, flush=True)


def envelope(kind: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """The object that ``--json`` prints for a record: its fields with the version of its format.

    The kind is one of `skipjack.json_formats`. A payload that has its own version keeps it, as
    stored records do.
    """
    return {"format": FORMATS[kind], **payload}


def print_json(kind: str, payload: Mapping[str, Any]) -> None:
    """Print a record as one line to standard output, and flush."""
    print(dumps(envelope(kind, payload)), flush=True)
