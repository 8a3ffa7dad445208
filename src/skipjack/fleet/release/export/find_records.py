"""Rankings as records of MIOpen's find-db; what MIOpen itself wrote stays as it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from skipjack.core.times import possible_time
from skipjack.fleet.release.results.found import FoundProblem, RankedEntry
from skipjack.interop.miopen import FindResultLine, Item, Record, find_item
from skipjack.interop.miopen.find_values import find_text
from skipjack.interop.miopen.json_lines import NS_PER_MS
from skipjack.interop.miopen.records import complaint_of


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
    return min(map(_time_ms, record.items)), record.contents


def harvested(lines: Iterable[str]) -> tuple[tuple[str, ...], set[str]]:
    """Lines of MIOpen without times that cannot be, and the solvers that had such a one."""
    kept: list[str] = []
    lost: set[str] = set()
    for line in lines:
        if complaint_of(line) is not None:
            continue  # half a line: its job was ended while MIOpen wrote
        record = Record.of_line(line)
        good = [item for item in record.items if _possible(item)]
        if len(good) == len(record.items):
            kept.append(line)
            continue
        lost |= {_solver(item) for item in record.items if not _possible(item)}
        if good:
            kept.append(Record(record.key, good).line)
    return tuple(kept), lost


def _own_items(problem: FoundProblem, lines: Iterable[Record]) -> list[Item]:
    """Those that are not among what MIOpen wrote."""
    known = {_solver(item) for record in lines for item in record.items}
    return [_item(entry) for entry in problem.ranking if entry.solver not in known]


def _item(entry: RankedEntry) -> Item:
    time_ms = entry.time_ns / NS_PER_MS
    line = FindResultLine(entry.solver, time_ms, entry.workspace_bytes, entry.algorithm)
    return find_item(line)


def _solver(item: Item) -> str:
    text = find_text(item)
    return text.solver if text else item.id


def _time_ms(item: Item) -> float:
    text = find_text(item)
    return float(text.time) if text else math.nan


def _possible(item: Item) -> bool:
    return possible_time(_time_ms(item))


def _rank(item: Item) -> tuple[float, str]:
    return _time_ms(item), _solver(item)
