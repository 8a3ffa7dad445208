"""Find values of one format in the other; numbers keep their texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Literal

from skipjack.core.problem import shown
from skipjack.core.times import possible_time
from skipjack.errors import CorruptFileError, UsageError
from skipjack.interop.miopen.find_values import (
    FindText,
    algorithm_parts,
    current_of,
    fields_of,
    is_algorithm,
    legacy_of,
)
from skipjack.interop.miopen.keys import parse_find_key
from skipjack.interop.miopen.opening import Database
from skipjack.interop.miopen.plausible import SHORTEST_CALL_MS, Bounds
from skipjack.interop.miopen.records import Record
from skipjack.reading import numbered

Values = Literal["current", "legacy"]
VALUES: dict[str, Values] = {"current": "current", "legacy": "legacy"}


def refuse_mixture(databases: Sequence[Database]) -> None:
    """One record with values of two formats would name the same results twice."""
    records = chain.from_iterable(each.records for each in databases)
    if len({is_algorithm(name) for record in records for name in record.ids}) > 1:
        raise UsageError(
            "these find-dbs have values in two formats; say which one to write with "
            "--values current or --values legacy"
        )


def with_values(database: Database, values: Values) -> tuple[Database, list[str]]:
    """All find values in one format, and what that loses."""
    records: list[Record] = []
    dropped = more = 0
    legacy = values == "legacy"
    write = legacy_of if legacy else current_of
    for at, record in enumerate(database.records):
        found = [_fields(text, database, at) for text in record.item_texts]
        if {each.legacy for each in found} == {legacy}:
            records.append(record)
            continue
        kept = _fastest(found, record.key, legacy)
        dropped += len(found) - len(kept)
        if not legacy:
            more += sum([each.says_more for each in kept])
        records.append(Record(record.key, map(write, kept)))
    one = "algorithm" if legacy else "solver"
    lost = f"{numbered(dropped, 'slower or impossible result')} of the same {one} in a record"
    losses = [lost] if dropped else []
    if more:
        losses.append(f"the library or the key of the kernels of {numbered(more, 'result')}")
    return replace(database, records=records), losses


def _fields(text: str, database: Database, at: int) -> FindText:
    fields = fields_of(text)
    if fields is None:
        raise CorruptFileError(f"{database.where(at)}: {shown(text)!r} is no find result")
    return fields


def _fastest(found: list[FindText], key: str, legacy: bool) -> list[FindText]:
    """Of each id that the new record will have, the one with the smallest time that can be."""
    names = [each.algorithm if legacy else each.solver for each in found]
    if len(set(names)) == len(names):
        return found
    bounds = _bounds(key)
    best: dict[str, tuple[bool, float, int]] = {}
    for at, (name, each) in enumerate(zip(names, found, strict=True)):
        time = float(each.time)
        rank = (not _can_be(time, each.algorithm, bounds), time, at)
        best[name] = min(best.get(name, rank), rank)
    return [found[at] for at in sorted(at for _, _, at in best.values())]


def _bounds(text: str) -> Bounds | None:
    """Those of any device, as a CPU is one."""
    key = parse_find_key(text)
    usable = key and min(*key.stride, *key.dilation, key.groups) > 0
    return Bounds(key, SHORTEST_CALL_MS) if key and usable else None


def _can_be(time_ms: float, algorithm: str, bounds: Bounds | None) -> bool:
    if not possible_time(time_ms):
        return False
    parts = algorithm_parts(algorithm)
    least_ms = bounds.least_ms(parts[1] if parts else "") if bounds else SHORTEST_CALL_MS
    return time_ms >= least_ms
