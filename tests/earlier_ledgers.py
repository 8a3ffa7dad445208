"""Small ledgers that code of earlier formats wrote, and what that code answered from them.

`ledger/earlier/format_N.sql` was written by the code that its first line names; format 1 had the
same rows as format 2. All hold a tuning, a whole sweep, runs of commands with marks between them,
and the results of a decorated Triton kernel. `answers.json` is what the code of format 3 answered.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

FORMATS = (1, 2, 3, 4)
PROBLEM = "matmul:8x8x8:f32"
AUTOTUNED = "autotune:add_one/source=00/arguments=11/key=1000/triton=3.6.0"
GPU = "cuda:sm_90/132:abc"

_FOLDER = Path(__file__).parent / "ledger" / "earlier"


def make(directory: Path, version: int, replaced: Mapping[str, str] | None = None) -> Path:
    """The ledger of a format in a directory, perhaps with other texts in it."""
    script = (_FOLDER / f"format_{version}.sql").read_text(encoding="utf-8")
    for text, other in (replaced or {}).items():
        script = script.replace(text, other)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "ledger.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return path


def answers() -> dict[str, Any]:
    """What the code of the time answered, by what was asked."""
    found: dict[str, Any] = json.loads((_FOLDER / "answers.json").read_text(encoding="utf-8"))
    return found


def rows(path: Path) -> dict[str, set[tuple[object, ...]]]:
    """Every table as a set."""
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        return {
            name: set(connection.execute(f"SELECT * FROM {name}")) for (name,) in tables.fetchall()
        }


def version(path: Path) -> int:
    """The format of a file."""
    with closing(sqlite3.connect(path)) as connection:
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        return int(found)
