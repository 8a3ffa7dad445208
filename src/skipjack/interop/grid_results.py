"""Result directories that grid.py left: which point each is of, and what its run said.

``build/logs/grid_{system}_{benchmark}_{scenario}_{hash}``, where the hash is of the point; in it a
meta file with the point, written last, and somewhere below it LoadGen's detail log.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skipjack.core.config import Config
from skipjack.errors import StorageError
from skipjack.interop.loadgen_log import DETAIL_LOG, read_detail_log
from skipjack.reading import parse_json

_log = logging.getLogger(__name__)

LOGS = Path("build", "logs")
WORKLOAD = "skipjack_workload"
META_FILE = "autotuneMETAFILE.json"
_HASH_DIGITS = 10


@dataclass(frozen=True, slots=True)
class GridResult:
    """One finished run. Whether its result counts is among `stats`, as ``result_validity``."""

    point: Config
    stats: Mapping[str, Any]
    """All values of the detail log, and what was noted of the run, as ``start_temp``."""
    directory: Path
    detail_log: Path


def point_hash(point: Mapping[str, Any]) -> str:
    """The end of a directory's name. 1, 1.0 and True have three different ones."""
    text = json.dumps(dict(point), sort_keys=True)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:_HASH_DIGITS]


def result_directory(
    logs: Path, system_id: str, benchmark: str, scenario: str, point: Mapping[str, Any]
) -> Path:
    """Where the run of a point is, or would be."""
    return logs / f"grid_{system_id}_{benchmark}_{scenario}_{point_hash(point)}"


def read_result(directory: Path, point: Mapping[str, Any] | None = None) -> GridResult | None:
    """The run in a directory; None where there is none, or where it did not come to its end.

    With `point` the directory must be of that point: two points may have the same hash.
    """
    meta = _read_meta(directory / META_FILE)
    if meta is None:
        return None
    found = Config.of(meta["config"])
    if point is not None and found != Config.of(dict(point)):
        raise StorageError(
            f"{directory} has the result of {found}, not of {Config.of(dict(point))}, which has "
            "the same hash; move it away"
        )
    detail_log = _newest_log(directory)
    values = read_detail_log(detail_log).values if detail_log else {}
    if detail_log is None or "result_validity" not in values:
        _log.info("%s has no result in a %s; it is passed over", directory, DETAIL_LOG)
        return None
    run_info = meta.get("run_info")
    noted = run_info if isinstance(run_info, dict) else {}
    return GridResult(found, {**values, **noted}, directory, detail_log)


def write_meta(
    directory: Path, point: Mapping[str, Any], start_temp: float | None = None, workload: str = ""
) -> None:
    """Mark a run in `directory` as finished, so that it is found again, by grid.py too.

    `workload` tells base config and commands from others; grid.py pays no heed to it.
    """
    run_info: dict[str, Any] = {} if start_temp is None else {"start_temp": start_temp}
    if workload:
        run_info[WORKLOAD] = workload
    content = json.dumps({"config": dict(point), "run_info": run_info})
    (directory / META_FILE).write_text(content, encoding="utf-8")


def read_results(
    logs: Path, system_id: str = "*", benchmark: str = "*", scenario: str = "*"
) -> list[GridResult]:
    """All finished runs below a directory, in the order in which they were made."""
    pattern = f"grid_{system_id}_{benchmark}_{scenario}_" + "[0-9a-f]" * _HASH_DIGITS
    found = (read_result(directory) for directory in sorted(logs.glob(pattern)))
    results = [result for result in found if result is not None]
    return sorted(results, key=lambda result: (result.directory / META_FILE).stat().st_mtime_ns)


def _read_meta(path: Path) -> dict[str, Any] | None:
    try:
        meta = parse_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _log.warning("%s cannot be read, so that its run is not known: %s", path, error)
        return None
    if not isinstance(meta, dict) or not isinstance(meta.get("config"), dict):
        _log.warning("%s says no point, so that its run is not known", path)
        return None
    return meta


def _newest_log(directory: Path) -> Path | None:
    """A directory that was run into again has several; the last run is the one that counts."""
    logs = sorted(directory.rglob(DETAIL_LOG))
    return max(logs, key=lambda log: log.stat().st_mtime_ns, default=None)
