"""The steps of searches as CSV: one row for every schedule that a search looked at."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from skipjack.learn.tree import SearchRun, SearchStep
from skipjack.storage import atomic_write

COLUMNS = (
    *("problem", "search", "seed", "step", "action", "actions", "cursor", "schedule"),
    *("seconds", "cached", "measured", "elapsed_s", "best_s"),
)
"""`docs/loops.md` says what each is."""


def steps_text(runs: Iterable[SearchRun]) -> str:
    """Quoted as RFC 4180 says; missing values are empty."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(COLUMNS)
    for run in runs:
        writer.writerows([_cell(step, name) for name in COLUMNS] for step in run.steps)
    return stream.getvalue()


def write_steps(runs: Iterable[SearchRun], path: Path) -> None:
    """Replace `path`; readers see the old file or the new one."""
    atomic_write(path, steps_text(runs).encode())


def _cell(step: SearchStep, name: str) -> str:
    value = getattr(step, name)
    match value:
        case None:
            return ""
        case bool():
            return str(int(value))
        case float():
            return f"{value:.9g}"
        case tuple():
            return ",".join(value)
    return str(value)
