"""The screen: one console for results, one for what happens meanwhile."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import StyleType
from rich.text import Text

from skipjack.report.escaping import escaped, plain

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn
    from rich.table import Column, Table

_WIDE = 240
_GAP = "   "
_LEAST_FOLDED = 40
"""How wide a column of long texts has to be at least to stand in a table, folded between words."""
_LEAST_VALUE = 20
_UNBOUNDED = 1_000_000


class _Screen(Console):
    """A console whose own colours and movements are all that a terminal obeys."""

    def render_str(self, text: str, **how: Any) -> Text:
        """Escaped before it is measured: a cell is as wide as what is shown."""
        return super().render_str(escaped(text), **how)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As texts and styles, the texts escaped."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(escaped(segment.text), segment.style)


def out() -> Console:
    """Standard output; wide where it is no terminal, so that tables in files are not folded."""
    width = None if sys.stdout.isatty() else max(_WIDE, shutil.get_terminal_size().columns)
    return _Screen(width=width, highlight=False, emoji=False, file=plain(sys.stdout))


def err() -> Console:
    """Standard error."""
    return _Screen(stderr=True, highlight=False, emoji=False, file=plain(sys.stderr))


def live_bars(console: Console, *columns: ProgressColumn) -> Progress:
    """Bars with the time beside them, which vanish when all is done."""
    from rich.progress import Progress, TimeElapsedColumn  # who shows a table needs none of it

    return Progress(*columns, TimeElapsedColumn(), console=console, transient=True)


def print_table(table: Table, console: Console | None = None) -> None:
    """A table, or where the screen is too narrow an upright list: each row has a line per field."""
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
    """The first cell as a heading, the others below it; cells without a text are left out."""
    (name, first), *fields = [one for one in zip(names, cells, strict=True) if one[1].plain]
    # A number alone does not say what it counts.
    head = Text(f"{name} {first}".strip()) if first.plain.isdigit() else first.copy()
    head.stylize(style)
    console.print(head, soft_wrap=True)
    print_fields(fields, console, indent=2)


def fits(table: Table, console: Console) -> bool:
    """Whether the screen is wide enough: nothing is cut, and no text is folded to a thin strip."""
    options = console.options.update(max_width=_UNBOUNDED)
    needed = Measurement.get(console, options, table).maximum
    for column in table.columns:
        if not column.no_wrap:
            widest, least = _widths(column, console, options)
            needed -= max(0, widest - max(least, _LEAST_FOLDED))
    return needed <= console.width


def _widths(column: Column, console: Console, options: ConsoleOptions) -> tuple[int, int]:
    """Of the longest cell, and of the longest word in any."""
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
    """A line for each name and its value; long values go on below themselves, not at the margin."""
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
    """A table on standard output as rich draws it, but quickly, and in a line for each row.

    Rows have as many cells as `head` has; columns of these names are set to the right. On a
    terminal that is too narrow it is an upright list, as of any table.
    """
    shown = [tuple(map(escaped, row)) for row in (head, *rows)]
    widths = [max(map(cell_len, map(itemgetter(at), shown))) for at in range(len(head))]
    rule = "─" * (sum(widths) + len(_GAP) * (len(widths) - 1))
    if sys.stdout.isatty() and len(rule) + 1 > (console := out()).width:
        for row in rows:
            _print_upright(head, [Text(cell) for cell in row], console)
        return
    stream = plain(sys.stdout)  # all is escaped already
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
