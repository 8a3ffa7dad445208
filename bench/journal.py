"""The cases of a long run as they are done, so that one that was interrupted goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import skipjack

Record = dict[str, Any]


class Journal:
    """A file of JSON lines: first what all cases have in common, then a case in each.

    A file that was begun under other circumstances is begun anew.
    """

    def __init__(
        self, path: Path, circumstances: Mapping[str, Any], *, again: bool = False
    ) -> None:
        self._path = path
        head = json.dumps({"circumstances": dict(circumstances)}, sort_keys=True)
        self.records: dict[str, Record] = {}
        if not again and path.is_file():
            first, *lines = path.read_text(encoding="utf-8").splitlines() or [""]
            if first == head:
                self._read(lines)
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = [json.dumps(record) for record in self.records.values()]
        path.write_text("\n".join([head, *kept, ""]), encoding="utf-8")

    def _read(self, lines: list[str]) -> None:
        for line in lines:
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                return  # the run ended while it wrote this line
            self.records[record["case"]] = record

    def add(self, record: Record) -> None:
        """A case that is done; one of the same name is replaced."""
        self.records[record["case"]] = record
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def remove(self) -> None:
        """When all is done."""
        self._path.unlink(missing_ok=True)


def code_digest() -> str:
    """Of Skipjack's sources: cases that were measured with the same code have the same."""
    root = Path(skipjack.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]
