"""Merging of two databases of one device: new records replace those with the same key.

Every kind of file is treated as a sequence of keyed records: lines of text, rows of SQLite, JSON
lines, kernels. Old records keep their form even if the new records have another one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from skipjack.errors import SkipjackError
from skipjack.fleet.release.formats.export_format import KeyedFile
from skipjack.fleet.release.formats.registry import keyed_file

Keyed = tuple[Hashable, Any]


class MergeRule(StrEnum):
    """How existing records are treated."""

    REPLACE_KEYS = "replace-keys"
    """A record with the same key is replaced as a whole."""
    KEEP_SOLVERS = "keep-solvers"
    """In a record with the same key, solvers that the new one lacks are kept."""
    WHOLE_FILE = "whole-file"
    """The old file is replaced, whatever it contains."""


@dataclass(frozen=True, slots=True)
class MergeCounts:
    """What happened to the records of a file."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    """New records that were present already and identical."""
    kept: int = 0
    """Old records without a new one."""
    dropped: int = 0
    """Removed records: of a file replaced as a whole, and duplicates of a key."""

    @property
    def total(self) -> int:
        """The number of records in the merged file."""
        return self.added + self.changed + self.unchanged + self.kept


def merge(old: Path | None, new: Path, target: Path, rule: MergeRule) -> MergeCounts:
    """Merge both files into `target`, whose name determines its format."""
    form = keyed_file(target)
    if old and rule is MergeRule.WHOLE_FILE and not _readable(form, old):
        old = None  # it is replaced, whatever it contains
    added = dict(keyed_file(new).read(new))
    joining = _Merge(form, added, rule)
    records = joining.over(form.read(old) if old else ())
    form.write(target, records, old)
    return joining.counts()


def _readable(form: KeyedFile, path: Path) -> bool:
    try:
        deque(form.read(path), maxlen=0)
    except SkipjackError:
        return False
    return True


class _Merge:
    """Merges records and counts what happened to them."""

    def __init__(self, form: KeyedFile, added: dict[Hashable, Any], rule: MergeRule) -> None:
        self._form, self._new, self._rule = form, added, rule
        self._changed: set[Hashable] = set()
        self._unchanged: set[Hashable] = set()
        self._kept = self._dropped = 0

    def over(self, old: Iterable[Keyed]) -> Iterator[Any]:
        """The records of the merged file."""
        for key, record in old:
            if key in self._changed or key in self._unchanged:
                self._dropped += 1
                continue  # keep only the first record of a repeated key
            if key in self._new:
                joined = self._joined(record, self._new[key])
                same = self._form.same(record, joined)
                (self._unchanged if same else self._changed).add(key)
                yield record if same else joined
            elif self._rule is MergeRule.WHOLE_FILE:
                self._dropped += 1
            else:
                self._kept += 1
                yield record
        known = self._changed | self._unchanged
        yield from (record for key, record in self._new.items() if key not in known)

    def _joined(self, old: Any, new: Any) -> Any:
        if self._rule is MergeRule.KEEP_SOLVERS and self._form.join:
            return self._form.join(old, new)
        return new

    def counts(self) -> MergeCounts:
        """The counts, complete after all records were merged."""
        changed, unchanged = len(self._changed), len(self._unchanged)
        added = len(self._new) - changed - unchanged
        return MergeCounts(added, changed, unchanged, self._kept, self._dropped)
