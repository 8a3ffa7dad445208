"""The screen: one console for results, one for what happens meanwhile."""

from __future__ import annotations

import shutil
import sys

from rich.console import Console
from rich.progress import Progress, ProgressColumn, TimeElapsedColumn

_WIDE = 240


def out() -> Console:
    """Standard output; wide where it is no terminal, so that tables in files are not folded."""
    width = None if sys.stdout.isatty() else max(_WIDE, shutil.get_terminal_size().columns)
    return Console(width=width, highlight=False, emoji=False)


def err() -> Console:
    """Standard error."""
    return Console(stderr=True, highlight=False, emoji=False)


def live_bars(console: Console, *columns: ProgressColumn) -> Progress:
    """Bars with the time beside them, which vanish when all is done."""
    return Progress(*columns, TimeElapsedColumn(), console=console, transient=True)


def harmless(text: str) -> str:
    """Text of kernels and other machines without what a terminal would obey."""
    return "".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in text)
