"""Keys of perf-dbs in the style that a file's name asks for.

Old perf-dbs (``.cd.pdb.txt``) have the keys of find-dbs, which say one size more than those of
today: so they can be made from old ones, but not the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from skipjack.core.problem import shown
from skipjack.errors import UsageError
from skipjack.interop.miopen.file_names import kind_of_name
from skipjack.interop.miopen.keys import is_perf_key, parse_find_key
from skipjack.interop.miopen.merging import joined
from skipjack.interop.miopen.opening import Database
from skipjack.interop.miopen.records import Record
from skipjack.reading import numbered

OLD_KINDS = ("old_perf", "old_user_perf")
NEW_KINDS = ("perf", "perf_sqlite")


def with_keys_for(target: Path, database: Database) -> tuple[Database, list[str]]:
    """Records with keys that MIOpen looks for in a file of this name, and what that loses."""
    kind = kind_of_name(target.name)
    if kind in OLD_KINDS:
        _refuse_new_keys(target, database)
    if kind not in NEW_KINDS:
        return database, []
    texts = [_perf_text(record.key) for record in database.records]
    changed = sum(text is not None for text in texts)
    if not changed:
        return database, []
    renamed = [
        record if text is None else Record.of_texts(text, record.contents)
        for record, text in zip(database.records, texts, strict=True)
    ]
    records, lost = _one_of_each(renamed)
    losses = [f"the second image's size of {numbered(changed, 'old key')}"]
    if lost:
        losses.append(f"{numbered(lost, 'item')} whose solver stands before under the same key")
    return replace(database, records=records, lines=()), losses


def _refuse_new_keys(target: Path, database: Database) -> None:
    for at, record in enumerate(database.records):
        if is_perf_key(record.key):
            raise UsageError(
                f"cannot write {target}: its keys say the second image's size, which "
                f"{shown(record.key)!r} ({database.where(at)}) does not; write .db.txt or .db"
            )


def _perf_text(text: str) -> str | None:
    key = parse_find_key(text)
    return key.perf_text if key else None


def _one_of_each(records: Sequence[Record]) -> tuple[list[Record], int]:
    """Records of one key as one, the first of each solver; and how many items that leaves out."""
    found: dict[str, Record] = {}
    before = after = 0
    for record in records:
        have = found.get(record.key)
        found[record.key] = record if have is None else joined(have, record)
        before += len(record.ids)
    after = sum(len(record.ids) for record in found.values())
    return list(found.values()), before - after
