"""Joining two databases of one device: new records replace those of the same key, others stay.

Every kind of file is a sequence of keyed records for this: lines of text, rows of SQLite, lines of
JSON, kernels. What stands in a file of another form than the new records is kept in that form.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from skipjack.errors import SkipjackError, UsageError
from skipjack.fleet.release.promote import merging_lines, merging_records
from skipjack.fleet.release.promote.promotions import Counts

Keyed = tuple[Hashable, Any]


class Rule(StrEnum):
    """What becomes of records that are there."""

    REPLACE_KEYS = "replace-keys"
    """One of the same key is replaced as a whole."""
    KEEP_SOLVERS = "keep-solvers"
    """Of one of the same key, solvers that the new one does not have stay."""
    WHOLE_FILE = "whole-file"
    """The old file goes, whatever is in it."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How one kind of file is read and written."""

    endings: tuple[str, ...]
    read: Callable[[Path], Iterable[Keyed]]
    write: Callable[[Path, Iterable[Any], Path | None], None]
    """Records to a new file, in the manner of an old one."""
    same: Callable[[Any, Any], bool]
    """Whether an old and a new record say the same, so that the old one can stay."""
    join: Callable[[Any, Any], Any] | None = None
    """An old and a new record of one key, where solvers can be told apart in it."""


SHAPES = (
    Shape(
        (".fdb.txt", ".ufdb.txt"),
        merging_records.read_text,
        merging_records.write_text,
        merging_records.same_record,
        merging_records.joined_find,
    ),
    Shape(
        (".db.txt", ".udb.txt"),
        merging_records.read_text,
        merging_records.write_text,
        merging_records.same_record,
        merging_records.joined_perf,
    ),
    Shape(
        (".db", ".udb"),
        merging_records.read_sqlite,
        merging_records.write_sqlite,
        merging_records.same_record,
        merging_records.joined_perf,
    ),
    Shape(
        (".kdb", ".ukdb"),
        merging_records.read_kernels,
        merging_records.write_kernels,
        merging_records.same_kernel,
    ),
    Shape(
        (".jsonl",),
        merging_lines.read_lines,
        merging_lines.write_lines,
        merging_lines.same_line,
        merging_lines.joined_line,
    ),
    Shape(
        (".skk",), merging_lines.read_packed, merging_lines.write_packed, merging_lines.same_packed
    ),
)


def shape_of(path: Path) -> Shape:
    """How a file is read and written, by its name."""
    for shape in SHAPES:
        if path.name.endswith(shape.endings):
            return shape
    raise UsageError(f"{path} is no database that can be merged: its name ends in none of theirs")


def merge(old: Path | None, new: Path, target: Path, rule: Rule) -> Counts:
    """Write `target` out of both files; it has the form that its name says."""
    shape = shape_of(target)
    if old and rule is Rule.WHOLE_FILE and not _readable(shape, old):
        old = None  # it goes, whatever is in it
    added = dict(shape_of(new).read(new))
    joining = _Joining(shape, added, rule)
    records = joining.over(shape.read(old) if old else ())
    shape.write(target, records, old)
    return joining.counts()


def _readable(shape: Shape, path: Path) -> bool:
    try:
        deque(shape.read(path), maxlen=0)
    except SkipjackError:
        return False
    return True


class _Joining:
    """Records of both, old ones as they come, and what became of each."""

    def __init__(self, shape: Shape, added: dict[Hashable, Any], rule: Rule) -> None:
        self._shape, self._new, self._rule = shape, added, rule
        self._changed: set[Hashable] = set()
        self._unchanged: set[Hashable] = set()
        self._kept = self._dropped = 0

    def over(self, old: Iterable[Keyed]) -> Iterator[Any]:
        """What the joined file holds."""
        for key, record in old:
            if key in self._changed or key in self._unchanged:
                self._dropped += 1
                continue  # a key that was there twice is there once now
            if key in self._new:
                joined = self._joined(record, self._new[key])
                same = self._shape.same(record, joined)
                (self._unchanged if same else self._changed).add(key)
                yield record if same else joined
            elif self._rule is Rule.WHOLE_FILE:
                self._dropped += 1
            else:
                self._kept += 1
                yield record
        known = self._changed | self._unchanged
        yield from (record for key, record in self._new.items() if key not in known)

    def _joined(self, old: Any, new: Any) -> Any:
        if self._rule is Rule.KEEP_SOLVERS and self._shape.join:
            return self._shape.join(old, new)
        return new

    def counts(self) -> Counts:
        """What became of the records; only after all of them were taken."""
        changed, unchanged = len(self._changed), len(self._unchanged)
        added = len(self._new) - changed - unchanged
        return Counts(added, changed, unchanged, self._kept, self._dropped)
