"""Rows as ledgers up to format 4 had them, and what they are today.

Measurements had times in nanoseconds, metrics without units, and what else there was to say of a
run among the metrics. Runs of commands had the seconds that they took as samples, and some rows
were no measurements at all, but marks for later runs.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from skipjack.core.objective import Metric
from skipjack.ledger.metrics import NOT_FINITE, TIME, unit_of
from skipjack.ledger.sequence import number_of
from skipjack.reading import parse_json

_COMMAND = "command"
"""The solver of runs of commands."""
_OURS = "skipjack."
"""Prefix of what was kept beside the metrics of a command."""


class _Converted(NamedTuple):
    metrics: str
    reason: str
    details: str | None


def register(connection: sqlite3.Connection) -> None:
    """Let the migration's SQL call what is here."""
    for place, name in enumerate(_Converted._fields):

        def convert(solver: Any, samples: bytes, metrics: bytes, at: int = place) -> str | None:
            converted = _convert(solver, samples, metrics)
            return converted[at] if converted else None

        connection.create_function(f"format_5_{name}", 3, convert, deterministic=True)
    connection.create_function("format_5_seq", 1, number_of, deterministic=True)


def converted_row(table: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of results that travelled, as a ledger has it today: all of them were of kernels."""
    new = dict(row)
    if table == "measurements" and "samples_ns" in new:
        samples, metrics = str(new.pop("samples_ns")), str(new.pop("metrics", ""))
        if converted := _convert("", samples.encode(), metrics.encode()):
            new.update(converted._asdict())
        new["status"] = new.pop("verdict", None)
        new["seq"] = number_of(str(row.get("created")))
    return new


@lru_cache(maxsize=8)
def _convert(solver: str | None, samples: bytes, metrics: bytes) -> _Converted | None:
    """The columns of today; None where what the row says cannot be read."""
    try:
        times_ns, named = (parse_json(text, finite=False) for text in (samples, metrics))
        return _of_command(times_ns, named) if solver == _COMMAND else _of_kernel(times_ns, named)
    except (ValueError, TypeError, AttributeError):
        return None


def _of_kernel(times_ns: list[float], named: dict[str, Metric]) -> _Converted:
    reason = str(named.pop("reason", ""))
    metrics = {f"reported {name}" if name == TIME else name: named[name] for name in named}
    return _Converted(_encoded({TIME: times_ns}, metrics), _text(reason), None)


def _of_command(times_ns: list[float], named: dict[str, Metric]) -> _Converted:
    details: dict[str, Any] = {
        name.removeprefix(_OURS): value for name, value in named.items() if name.startswith(_OURS)
    }
    samples = {f"{_OURS}run_seconds": [ns / 1e9 for ns in times_ns]}
    if "build_seconds" in details:
        samples[f"{_OURS}build_seconds"] = [details.pop("build_seconds")]
    reason = str(details.pop("reason", ""))
    if "notes" in details:
        details["notes"] = _notes(details["notes"])
    if details.get("timeout_s") == "inf":
        del details["timeout_s"]
    metrics = {name: value for name, value in named.items() if not name.startswith(_OURS)}
    kept = json.dumps(details, sort_keys=True, separators=(",", ":")) if details else None
    return _Converted(_encoded(samples, metrics), _text(reason), kept)


def _notes(text: Any) -> Any:
    try:
        return parse_json(text, finite=False)
    except (ValueError, TypeError, AttributeError):
        return text


def _encoded(samples: Mapping[str, list[float]], metrics: Mapping[str, Metric]) -> str:
    named: dict[str, list[Any]] = {name: [value] for name, value in metrics.items()}
    listed = {
        name: {"samples": values, "unit": "" if _is_word(values) else unit_of(name)}
        for name, values in {**named, **samples}.items()
    }
    return json.dumps(listed, sort_keys=True, separators=(",", ":"))


def _is_word(values: list[Any]) -> bool:
    return any(isinstance(value, str) and value not in NOT_FINITE for value in values)


def _text(reason: str) -> str:
    """What can be stored as UTF-8."""
    return reason.encode("utf-8", "backslashreplace").decode()
