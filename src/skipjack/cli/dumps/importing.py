"""``skipjack import DIR``: the problems of a dump for the fleet, the most valuable first."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from skipjack.fleet.importing import ImportOptions, ImportReport
    from skipjack.fleet.store import Problems
    from skipjack.settings import Settings


class ImportedDump(NamedTuple):
    """What came of it."""

    report: ImportReport
    damaged: tuple[str, ...]
    """A sentence about each folder that cannot be used."""
    devices: tuple[str, ...]
    """What the program ran on, that with the most to save first."""


def import_dump(
    problems: Problems, folder: Path, options: ImportOptions, settings: Settings
) -> ImportedDump:
    """Take the problems of a dump in; jobs of those that are new are done in this order."""
    from skipjack.fleet.importing import import_lines
    from skipjack.runtime.dumps import most_valuable_first, read_dump

    contents = read_dump(folder)
    valued = most_valuable_first(contents, settings)
    keys = dict.fromkeys(one.problem.key for one in valued)
    lines = BytesIO("".join(f"{key}\n" for key in keys).encode())
    report = import_lines(problems, lines, replace(options, in_order=True))
    devices = dict.fromkeys(one.dumped.device for one in valued)
    return ImportedDump(report, contents.damaged, tuple(devices))
