"""Names of database files, which say the device: ``gfx90878.HIP.fdb.txt`` is gfx908 with 120 units.

Up to 64 units are written as ``_60``, more of them in hexadecimal without a separator, which is
ambiguous unless one knows how long an architecture's name is: ``gfx`` and three digits up to gfx9,
four from gfx10 on. Other devices (CPUs, NVIDIA's) are always written as ``znver4_128``; MIOpen has
no names for those.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from skipjack.errors import UsageError
from skipjack.gpu.architectures import KNOWN

Kind = Literal["find", "perf", "perf_sqlite", "kernel", "user_kernel", "old_perf", "old_user_perf"]
SUFFIXES: dict[str, tuple[Kind, bool]] = {
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
"""What a name ends with, the kind, and whether its name says a version as users' files do."""
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
    """What a file's name says."""

    kind: Kind
    arch: str
    units: int
    """0 where the file is for all models of an architecture, as some kernel-dbs are."""
    backend: str = "HIP"
    """In names of find-dbs and of users' perf-dbs."""
    user_version: str = ""
    """Of MIOpen (``3_3_0_abc123``), or of the schema in SQLite (``1.1.0``): a user's file."""
    features: str = ""
    """``nosramecc``, ``sramecc``, ``xnack`` or two of them joined by ``_``."""
    batchnorm: bool = False


def db_name(name: DbName) -> str:
    """The file name for this."""
    if name.units < 0 or not name.arch or not _FEATURES.fullmatch(name.features):
        raise UsageError(f"there is no file name for {name}")
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


def kind_of_name(file_name: str) -> Kind | None:
    """By how a name ends."""
    return next((kind for end, (kind, _) in SUFFIXES.items() if file_name.endswith(end)), None)


def is_gpu(arch: str) -> bool:
    """Whether an architecture is one of AMD's or NVIDIA's GPUs, whatever stands before its name."""
    return "gfx" in arch or "sm_" in arch


def parse_db_name(file_name: str) -> DbName | None:
    """What a file's name says; None if it is not built like one of MIOpen's."""
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
