"""Small databases and what is promoted into them."""

from __future__ import annotations

from pathlib import Path

from skipjack.fleet.release.formats import Contents, MergeRule, ReleaseFile
from skipjack.fleet.release.promote import Promoted, promote
from skipjack.fleet.release.promote.promotion import Release
from skipjack.interop.miopen import DatabaseRecord, RecordItem, write_text_db

FDB = "gfx90878.HIP.fdb.txt"
PDB = "gfx90878.db.txt"
DEVICE = "gfx908/120"
PERF_KEY = "2x128x28x28x1x3x3x1x256x64x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF"
OTHER_PERF_KEY = PERF_KEY.replace("2x128x28x28", "2x128x14x14")
ALGORITHM = "miopenConvolutionFwdAlgoDirect"


def key(channels: int) -> str:
    return f"{channels}-28-28-3x3-256-28-28-64-1x1-1x1-1x1-0-NCHW-FP32-F"


def find_record(channels: int, **times: float) -> DatabaseRecord:
    items = [RecordItem(name, f"{time:g},0,{ALGORITHM}") for name, time in times.items()]
    return DatabaseRecord(key(channels), items)


def contents(name: str, *records: DatabaseRecord) -> Contents:
    kind = "find-db" if "fdb" in name else "perf-db"
    file = ReleaseFile(DEVICE, lambda _: name, lambda path, _: write_text_db(path, records))
    return Contents(kind, "miopen", (file,))


def put(
    into: Path, *parts: Contents, rule: MergeRule = MergeRule.REPLACE_KEYS, label: str = "L"
) -> Promoted:
    return promote(Release(label, parts, rule), into)


def tree(directory: Path) -> dict[str, bytes]:
    """What others see of the directory."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def params(number: int) -> DatabaseRecord:
    return DatabaseRecord(PERF_KEY, [RecordItem("New", str(number))])


def both() -> Release:
    return Release("L", [contents(FDB, find_record(2, B=0.5)), contents(PDB, params(1))])
