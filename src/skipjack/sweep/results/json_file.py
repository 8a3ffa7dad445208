"""A sweep's result as a JSON file, which is read back as it was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from math import isfinite
from pathlib import Path
from typing import Any

from skipjack.core import Config, Status
from skipjack.errors import MalformedError, NewerFormatError, StorageError
from skipjack.reading import Field, parse_json
from skipjack.storage import atomic_write
from skipjack.sweep.engine import SweepResult, SweepTrial
from skipjack.sweep.results.points import pareto_front

FORMAT = 1
KIND = "sweep"
_NO_NUMBERS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def to_json(result: SweepResult) -> dict[str, Any]:
    """The whole result as strict JSON, in which NaN is ``{"float": "nan"}``.

    With several objectives, ``front`` has the points on the Pareto front; it is computed again when
    a file is read.
    """
    front = [dict(summary.point) for summary in pareto_front(result)]
    record = {
        **{item.name: getattr(result, item.name) for item in fields(result)},
        "objectives": [asdict(objective) for objective in result.objectives],
        "trials": [_trial_record(trial) for trial in result.trials],
        "gain": asdict(result.gain) if result.gain else None,
    }
    encoded = {name: _encoded(value) for name, value in record.items()}
    return {"format": FORMAT, "kind": KIND, **encoded, "front": _encoded(front)}


def _trial_record(trial: SweepTrial) -> dict[str, Any]:
    return {item.name: getattr(trial, item.name) for item in fields(trial)}


def _encoded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _encoded(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encoded(item) for item in value]
    if isinstance(value, Status):
        return value.value
    if isinstance(value, float) and not isfinite(value):
        return {"float": str(value)}
    return value


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"float"} and value["float"] in _NO_NUMBERS:
        return _NO_NUMBERS[value["float"]]
    return {name: _decoded(item) for name, item in value.items()}


def write_json(result: SweepResult, path: Path) -> None:
    """Replace `path` atomically."""
    text = json.dumps(to_json(result), indent=1, ensure_ascii=False, allow_nan=False)
    atomic_write(path, f"{text}\n".encode())


def read_json(path: Path) -> SweepResult:
    """Read a file of `write_json`. A file of a newer format is refused."""
    try:
        record = parse_json(path.read_bytes())
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error
    except MalformedError as error:
        raise StorageError(f"{path} is not JSON: {error}") from error
    return from_json(record, str(path))


def from_json(record: Any, where: str) -> SweepResult:
    """The result from a record of `to_json`; `where` is its name in errors."""
    if not isinstance(record, dict) or record.get("kind") != KIND:
        raise StorageError(f"{where} is not a result of a sweep; give a file that a sweep wrote")
    version = record.get("format")
    if not isinstance(version, int) or version < 1:
        raise StorageError(f"{where} has no format number; it is not a result of a sweep")
    if version > FORMAT:
        raise NewerFormatError(
            f"{where} has format {version} of sweep results, and this Skipjack reads formats up to "
            f"{FORMAT}; install the version that wrote it"
        )
    try:
        return _result(Field(_decoded(record), finite=False))
    except MalformedError as error:
        raise StorageError(
            f"{where} is damaged: {error}; run the sweep again to write it"
        ) from error


def _result(record: Field) -> SweepResult:
    return _own(record, SweepResult).of(
        SweepResult,
        trials=tuple(_trial(trial) for trial in record["trials"].elements()),
        best=_point(record["best"]),
        baseline=_point(record["baseline"]),
    )


def _trial(record: Field) -> SweepTrial:
    return _own(record, SweepTrial).of(SweepTrial, point=Config.of(record["point"].mapping()))


def _own(record: Field, kind: type[SweepResult] | type[SweepTrial]) -> Field:
    """The record without entries that are not fields."""
    names = {item.name for item in fields(kind)}
    own = {name: value for name, value in record.mapping().items() if name in names}
    return replace(record, plain=own)


def _point(said: Field) -> Config | None:
    return None if said.null else Config.of(said.mapping())
