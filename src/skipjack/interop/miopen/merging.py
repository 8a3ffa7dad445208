"""Several databases of one kind in one: the first counts, the others add what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from skipjack.interop.miopen.opening import Database
from skipjack.interop.miopen.records import Item, Record


def merged(first: Database, others: Sequence[Database]) -> Database:
    """Records and items of `first` as they are, then those of keys and ids that it has not."""
    places: dict[str, int] = {}
    records = list(first.records)
    for at, record in enumerate(records):
        places.setdefault(record.key, at)
    for other in others:
        for record in other.records:
            if record.key not in places:
                places[record.key] = len(records)
                records.append(record)
            else:
                at = places[record.key]
                records[at] = joined(records[at], record)
    bare = dict.fromkeys(key for each in (first, *others) for key in each.bare)
    still_bare = tuple(key for key in bare if key not in places)
    return replace(first, records=records, bare=still_bare)


def joined(record: Record, other: Record) -> Record:
    """A record with the items of another whose ids it has not."""
    have = record.items
    known = {item.id for item in have}
    new: list[Item] = []
    for item in other.items:
        if item.id not in known:
            known.add(item.id)
            new.append(item)
    return Record(record.key, (*have, *new)) if new else record
