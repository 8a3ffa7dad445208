"""Which database a file is: by its name, which says the device, and by its content."""

from __future__ import annotations

import bz2
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from skipjack.core import excerpt
from skipjack.errors import CorruptFileError, MalformedError, StorageError, UsageError
from skipjack.gpu import KNOWN
from skipjack.interop.miopen.file_access import BZIP2, columns, file_bytes, open_for_reading
from skipjack.interop.miopen.find_values import fields_of
from skipjack.interop.miopen.keys import is_perf_key, parse_find_key
from skipjack.interop.miopen.text_db import DatabaseRecord
from skipjack.reading import read_json
from skipjack.storage import MAGIC

# Names of database files, which contain the device: ``gfx90878.HIP.fdb.txt`` is gfx908/120.
#
# Up to 64 units are written as ``_60``, more units in hexadecimal without a separator. This is only
# unambiguous with the length of an architecture's name: ``gfx`` and three digits up to gfx9, four
# from gfx10 on. Other devices (CPUs, NVIDIA GPUs) are always written as ``znver4_128``; MIOpen has
# no names for them.

FileKind = Literal[
    "find", "perf", "perf_sqlite", "kernel", "user_kernel", "old_perf", "old_user_perf"
]
SUFFIXES: dict[str, tuple[FileKind, bool]] = {
    ".cd.pdb.txt": ("old_perf", False),
    ".cd.updb.txt": ("old_user_perf", False),
    ".ufdb.txt": ("find", True),
    ".fdb.txt": ("find", False),
    ".udb.txt": ("perf", True),
    ".db.txt": ("perf", False),
    ".udb": ("perf_sqlite", True),
    ".db": ("perf_sqlite", False),
    ".ukdb": ("user_kernel", True),
    ".kdb": ("kernel", False),
}
"""The kind for each ending, and whether the name has a version, as those of user files."""
_BATCHNORM = "batchnorm_"
_MOST_DECIMAL = 64
_GFX = re.compile(
    r"(?P<arch>gfx(?:1[0-9a-f]{3}|[2-9][0-9a-f]{2}))"
    r"(?P<features>(?:_(?:no)?sramecc)?(?:_xnack)?)"
    r"(?:_(?P<decimal>\d{1,6})|(?P<hex>[1-9a-f][0-9a-f]{0,4}))?"
)
_GFX_ARCH = re.compile(r"gfx(?:1[0-9a-f]{3}|[2-9][0-9a-f]{2})")
_OTHER = re.compile(r"(?P<arch>[A-Za-z0-9][\w-]*?)_(?P<units>\d{1,6})", re.ASCII)
_FEATURES = re.compile(r"(?:(?:no)?sramecc)?_?(?:xnack)?")
_SQLITE_VERSION = re.compile(r"(?P<base>.+)_(?P<version>\d+\.\d+\.\d+)", re.ASCII)
_BACKEND = re.compile(r"[A-Za-z]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class DbName:
    """The parts of a file name."""

    kind: FileKind
    arch: str
    units: int
    """0 if the file is for all models of an architecture, as some kernel-dbs are."""
    backend: str = "HIP"
    """Only in names of find-dbs and of user perf-dbs."""
    user_version: str = ""
    """In user files: the version of MIOpen (``3_3_0_abc123``) or of the schema (``1.1.0``)."""
    features: str = ""
    """``nosramecc``, ``sramecc``, ``xnack`` or two of them joined by ``_``."""
    batchnorm: bool = False


def db_name(name: DbName) -> str:
    if name.units < 0 or not name.arch or not _FEATURES.fullmatch(name.features):
        raise UsageError(f"{name} has no file name")
    base = f"{_BATCHNORM if name.batchnorm else ''}{_base(name)}"
    version = f".{name.user_version}" if name.user_version else ""
    match name.kind:
        case "find":
            return f"{base}.{name.backend}{version}.{'u' if version else ''}fdb.txt"
        case "perf":
            return f"{base}.{name.backend}{version}.udb.txt" if version else f"{base}.db.txt"
        case "perf_sqlite":
            return f"{base}_{name.user_version}.udb" if version else f"{base}.db"
        case "kernel":
            return f"{base}.kdb"
        case "user_kernel":
            return f"{base}.ukdb"
        case "old_perf":
            return f"{base}.cd.pdb.txt"
        case "old_user_perf":
            return f"{base}.cd.updb.txt"


def _base(name: DbName) -> str:
    if not _GFX_ARCH.fullmatch(name.arch):
        return f"{name.arch}_{name.units}" if name.units else name.arch
    features = f"_{name.features}" if name.features else ""
    if not name.units:
        return f"{name.arch}{features}"
    count = f"_{name.units}" if name.units <= _MOST_DECIMAL else f"{name.units:x}"
    return f"{name.arch}{features}{count}"


def kind_of_name(file_name: str) -> FileKind | None:
    """The kind of a file by the ending of its name."""
    return next((kind for end, (kind, _) in SUFFIXES.items() if file_name.endswith(end)), None)


def is_gpu(arch: str) -> bool:
    """Whether an architecture is a GPU of AMD or NVIDIA, with or without a prefix."""
    return "gfx" in arch or "sm_" in arch


def parse_db_name(file_name: str) -> DbName | None:
    """The parts of a file name; None if it does not have the form of MIOpen's names."""
    ending = next((each for each in SUFFIXES if file_name.endswith(each)), None)
    if ending is None:
        return None
    kind, user = SUFFIXES[ending]
    rest = file_name.removesuffix(ending)
    batchnorm = rest.startswith(_BATCHNORM)
    rest = rest.removeprefix(_BATCHNORM)
    backend, version = "", ""
    if kind == "perf_sqlite" and user:
        match = _SQLITE_VERSION.fullmatch(rest)
        if match is None:
            return None
        rest, version = match["base"], match["version"]
    elif kind == "find" or (kind == "perf" and user):
        rest, _, words = rest.partition(".")
        backend, _, version = words.partition(".")
        if not _BACKEND.fullmatch(backend) or bool(version) != user:
            return None
    device = _device(rest)
    if device is None:
        return None
    arch, units, features = device
    return DbName(kind, arch, units, backend or "HIP", version, features, batchnorm)


def _device(base: str) -> tuple[str, int, str] | None:
    """Architecture, units and features."""
    match = _GFX.fullmatch(base)
    if match is not None:
        units = int(match["decimal"]) if match["decimal"] else int(match["hex"] or "0", 16)
        return match["arch"], units, match["features"].removeprefix("_")
    if base in KNOWN:
        return base, 0, ""
    match = _OTHER.fullmatch(base)
    if match is None or base.startswith("gfx"):
        return None
    return match["arch"], int(match["units"]), ""


# Formats of database files, detected by content and, if that is ambiguous, by name.

DatabaseKind = Literal["find", "perf", "kernel"]
Storage = Literal["text", "sqlite", "jsonl"]
JSON_LINES = ".jsonl"
_HEAD = 1 << 16
_KINDS: dict[str, tuple[DatabaseKind, Storage]] = {
    "find": ("find", "text"),
    "perf": ("perf", "text"),
    "old_perf": ("perf", "text"),
    "old_user_perf": ("perf", "text"),
    "perf_sqlite": ("perf", "sqlite"),
    "kernel": ("kernel", "sqlite"),
    "user_kernel": ("kernel", "sqlite"),
}


@dataclass(frozen=True, slots=True)
class DatabaseFormat:
    """The kind of a database, and how it is stored."""

    kind: DatabaseKind
    storage: Storage

    def __str__(self) -> str:
        ways = {"text": "text", "sqlite": "SQLite", "jsonl": "JSON lines"}
        return f"{self.kind}-db in {ways[self.storage]}"


def format_of(path: Path) -> DatabaseFormat:
    """The format of an existing file; `StorageError` or `UsageError` if it is not a database."""
    head = _head(path)
    if head.startswith(MAGIC):
        return DatabaseFormat(_kind_of_tables(path), "sqlite")
    if head.lstrip().startswith(b"{"):
        return DatabaseFormat(_kind_of_json(_first_line(head, path), path), "jsonl")
    named = named_format(path.name.removesuffix(".bz2"))
    if named and named.storage == "sqlite":
        state = "is empty" if not head else "is not an SQLite file"
        raise CorruptFileError(f"{path} {state}, so it is not a {named}; fetch it again")
    kind = _kind_of_lines(head, named.kind if named else None)
    if kind is None:
        raise UsageError(
            f"cannot detect the format of {path}: no line is like one of a find-db or perf-db; if "
            "it is one, give it a name that ends in .fdb.txt or .db.txt"
        )
    return DatabaseFormat(kind, "text")


def named_format(name: str) -> DatabaseFormat | None:
    """The format of a file name by its ending; None if it is unknown, as for JSON lines."""
    ending = next((each for each in SUFFIXES if name.endswith(each)), None)
    return DatabaseFormat(*_KINDS[SUFFIXES[ending][0]]) if ending else None


def wanted_format(target: Path, source: DatabaseFormat) -> DatabaseFormat:
    """The format for writing a file with this name; `UsageError` if it is impossible."""
    name = target.name
    if name.endswith(".skk"):
        raise UsageError(
            f"cannot write {target}: .skk files contain kernels of Skipjack; "
            "skipjack export kernel-db writes them"
        )
    if name.endswith(".bz2"):
        raise UsageError(
            f"cannot write {target}: packed files can be read but not written; omit .bz2"
        )
    if name.endswith(JSON_LINES):
        return DatabaseFormat(source.kind, "jsonl")
    target_format = named_format(name)
    if target_format is None and name.endswith(".txt") and source.kind != "kernel":
        return DatabaseFormat(source.kind, "text")
    if target_format is None:
        endings = ", ".join((*SUFFIXES, JSON_LINES))
        raise UsageError(f"cannot tell the format of {target}; use a name that ends in {endings}")
    if target_format.kind != source.kind:
        raise UsageError(
            f"cannot write {target}: a {source.kind}-db cannot be converted to a "
            f"{target_format.kind}-db"
        )
    return target_format


def _head(path: Path) -> bytes:
    """The beginning of a file, unpacked."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return file_bytes(path)  # raises an error with the reason
    if head.startswith(BZIP2):
        try:
            with bz2.open(path) as packed:
                return packed.read(_HEAD)
        except (OSError, EOFError):
            return file_bytes(path)
    return file_bytes(path) if head.startswith(b"version ") else head


def _kind_of_tables(path: Path) -> DatabaseKind:
    with open_for_reading(path, "database of MIOpen") as connection:
        if columns(connection, "kern_db"):
            return "kernel"
        if columns(connection, "perf_db") or columns(connection, "config"):
            return "perf"
        ours = bool(columns(connection, "artifacts"))
    if ours:
        raise UsageError(
            f"{path} is a kernel database of Skipjack (.skk), which has no format of MIOpen; "
            "programs open it with skipjack.kernels"
        )
    raise StorageError(f"{path} is an SQLite file, but neither a perf-db nor a kernel-db")


def _first_line(head: bytes, path: Path) -> bytes:
    """The complete first line, even if it is longer than `head`."""
    text = head.lstrip()
    whole = text if b"\n" in text else file_bytes(path).lstrip()
    return whole.partition(b"\n")[0]


def _kind_of_json(line: bytes, path: Path) -> DatabaseKind:
    try:
        kind_field = read_json(line, surrogates=True).get("kind")
    except MalformedError as error:
        raise CorruptFileError(f"{path}:1: not a line of JSON: {error}") from None
    kind = kind_field.plain if kind_field else None
    if kind not in ("find", "perf", "kernel"):
        raise StorageError(
            f"{path} contains JSON lines, but the kind of its first line is "
            f"{excerpt(str(kind))!r}; it must be find, perf or kernel"
        )
    chosen: DatabaseKind = kind
    return chosen


def _kind_of_lines(head: bytes, named: DatabaseKind | None) -> DatabaseKind | None:
    """The kind by the first decisive line; old perf-dbs have keys of find-dbs without results."""
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
    """Whether the contents have an algorithm at the position where parameters have a number."""
    if not contents.strip(";"):
        return False
    fields = fields_of(DatabaseRecord.of_texts("", contents).item_texts[0])
    return fields is not None and not fields.algorithm[0].isdigit()
