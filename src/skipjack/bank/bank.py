"""The bank: confirmed entries by problem, class of devices, kind and deployment, in one file."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skipjack.bank.entry import PERF, BankEntry, key_of
from skipjack.bank.evidence import merge_entries, ranked, strength
from skipjack.bank.file import BankFile
from skipjack.core.protocol import DEPLOYMENTS

if TYPE_CHECKING:
    from skipjack.bank.merging import Entries

    # A program that only looks things up need not load SQLite.
    from skipjack.ledger import Ledger

FILE_NAME = "bank.jsonl"
PROJECTED = ("banked", "found")
"""Verdicts whose records are entries: a tuning's, and a find's."""
REMOVED = "bank.jsonl.removed"
"""Where entries go that were removed from a bank."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Changes:
    """What became of entries that were offered to a bank, by key."""

    new: int = 0
    replaced: int = 0
    """The entry that was offered was timed beside the bank's, or has stronger evidence."""
    kept: int = 0
    """The bank's entry stayed, having the stronger evidence."""
    same: int = 0
    """The bank had the very entry."""

    @property
    def changed(self) -> int:
        """Entries of the bank that are new or different now."""
        return self.new + self.replaced

    @property
    def offered(self) -> int:
        """How many keys there was an entry for."""
        return self.changed + self.kept + self.same


class Bank:
    """What is known, in one file of a line for each entry.

    Of a problem, a class of devices, a kind and a deployment (`skipjack.core.protocol`) there may
    be several entries: `lookup` gives the one with the strongest evidence
    (`skipjack.bank.evidence`), `ranked` all of them. Looking one up reads its lines alone, found by
    an index beside the file, and costs a look at the file's date while it does not change.

    Writing takes a lock, so that of many processes none loses an entry. `put` and `add` append
    lines; what others have displaced goes when it is half of the file. Merging, cleaning and
    rebuilding write the file in its canonical form: sorted, each entry once, whatever the order in
    which they came.

    A line that cannot be read is left out with a warning, and stays in the file until the bank is
    rebuilt; a last line that a killed writer left unfinished goes when the next is written. A file
    with a line of a newer format is read likewise and never written (`NewerFormatError`).

    Of a bank that is not `writable`, being somebody else's, no index is made either.
    """

    writes: ClassVar[int] = 0
    """How often this process has written to a bank."""

    def __init__(self, path: Path, *, writable: bool = True) -> None:
        self.path = path
        self._file = BankFile(path, writable=writable)

    @classmethod
    def open(cls, directory: Path) -> Bank:
        """The bank in `directory`; without a file it is empty. Reading needs no right to write."""
        return cls(directory / FILE_NAME)

    def lookup(
        self, problem_key: str, device_class: str, kind: str = PERF, protocol: str | None = None
    ) -> BankEntry | None:
        """What is known of a problem on a class of devices as it is deployed.

        `protocol` is a deployment, as ``eager/hot``, or the text of a protocol; None is the
        device's default.
        """
        found = self._file.kept(key_of(problem_key, device_class, kind, protocol))
        return found[0].entry if found else None

    def ranked(
        self, problem_key: str, device_class: str, kind: str = PERF, protocol: str | None = None
    ) -> tuple[BankEntry, ...]:
        """All that is known of it, the strongest evidence first."""
        key = key_of(problem_key, device_class, kind, protocol)
        return tuple(one.entry for one in self._file.kept(key))

    def priors(
        self, problem_key: str, device_class: str, protocol: str | None = None
    ) -> tuple[BankEntry, ...]:
        """Where a search may start: what else is known of the problem, the best first.

        The entries behind the strongest, and the strongest of every other deployment, which says
        what was fast and is no answer.
        """
        own = key_of(problem_key, device_class, PERF, protocol)
        found = list(self.ranked(*own)[1:])
        others = (name for name in DEPLOYMENTS if name != own[-1])
        found += filter(None, (self.lookup(*own[:3], name) for name in others))
        return tuple(found)

    def entries_of(self, problem_key: str) -> list[BankEntry]:
        """The strongest entry of a problem for each device, kind and deployment, sorted by them."""
        keys = sorted(self._file.keys_of(problem_key))
        return [found[0].entry for key in keys if (found := self._file.kept(key))]

    def entries(self) -> list[BankEntry]:
        """The strongest entry of each problem, device, kind and deployment, sorted by them."""
        return [entries[0] for entries in self._file.whole().entries().values()]

    def all_entries(self) -> Iterator[BankEntry]:
        """Every entry of each problem, device and kind, those that others outrank included."""
        for entries in self._file.whole().entries().values():
            yield from entries

    def put(self, entry: BankEntry) -> Changes:
        """Add an entry; one that is there gives way to stronger evidence, or stays."""
        return self.add([entry])

    def add(self, offered: Iterable[BankEntry]) -> Changes:
        """Add many entries at once, by the rule of `put`. They are on disk when this returns."""
        from skipjack.bank.writing import BankWriter

        entries = merge_entries(offered)
        with BankWriter(self._file) as writer:
            placed = {key: self._file.kept(key) for key in entries}
            before = {key: tuple(one.entry for one in placed[key]) for key in entries}
            after = {key: ranked([*before[key], *entries[key]]) for key in entries}
            held = {id(one) for known in before.values() for one in known}
            stays = {id(one) for known in after.values() for one in known}
            new = [one for known in after.values() for one in known if id(one) not in held]
            gone = [one for known in placed.values() for one in known if id(one.entry) not in stays]
            if new and not writer.append(new, gone):
                from skipjack.bank.merging import union

                content = self._file.whole()
                writer.replace(union(content.entries(), after), content.bad)
            Bank.writes += bool(new)
        return _changes(before, entries, after)

    def merge(self, path: Path) -> Changes:
        """Add the entries of another bank file, which is only read."""
        from skipjack.bank.merging import read_bank

        return self.join(read_bank(path))

    def join(self, entries: Entries) -> Changes:
        """Add entries that were read, and write the file in its canonical form."""
        return self._join(lambda: entries)

    def clean(self, unwanted: Callable[[BankEntry], bool]) -> list[BankEntry]:
        """Remove entries; gives those that were removed.

        Their lines are added to the file `REMOVED` beside the bank's, which is a bank that can be
        merged again. Those that the ledger knows come back when the bank is rebuilt, too.
        """
        from skipjack.bank.writing import BankWriter

        with BankWriter(self._file) as writer:
            content = self._file.whole()
            known = content.entries()
            gone = [one for entries in known.values() for one in entries if unwanted(one)]
            if gone:
                writer.keep_aside((one.line.encode() for one in gone), REMOVED)
                left = {id(one) for one in gone}
                after = {
                    key: tuple(one for one in entries if id(one) not in left)
                    for key, entries in known.items()
                }
                Bank.writes += writer.replace(after, content.bad)
        return gone

    def rebuild(self, ledger: Ledger) -> Changes:
        """Take in all that the ledger's verdicts say; lines that cannot be read leave the file.

        What the ledger does not know, having come from other banks, stays by the rule of `put`.
        Without a file the bank becomes what the ledger says. Lines that leave are kept beside it.
        """
        # Verdicts are read under the lock: what is banked later is put into the new file.
        return self._join(lambda: merge_entries(_verdicts(ledger)), rebuilding=True)

    def _join(self, offering: Callable[[], Entries], *, rebuilding: bool = False) -> Changes:
        """Add entries and write the file in its canonical form."""
        from skipjack.bank.merging import union
        from skipjack.bank.writing import BankWriter

        with BankWriter(self._file) as writer:
            offered = offering()
            content = self._file.whole()
            before, bad = content.entries(), content.bad
            if bad and rebuilding:
                writer.keep_aside(line.data for line in bad)
                bad = []
            after = union(before, offered)
            Bank.writes += writer.replace(after, bad, always=rebuilding)
        return _changes(before, offered, after)


