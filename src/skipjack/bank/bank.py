"""The bank: confirmed entries by problem, class of devices, kind and deployment, in one file."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skipjack.bank.entry import PERF, BankEntry, key_of
from skipjack.bank.file import BankFile
from skipjack.bank.strength import merge_entries, ranked, strength
from skipjack.core import DEPLOYMENTS

if TYPE_CHECKING:
    from skipjack.bank.interchange import Entries

    # A program that only looks things up does not load SQLite.
    from skipjack.ledger import Ledger

FILE_NAME = "bank.jsonl"
PROJECTED = ("banked", "found")
"""The statuses of decisions whose records are entries: of a tuning, and of a find."""
REMOVED = "bank.jsonl.removed"
"""The file for entries that were removed from a bank."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened to entries that were added to a bank, counted by key."""

    new: int = 0
    replaced: int = 0
    """The added entry was timed next to the bank's, or has stronger evidence."""
    kept: int = 0
    """The bank's entry stayed, because it has stronger evidence."""
    same: int = 0
    """The bank already had the entry."""

    @property
    def changed(self) -> int:
        """The number of keys whose entry is new or different."""
        return self.new + self.replaced

    @property
    def offered(self) -> int:
        """The number of keys for which an entry was added."""
        return self.changed + self.kept + self.same


class Bank:
    """A file with one line for each entry.

    A problem, a class of devices, a kind and a deployment (`skipjack.core.timing`) may have
    several entries: `lookup` returns the one with the strongest evidence, `ranked` all of them (see
    `skipjack.bank.strength`). A lookup only reads the lines of its key, found by an index next to
    the file; while the file does not change, it costs a look at its date.

    Writing takes a lock, so that no process loses an entry of another. `put` and `add` append
    lines; replaced lines are removed when they are half of the file. Merging, cleaning and
    rebuilding write the file in its canonical form: sorted, each entry once, in whatever order
    entries were added.

    A line that cannot be read is left out with a warning, and stays in the file until the bank is
    rebuilt; an unfinished last line of a killed writer is removed with the next write. A file with
    a line of a newer format is read in the same way and never written (`NewerFormatError`).

    A bank that is not `writable`, as one of another user, gets no index either.
    """

    writes: ClassVar[int] = 0
    """How often this process has written to a bank."""

    def __init__(self, path: Path, *, writable: bool = True) -> None:
        self.path = path
        self._file = BankFile(path, writable=writable)

    @classmethod
    def open(cls, directory: Path) -> Bank:
        """The bank in `directory`; empty if there is no file. Reading needs no write permission."""
        return cls(directory / FILE_NAME)

    def lookup(
        self, problem_key: str, device_class: str, kind: str = PERF, protocol: str | None = None
    ) -> BankEntry | None:
        """The strongest entry of a problem for a class of devices and a deployment.

        `protocol` is a deployment, as ``eager/hot``, or the text of a protocol; None is the
        device's default.
        """
        found = self._file.kept(key_of(problem_key, device_class, kind, protocol))
        return found[0].entry if found else None

    def ranked(
        self, problem_key: str, device_class: str, kind: str = PERF, protocol: str | None = None
    ) -> tuple[BankEntry, ...]:
        """All entries of a problem for a class of devices, the strongest evidence first."""
        key = key_of(problem_key, device_class, kind, protocol)
        return tuple(one.entry for one in self._file.kept(key))

    def priors(
        self, problem_key: str, device_class: str, protocol: str | None = None
    ) -> tuple[BankEntry, ...]:
        """Other entries of a problem, at which a search may start, the best first.

        The entries behind the strongest, and the strongest of every other deployment, which is
        probably fast but does not answer a lookup.
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
        """Every entry of each problem, device and kind, including those behind the strongest."""
        for entries in self._file.whole().entries().values():
            yield from entries

    def put(self, entry: BankEntry) -> Changes:
        """Add an entry; it replaces one of the bank if its evidence is stronger."""
        return self.add([entry])

    def add(self, offered: Iterable[BankEntry]) -> Changes:
        """Add many entries at once, by the rule of `put`. They are on disk when this returns."""
        from skipjack.bank.writer import BankWriter

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
                from skipjack.bank.interchange import union

                content = self._file.whole()
                writer.replace(union(content.entries(), after), content.bad)
            Bank.writes += bool(new)
        return _changes(before, entries, after)

    def merge(self, path: Path) -> Changes:
        """Add the entries of another bank file, which is not changed."""
        from skipjack.bank.interchange import read_bank

        return self.join(read_bank(path))

    def join(self, entries: Entries) -> Changes:
        """Add entries of another bank, and write the file in its canonical form."""
        return self._join(lambda: entries)

    def clean(self, unwanted: Callable[[BankEntry], bool]) -> list[BankEntry]:
        """Remove entries, and return them.

        Their lines are added to the file `REMOVED` next to the bank's, which is a bank that can be
        merged again. Entries that are in the ledger also come back when the bank is rebuilt.
        """
        from skipjack.bank.writer import BankWriter

        with BankWriter(self._file) as writer:
            content = self._file.whole()
            known = content.entries()
            gone = [one for entries in known.values() for one in entries if unwanted(one)]
            if gone:
                writer.quarantine((one.line.encode() for one in gone), REMOVED)
                left = {id(one) for one in gone}
                after = {
                    key: tuple(one for one in entries if id(one) not in left)
                    for key, entries in known.items()
                }
                Bank.writes += writer.replace(after, content.bad)
        return gone

    def rebuild(self, ledger: Ledger) -> Changes:
        """Add the entries of the ledger's decisions; lines that cannot be read leave the file.

        Entries that are not in the ledger, because they came from other banks, stay by the rule of
        `put`. Without a file, the bank gets the entries of the ledger. Removed lines are kept in a
        file next to it.
        """
        # Decisions are read under the lock: an entry that is banked later goes to the new file.
        return self._join(lambda: merge_entries(_decided_entries(ledger)), rebuilding=True)

    def _join(self, offering: Callable[[], Entries], *, rebuilding: bool = False) -> Changes:
        """Add entries and write the file in its canonical form."""
        from skipjack.bank.interchange import union
        from skipjack.bank.writer import BankWriter

        with BankWriter(self._file) as writer:
            offered = offering()
            content = self._file.whole()
            before, bad = content.entries(), content.bad
            if bad and rebuilding:
                writer.quarantine(line.data for line in bad)
                bad = []
            after = union(before, offered)
            Bank.writes += writer.replace(after, bad, always=rebuilding)
        return _changes(before, offered, after)


def next_best(ledger: Ledger, entry: BankEntry) -> list[BankEntry]:
    """Other entries of a ledger with the key of an entry, the strongest evidence first."""
    known = {
        one.line: one for one in _decided_entries(ledger, entry.problem) if one.key == entry.key
    }
    known.pop(entry.line, None)
    return sorted(known.values(), key=lambda one: (strength(one), one.line), reverse=True)


def _decided_entries(ledger: Ledger, problem: str | None = None) -> Iterator[BankEntry]:
    """The entries of a ledger's decisions, without those that cannot be read."""
    for decision in ledger.decisions(problem):
        if decision.status in PROJECTED:
            try:
                yield BankEntry.from_record(dict(decision.record))
            except ValueError as error:
                log.warning(
                    "left out a verdict on %s in %s: %s", decision.problem, ledger.path, error
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
