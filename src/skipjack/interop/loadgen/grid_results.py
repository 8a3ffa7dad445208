"""Result directories of grid.py: the point of each, and the results of its run.

``build/logs/grid_{system}_{benchmark}_{scenario}_{hash}`` with a hash of the point contains a meta
file with the point, which is written last, and, possibly in a folder, LoadGen's detail log.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skipjack.core import Config
from skipjack.errors import StorageError
from skipjack.interop.loadgen.detail_log import DETAIL_LOG, read_detail_log
from skipjack.reading import parse_json

_log = logging.getLogger(__name__)

LOGS = Path("build", "logs")
WORKLOAD = "skipjack_workload"
META_FILE = "autotuneMETAFILE.json"
_HASH_DIGITS = 10


@dataclass(frozen=True, slots=True)
class GridResult:
    """One finished run. Its validity is in `stats`, as ``result_validity``."""

    point: Config
    stats: Mapping[str, Any]
    """All values of the detail log, and notes about the run, such as ``start_temp``."""
    directory: Path
    detail_log: Path


def point_hash(point: Mapping[str, Any]) -> str:
    """The hash in a directory's name. 1, 1.0 and True have different hashes."""
    text = json.dumps(dict(point), sort_keys=True)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:_HASH_DIGITS]


def result_directory(
    logs: Path, system_id: str, benchmark: str, scenario: str, point: Mapping[str, Any]
) -> Path:
    """The directory for the run of a point, which need not exist."""
    return logs / f"grid_{system_id}_{benchmark}_{scenario}_{point_hash(point)}"


def read_result(directory: Path, point: Mapping[str, Any] | None = None) -> GridResult | None:
    """The run in a directory; None if there is none, or if it did not finish.

    `StorageError` if the directory is of another point than `point`, as hashes may collide.
    """
    meta = _read_meta(directory / META_FILE)
    if meta is None:
        return None
    found = Config.of(meta["config"])
    if point is not None and found != Config.of(dict(point)):
        raise StorageError(
            f"{directory} has the result of {found}, not of {Config.of(dict(point))}, which has "
            "the same hash; move the directory away"
        )
    detail_log = _newest_log(directory)
    values = read_detail_log(detail_log).values if detail_log else {}
    if detail_log is None or "result_validity" not in values:
        _log.info("%s has no result in a %s; it is skipped", directory, DETAIL_LOG)
        return None
    run_info = meta.get("run_info")
    noted = run_info if isinstance(run_info, dict) else {}
    return GridResult(found, {**values, **noted}, directory, detail_log)


def write_meta(
    directory: Path, point: Mapping[str, Any], start_temp: float | None = None, workload: str = ""
) -> None:
    """Mark a run in `directory` as finished, so that Skipjack and grid.py find it again.

    `workload` identifies the base config and the commands; grid.py ignores it.
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
        _log.warning("%s cannot be read, so its run is ignored: %s", path, error)
        return None
    if not isinstance(meta, dict) or not isinstance(meta.get("config"), dict):
        _log.warning("%s has no point, so its run is ignored", path)
        return None
    return meta


def _newest_log(directory: Path) -> Path | None:
    """The newest log; a directory has several if its run was repeated."""
    logs = sorted(directory.rglob(DETAIL_LOG))
    return max(logs, key=lambda log: log.stat().st_mtime_ns, default=None)
