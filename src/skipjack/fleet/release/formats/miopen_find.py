"""Rankings as records of MIOpen's find-db; what MIOpen itself wrote stays as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from skipjack.fleet.release.formats.contents import SKIPJACK
from skipjack.fleet.release.formats.gathered import GatheredRankings, solver_of, time_ms_of
from skipjack.fleet.release.results import FoundProblem, RankedEntry
from skipjack.interop.miopen import FindResultLine, Item, Record, find_item
from skipjack.interop.miopen.json_lines import NS_PER_MS
from skipjack.reading import numbered


@dataclass(slots=True)
class GatheredRecords:
    """The records of each device; the counts are whole once all were taken."""

    top: int | None = None
    toolchains: dict[str, set[str]] = field(default_factory=dict)
    """By device."""
    _records: dict[str, dict[str, Record]] = field(default_factory=dict)
    _rankings: GatheredRankings = field(default_factory=GatheredRankings)
    _shared: int = 0
    _operations: Counter[str] = field(default_factory=Counter)

    def take(self, found: Iterable[FoundProblem]) -> None:
        """Add the records of problems that MIOpen has keys for."""
        for problem in self._rankings.of(found):
            records = list(find_records(problem, self.top))
            if not records:
                self._operations[problem.problem.partition(":")[0]] += 1
                continue
            mine = self._records.setdefault(problem.device, {})
            for record in records:
                # A transposed convolution has the key of a plain one: the faster counts.
                known = mine.get(record.key)
                self._shared += known is not None
                mine[record.key] = min(known or record, record, key=first_place)
            used = self.toolchains.setdefault(problem.device, set())
            used.update(filter(None, [problem.toolchain]))

    def devices(self) -> Iterator[tuple[str, list[Record]]]:
        """By name."""
        for device, records in sorted(self._records.items()):
            yield device, list(records.values())

    def counts(self) -> dict[str, int]:
        """What was left out."""
        operations = self._operations.total()
        own = {"shared_keys": self._shared, "not_in_this_format": operations}
        return {**self._rankings.counts(), **own}

    def remarks(self) -> Iterator[str]:
        """Sentences about that."""
        if self._operations:
            yield (
                f"{numbered(self._operations.total(), 'problem')} left out, which MIOpen's find-db "
                f"cannot hold ({named(self._operations)}); --format {SKIPJACK} holds all"
            )
        yield from self._rankings.remarks()
        if self._shared:
            yield f"{numbered(self._shared, 'record')} left out whose key a faster problem has"


def named(operations: Counter[str]) -> str:
    """``2 add, 1 matmul``."""
    return ", ".join(f"{count} {name}" for name, count in sorted(operations.items()))


def find_records(problem: FoundProblem, top: int | None = None) -> Iterator[Record]:
    """The records of a problem: its own, and others that MIOpen wrote on the way.

    Items stand in the order of the times as they are written, equal ones in that of their names.
    Nothing comes of what MIOpen has no keys for.
    """
    lines = {record.key: record for record in map(Record.of_line, problem.miopen)}
    own = _own_items(problem, lines.values())
    keys = dict.fromkeys([*([problem.find_key] if own and problem.find_key else []), *lines])
    for key in keys:
        verbatim = lines.get(key)
        added = own if key == problem.find_key else []
        items = verbatim.items if verbatim else ()
        if verbatim and not added and (top is None or len(items) <= top):
            yield verbatim
        else:
            yield Record(key, sorted([*items, *added], key=_rank)[:top])


def first_place(record: Record) -> tuple[float, str]:
    """By what one of several records of a key is chosen."""
    return min(map(time_ms_of, record.items)), record.contents


def _own_items(problem: FoundProblem, lines: Iterable[Record]) -> list[Item]:
    """Those that are not among what MIOpen wrote."""
    known = {solver_of(item) for record in lines for item in record.items}
    return [_item(entry) for entry in problem.ranking if entry.solver not in known]


def _item(entry: RankedEntry) -> Item:
    time_ms = entry.time_ns / NS_PER_MS
    line = FindResultLine(entry.solver, time_ms, entry.workspace_bytes, entry.algorithm)
    return find_item(line)


def _rank(item: Item) -> tuple[float, str]:
    return time_ms_of(item), solver_of(item)
