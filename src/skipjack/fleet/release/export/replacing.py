"""What an export replaces: its own earlier files, not somebody else's, and nothing silently."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from skipjack.errors import SkipjackError, UsageError
from skipjack.fleet.release.export.manifest import FILE_NAME, Manifest
from skipjack.fleet.release.formats import keyed_file
from skipjack.reading import numbered


def refuse_foreign(directory: Path, names: Iterable[str], known: Manifest) -> None:
    """`UsageError` if a file stands there that was not exported, by the manifest beside it."""
    for name in names:
        path = directory / name
        if path.is_file() and name != FILE_NAME and name not in known.files:
            raise UsageError(
                f"{path}{_holding(records_in(path))} was not exported: no {FILE_NAME} beside it "
                "tells of it; skipjack promote merges into it, --replace replaces it"
            )


def shrunk(directory: Path, folder: Path, names: Iterable[str]) -> Iterator[str]:
    """A remark on each file that has fewer records than the one that it replaces."""
    for name in names:
        before, after = records_in(directory / name), records_in(folder / name)
        if before and after is not None and before > after:
            yield (
                f"replaced {numbered(before, 'record')} of {name} by {after}; "
                "skipjack promote merges instead"
            )


def records_in(path: Path) -> int | None:
    """How many there are; None if it is no database that can be read, or is not there."""
    if not path.is_file():
        return None
    try:
        form = keyed_file(path)
        if form.by_line:  # counted, not parsed: it may be long, or damaged
            with path.open("rb") as file:
                return sum(1 for line in file if line.strip())
        return sum(1 for _ in form.read(path))
    except (SkipjackError, OSError):
        return None


def _holding(records: int | None) -> str:
    return f" ({numbered(records, 'record')})" if records else ""
