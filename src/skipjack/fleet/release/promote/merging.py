"""Joining two databases of one device: new records replace those of the same key, others stay.

Every kind of file is a sequence of keyed records for this: lines of text, rows of SQLite, lines of
JSON, kernels. What stands in a file of another form than the new records is kept in that form.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

from skipjack.errors import SkipjackError
from skipjack.fleet.release.formats import KeyedFile, keyed_file
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


def merge(old: Path | None, new: Path, target: Path, rule: Rule) -> Counts:
    """Write `target` out of both files; it has the form that its name says."""
    form = keyed_file(target)
    if old and rule is Rule.WHOLE_FILE and not _readable(form, old):
        old = None  # it goes, whatever is in it
    added = dict(keyed_file(new).read(new))
    joining = _Joining(form, added, rule)
    records = joining.over(form.read(old) if old else ())
    form.write(target, records, old)
    return joining.counts()


def _readable(form: KeyedFile, path: Path) -> bool:
    try:
        deque(form.read(path), maxlen=0)
    except SkipjackError:
        return False
    return True


class _Joining:
    """Records of both, old ones as they come, and what became of each."""

    def __init__(self, form: KeyedFile, added: dict[Hashable, Any], rule: Rule) -> None:
        self._form, self._new, self._rule = form, added, rule
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
                same = self._form.same(record, joined)
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
        if self._rule is Rule.KEEP_SOLVERS and self._form.join:
            return self._form.join(old, new)
        return new

    def counts(self) -> Counts:
        """What became of the records; only after all of them were taken."""
        changed, unchanged = len(self._changed), len(self._unchanged)
        added = len(self._new) - changed - unchanged
        return Counts(added, changed, unchanged, self._kept, self._dropped)
