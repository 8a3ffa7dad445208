"""The screen: one console for results, one for what happens meanwhile."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from skipjack.report.escaping import escaped, plain

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

_WIDE = 240
_GAP = "   "


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


def print_long_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], to_the_right: Collection[str]
) -> None:
    """A table on standard output as rich draws it, but quickly, and in a line for each row.

    Rows have as many cells as `head` has; columns of these names are set to the right.
    """
    shown = [tuple(map(escaped, row)) for row in (head, *rows)]
    widths = [max(map(cell_len, map(itemgetter(at), shown))) for at in range(len(head))]
    rule = "─" * (sum(widths) + len(_GAP) * (len(widths) - 1))
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
