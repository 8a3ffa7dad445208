"""A sweep's result as files: CSV for spreadsheets, JSON for everything, read back as it was."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from math import isfinite
from pathlib import Path
from typing import Any

from skipjack.core.config import Config
from skipjack.core.trial import Status
from skipjack.errors import MalformedError, NewerFormatError, StorageError
from skipjack.reading import Field, parse_json
from skipjack.report.sweep_pareto import pareto_front
from skipjack.report.sweep_points import parameter_names
from skipjack.storage.atomic import atomic_write
from skipjack.sweep.result import SweepResult, SweepTrial

FORMAT = 1
KIND = "sweep"
_BEFORE = ("number", "purpose", "status", "cached", "built")
_AFTER = ("seconds", "build_seconds", "reason", "log")
_NO_NUMBERS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def csv_columns(result: SweepResult) -> list[str]:
    """The header: the same for every row, whatever a run has.

    A metric with the name of another column is told from it by ``metric.``, a parameter by
    ``parameter.``.
    """
    taken = {*_BEFORE, *_AFTER}
    parameters = [_told_apart(name, taken, "parameter") for name in parameter_names(result)]
    metrics = [_told_apart(name, taken, "metric") for name in _metric_names(result)]
    return [*_BEFORE, *parameters, *metrics, *_AFTER]


def _told_apart(name: str, taken: set[str], kind: str) -> str:
    """The name as it is, or with the kind before it; taken from now on."""
    while name in taken:
        name = f"{kind}.{name}"
    taken.add(name)
    return name


def _metric_names(result: SweepResult) -> list[str]:
    return sorted({name for trial in result.trials for name in trial.metrics})


def csv_text(result: SweepResult) -> str:
    """One row a run, in the order of the runs; quoted as RFC 4180 says."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(csv_columns(result))
    parameters, metrics = parameter_names(result), _metric_names(result)
    for trial in result.trials:
        point = [_cell(trial.point[name]) if name in trial.point else "" for name in parameters]
        measured = [_cell(trial.metrics.get(name, "")) for name in metrics]
        before = [_cell(getattr(trial, name)) for name in _BEFORE]
        writer.writerow([*before, *point, *measured, *(_cell(getattr(trial, n)) for n in _AFTER)])
    return stream.getvalue()


def _cell(value: Any) -> str:
    """Text as it is; anything else as JSON has it, so that None is no empty cell."""
    return str(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def write_csv(result: SweepResult, path: Path) -> None:
    """Replace `path`; readers see the old file or the new one."""
    atomic_write(path, csv_text(result).encode())


def to_json(result: SweepResult) -> dict[str, Any]:
    """Everything, as strict JSON has it: a number that is none is ``{"float": "nan"}``.

    With several objectives ``front`` has the points on the Pareto front; it is worked out again
    when a file is read.
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
    """Replace `path`; readers see the old file or the new one."""
    text = json.dumps(to_json(result), indent=1, ensure_ascii=False, allow_nan=False)
    atomic_write(path, f"{text}\n".encode())


def read_json(path: Path) -> SweepResult:
    """What `write_json` wrote. A file of a newer format is refused, and left as it is."""
    try:
        record = parse_json(path.read_bytes())
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error
    except MalformedError as error:
        raise StorageError(f"{path} is no JSON: {error}") from error
    return from_json(record, str(path))


def from_json(record: Any, where: str) -> SweepResult:
    """The result that `to_json` made this of; `where` is for complaints."""
    if not isinstance(record, dict) or record.get("kind") != KIND:
        raise StorageError(f"{where} is no result of a sweep; give a file that a sweep wrote")
    version = record.get("format")
    if not isinstance(version, int) or version < 1:
        raise StorageError(f"{where} does not say its format; it is no result of a sweep")
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
    """Without what is written beside the fields."""
    names = {item.name for item in fields(kind)}
    own = {name: value for name, value in record.mapping().items() if name in names}
    return replace(record, plain=own)


def _point(said: Field) -> Config | None:
    return None if said.null else Config.of(said.mapping())
