"""Tables of many rows: as rich draws them, but a line for each row, however long it is."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from operator import itemgetter

from rich.cells import cell_len

from skipjack.report.escaping import escaped

_GAP = "   "


def print_long_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], to_the_right: Collection[str]
) -> None:
    """Print rows of as many cells as `head` has; columns of these names are set to the right."""
    shown = [tuple(map(escaped, row)) for row in (head, *rows)]
    widths = [max(map(cell_len, map(itemgetter(at), shown))) for at in range(len(head))]
    rule = "─" * (sum(widths) + len(_GAP) * (len(widths) - 1))
    sys.stdout.write("\n")
    for number, row in enumerate(shown):
        cells = []
        for name, cell, width in zip(head, row, widths, strict=True):
            blank = " " * (width - cell_len(cell))
            cells.append(blank + cell if name in to_the_right else cell + blank)
        sys.stdout.write(f" {_GAP.join(cells)}".rstrip() + "\n")
        if number == 0:
            sys.stdout.write(f" {rule}\n")
    sys.stdout.write("\n")
