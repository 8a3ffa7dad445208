"""Problems of ours that share a key of MIOpen's: one record for them, as exports write it.

MIOpen's perf keys leave out the size of the result, and transposed convolutions have the keys of
plain ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from skipjack.core.times import possible_time
from skipjack.interop.miopen.find_values import fields_of
from skipjack.interop.miopen.json_format import ENTRIES, PERF
from skipjack.interop.miopen.json_reading import JsonDb, JsonLine
from skipjack.interop.miopen.records import Item, Record
from skipjack.reading import numbered, parse_json


def unshared(found: JsonDb) -> tuple[list[Record], list[int], tuple[str, ...]]:
    """Records with their lines, no key in them shared by problems; and what that leaves out.

    A problem that stands there twice does so afterwards: that is how the file is.
    """
    places: dict[str, list[int]] = {}
    for at, record in enumerate(found.records):
        places.setdefault(record.key, []).append(at)
    again = [each for each in places.values() if len(each) > 1]
    if not again:
        return found.records, found.lines, ()
    said = {line.number: line for line in found.said}
    records: list[Record | None] = list(found.records)
    keys = problems = 0
    for group in again:
        names = {said[found.lines[at]].problem for at in group}
        if len(names) == 1:
            continue
        keys, problems = keys + 1, problems + len(names)
        rivals = [(found.records[at], said[found.lines[at]]) for at in group]
        records[group[0]] = _fastest_params(rivals) if found.kind == PERF else _fastest(rivals)
        for at in group[1:]:
            records[at] = None
    kept = [(each, line) for each, line in zip(records, found.lines, strict=True) if each]
    lost = (
        f"the slower results of {problems} problems that share {numbered(keys, 'key')} of MIOpen's"
    )
    return [each for each, _ in kept], [line for _, line in kept], (lost,) if keys else ()


def _fastest_params(rivals: Sequence[tuple[Record, JsonLine]]) -> Record:
    """The fastest of each solver; what was not timed gives way."""
    best: dict[str, tuple[float, str, str]] = {}
    for record, line in rivals:
        times = _times_of_entries(line)
        for item in record.items:
            rank = (times.get(item.id, inf), line.problem, item.values)
            best[item.id] = min(best.get(item.id, rank), rank)
    return Record(rivals[0][0].key, [Item(solver, best[solver][2]) for solver in sorted(best)])


def _times_of_entries(line: JsonLine) -> dict[str, float]:
    """By solver, of those that have one."""
    entries = parse_json(line.text, surrogates=True)[ENTRIES[PERF]]
    times = {each["solver"]: each.get("time_ns") for each in entries}
    return {solver: time for solver, time in times.items() if possible_time(time)}


def _fastest(rivals: Sequence[tuple[Record, JsonLine]]) -> Record:
    """A ranking counts as a whole, as its results belong together."""
    return min((record for record, _ in rivals), key=_first_place)


def _first_place(record: Record) -> tuple[float, str]:
    return min(_times(record), default=inf), record.contents


def _times(record: Record) -> Iterator[float]:
    for text in record.item_texts:
        fields = fields_of(text)
        if fields and possible_time(float(fields.time)):
            yield float(fields.time)
