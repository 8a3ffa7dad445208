"""Which database a file is: by its content, and by its name where the content leaves it open."""

from __future__ import annotations

import bz2
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from skipjack.core.problem import shown
from skipjack.errors import CorruptFileError, MalformedError, StorageError, UsageError
from skipjack.interop.miopen.file_bytes import BZIP2, file_bytes
from skipjack.interop.miopen.file_names import SUFFIXES
from skipjack.interop.miopen.find_values import fields_of
from skipjack.interop.miopen.keys import is_perf_key, parse_find_key
from skipjack.interop.miopen.records import Record
from skipjack.interop.miopen.sqlite_file import columns, reading
from skipjack.reading import read_json
from skipjack.storage.sqlite_files import MAGIC

Kind = Literal["find", "perf", "kernel"]
Storage = Literal["text", "sqlite", "jsonl"]
JSON_LINES = ".jsonl"
_HEAD = 1 << 16
_KINDS: dict[str, tuple[Kind, Storage]] = {
    "find": ("find", "text"),
    "perf": ("perf", "text"),
    "old_perf": ("perf", "text"),
    "old_user_perf": ("perf", "text"),
    "perf_sqlite": ("perf", "sqlite"),
    "kernel": ("kernel", "sqlite"),
    "user_kernel": ("kernel", "sqlite"),
}


@dataclass(frozen=True, slots=True)
class Format:
    """What is in a file, and how."""

    kind: Kind
    storage: Storage

    def __str__(self) -> str:
        ways = {"text": "text", "sqlite": "SQLite", "jsonl": "JSON lines"}
        return f"{self.kind}-db in {ways[self.storage]}"


def format_of(path: Path) -> Format:
    """Of a file that is there; `StorageError` or `UsageError` if it is no database."""
    head = _head(path)
    if head.startswith(MAGIC):
        return Format(_kind_of_tables(path), "sqlite")
    if head.lstrip().startswith(b"{"):
        return Format(_kind_of_json(_first_line(head, path), path), "jsonl")
    named = named_format(path.name.removesuffix(".bz2"))
    if named and named.storage == "sqlite":
        state = "is empty" if not head else "is not an SQLite file"
        raise CorruptFileError(f"{path} {state}, so it is no {named}; fetch it again")
    kind = _kind_of_lines(head, named.kind if named else None)
    if kind is None:
        raise UsageError(
            f"cannot tell what {path} is: no line is like one of a find-db or a perf-db; if it is "
            "one, give it a name that ends in .fdb.txt or .db.txt"
        )
    return Format(kind, "text")


def named_format(name: str) -> Format | None:
    """What a name's end says; None where it leaves the kind open, as JSON lines do."""
    ending = next((each for each in SUFFIXES if name.endswith(each)), None)
    return Format(*_KINDS[SUFFIXES[ending][0]]) if ending else None


def wanted_format(target: Path, source: Format) -> Format:
    """How a file of this name is to be written; `UsageError` if it cannot be."""
    name = target.name
    if name.endswith(".skk"):
        raise UsageError(
            f"cannot write {target}: .skk files hold kernels of ours and are written by "
            "skipjack export kernel-db"
        )
    if name.endswith(".bz2"):
        raise UsageError(f"cannot write {target}: .bz2 is read but not written; leave it out")
    if name.endswith(JSON_LINES):
        return Format(source.kind, "jsonl")
    wanted = named_format(name)
    if wanted is None and name.endswith(".txt") and source.kind != "kernel":
        return Format(source.kind, "text")
    if wanted is None:
        endings = ", ".join((*SUFFIXES, JSON_LINES))
        raise UsageError(f"cannot tell what {target} is to be; let its name end in {endings}")
    if wanted.kind != source.kind:
        raise UsageError(
            f"cannot write {target}: a {source.kind}-db does not hold what a {wanted.kind}-db does"
        )
    return wanted


def _head(path: Path) -> bytes:
    """The beginning of a file, unpacked."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return file_bytes(path)  # says why
    if head.startswith(BZIP2):
        try:
            with bz2.open(path) as packed:
                return packed.read(_HEAD)
        except (OSError, EOFError):
            return file_bytes(path)
    return file_bytes(path) if head.startswith(b"version ") else head


def _kind_of_tables(path: Path) -> Kind:
    with reading(path, "database of MIOpen") as connection:
        if columns(connection, "kern_db"):
            return "kernel"
        if columns(connection, "perf_db") or columns(connection, "config"):
            return "perf"
        ours = bool(columns(connection, "artifacts"))
    if ours:
        raise UsageError(
            f"{path} is a kernel database of ours (.skk), which MIOpen has no format for; programs "
            "open it with skipjack.kernels"
        )
    raise StorageError(f"{path} is an SQLite file, but no perf-db and no kernel-db")


def _first_line(head: bytes, path: Path) -> bytes:
    """All of it, also where it is longer than the beginning that was read."""
    text = head.lstrip()
    whole = text if b"\n" in text else file_bytes(path).lstrip()
    return whole.partition(b"\n")[0]


def _kind_of_json(line: bytes, path: Path) -> Kind:
    try:
        said = read_json(line, surrogates=True).get("kind")
    except MalformedError as error:
        raise CorruptFileError(f"{path}:1: not a line of JSON: {error}") from None
    kind = said.plain if said else None
    if kind not in ("find", "perf", "kernel"):
        raise StorageError(
            f"{path} holds JSON lines, but its first line has the kind {shown(str(kind))!r}; "
            "a database's has find, perf or kernel"
        )
    chosen: Kind = kind
    return chosen


def _kind_of_lines(head: bytes, named: Kind | None) -> Kind | None:
    """By the first line that tells; old perf-dbs have the keys of find-dbs, but no results."""
    keys_of_find = False
    for line in head.decode("utf-8", "replace").removeprefix("\ufeff").split("\n")[:100]:
        key, _, contents = line.partition("=")
        if is_perf_key(key):
            return "perf"
        if parse_find_key(key) is not None:
            if _is_result(contents):
                return "find"
            keys_of_find = True
    return named or ("perf" if keys_of_find else None)


def _is_result(contents: str) -> bool:
    """Whether an algorithm stands where parameters have a number."""
    if not contents.strip(";"):
        return False
    fields = fields_of(Record.of_texts("", contents).item_texts[0])
    return fields is not None and not fields.algorithm[0].isdigit()
