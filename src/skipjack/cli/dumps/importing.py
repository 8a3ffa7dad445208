"""``skipjack import DIR``: the problems of a dump for the fleet, the most valuable first."""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from skipjack.fleet.importing import ImportOptions, ImportReport, ProblemStore
    from skipjack.fleet.store.jobs.problems import Added, NewProblem
    from skipjack.settings import Settings


class ImportedDump(NamedTuple):
    """What came of it."""

    report: ImportReport
    damaged: tuple[str, ...]
    """A sentence about each folder that cannot be used."""
    devices: tuple[str, ...]
    """What the program ran on, that with the most to save first."""


class _InOrder:
    """Adds problems one by one: the store numbers those of one transaction in an order of its own,
    and jobs are made and claimed by number.
    """

    def __init__(self, store: ProblemStore) -> None:
        self._store = store

    def add_problems(self, problems: Iterable[NewProblem], tag: str, **said: Any) -> Added:
        """As the store does."""
        from skipjack.fleet.store.jobs.problems import Added

        return sum((self._store.add_problems([one], tag, **said) for one in problems), Added())


def import_dump(
    store: ProblemStore, folder: Path, options: ImportOptions, settings: Settings
) -> ImportedDump:
    """Take the problems of a dump in; jobs of those that are new are done in this order."""
    from skipjack.fleet.importing import import_lines
    from skipjack.runtime.dumps import most_valuable_first, read_dump

    contents = read_dump(folder)
    valued = most_valuable_first(contents, settings)
    keys = dict.fromkeys(one.problem.key for one in valued)
    lines = BytesIO("".join(f"{key}\n" for key in keys).encode())
    report = import_lines(_InOrder(store), lines, options)
    devices = dict.fromkeys(one.dumped.device for one in valued)
    return ImportedDump(report, contents.damaged, tuple(devices))