def next_best(ledger: Ledger, entry: BankEntry) -> list[BankEntry]:
    """What else a ledger knows for the key of an entry, the strongest evidence first."""
    known = {one.line: one for one in _verdicts(ledger, entry.problem) if one.key == entry.key}
    known.pop(entry.line, None)
    return sorted(known.values(), key=lambda one: (strength(one), one.line), reverse=True)


def _verdicts(ledger: Ledger, problem: str | None = None) -> Iterator[BankEntry]:
    """The entries of a ledger's verdicts, without those that cannot be read."""
    for verdict in ledger.verdicts(problem):
        if verdict.status in PROJECTED:
            try:
                yield BankEntry.from_record(dict(verdict.record))
            except ValueError as error:
                log.warning(
                    "left out a verdict on %s in %s: %s", verdict.problem, ledger.path, error
                )


def _changes(before: Entries, offered: Entries, after: Entries) -> Changes:
    became = Counter(
        _became(before.get(key, ()), entries[0], after[key][0]) for key, entries in offered.items()
    )
    return Changes(**became)


def _became(before: tuple[BankEntry, ...], offered: BankEntry, after: BankEntry) -> str:
    """The field of `Changes` that counts a key."""
    if not before:
        return "new"
    if offered == before[0]:
        return "same"
    return "replaced" if after != before[0] else "kept"
