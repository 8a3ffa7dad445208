"""The conversion between records and rows: JSON texts, content ids, inserts."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from skipjack.core import Config, Metric, Status, Trial
from skipjack.errors import MalformedError
from skipjack.ledger.records import (
    NOT_FINITE,
    BuildRecord,
    CandidateKey,
    DecisionRecord,
    LogEntry,
    MarkKind,
    MarkRecord,
    MeasurementRecord,
    MetricSamples,
    StudyRecord,
)
from skipjack.reading import described, parse_json, read_json

if TYPE_CHECKING:
    from skipjack.core import Study

Row = Mapping[str, Any]


def insert(connection: sqlite3.Connection, table: str, rows: Sequence[Row]) -> None:
    """Insert rows with the same columns in one order; those with a known id are skipped."""
    if rows:
        statement = _insertion(table, tuple(rows[0]))
        connection.executemany(statement, [tuple(row.values()) for row in rows])


@lru_cache(maxsize=64)
def _insertion(table: str, columns: tuple[str, ...]) -> str:
    marks = ", ".join("?" * len(columns))
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}) ON CONFLICT (id) DO NOTHING"
    )


def content_id(*parts: object) -> str:
    """A digest of the parts, so that equal content has equal ids in all ledgers."""
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()[:32]


def identified(row: Row) -> Row:
    """The row with an id made of all its values."""
    return {"id": content_id(*row.values()), **row}


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def canonical_json(value: object) -> str:
    """Compact JSON with sorted keys; the same value gives the same text."""
    return _ENCODER.encode(value)


def encode_metrics(metrics: Mapping[str, Metric]) -> str:
    """Named numbers and words as JSON; infinities, which JSON does not have, become texts."""
    return canonical_json({name: _encode(metric) for name, metric in metrics.items()})


def decode_metrics(text: str) -> dict[str, Metric]:
    """The inverse of `encode_metrics`."""
    return {name: _decode(metric) for name, metric in parse_json(text).items()}


def decode_numbers(text: str) -> dict[str, float]:
    """The inverse of `encode_metrics` for numbers only."""
    return {name: float(number) for name, number in parse_json(text).items()}


def encode_samples(metrics: Mapping[str, MetricSamples]) -> str:
    """Named samples as JSON: ``{"time_ns": {"samples": [1.5, 1.25], "unit": "ns"}}``."""
    return canonical_json(
        {
            name: {"samples": [_encode(value) for value in one.values], "unit": one.unit}
            for name, one in metrics.items()
        }
    )


def decode_samples(text: str) -> dict[str, MetricSamples]:
    """The inverse of `encode_samples`."""
    return {name: _samples(one) for name, one in parse_json(text).items()}


def _samples(one: Mapping[str, Any]) -> MetricSamples:
    unit = one["unit"]
    if not isinstance(unit, str):
        raise MalformedError(f"unit: expected a text, found {described(unit)}")
    values = one["samples"]
    if not isinstance(values, list):
        raise MalformedError(f"samples: expected a list, found {described(values)}")
    return MetricSamples(unit, tuple([v if type(v) is float else _decode(v) for v in values]))


def decode_details(text: str | None) -> dict[str, Any]:
    """Further facts about a run; texts may have surrogates for bytes that are not UTF-8."""
    return dict(parse_json(text, surrogates=True)) if text else {}


def _encode(metric: Metric) -> Metric:
    if isinstance(metric, str) or math.isfinite(metric):
        return metric
    return str(float(metric))


def _decode(metric: Metric) -> Metric:
    if isinstance(metric, str):
        return float(metric) if metric in NOT_FINITE else metric
    return float(metric)


@lru_cache(maxsize=4096)
def candidate_id(candidate: CandidateKey) -> str:
    """The id of a candidate, which is the same in all ledgers."""
    return content_id(
        candidate.problem, candidate.solver, candidate.solver_version, candidate.config
    )


def candidate_rows(candidates: Iterable[CandidateKey], created: str) -> list[Row]:
    """Rows of `candidates`, each once."""
    return [
        {
            "id": candidate_id(candidate),
            "problem": candidate.problem,
            "solver": candidate.solver,
            "solver_version": candidate.solver_version,
            "config": candidate.config,
            "created": created,
        }
        for candidate in dict.fromkeys(candidates)
    ]


@lru_cache(maxsize=64)
def protocol_id(protocol: str) -> str:
    """The id of a protocol, which is the same in all ledgers."""
    return content_id(protocol)


def protocol_rows(protocols: Iterable[str], created: str) -> list[Row]:
    """Rows of `protocols`, each once."""
    return [
        {"id": protocol_id(text), "text": text, "created": created}
        for text in dict.fromkeys(protocols)
    ]


def study_row(study: Study, created: str) -> Row:
    """A row of `studies`."""
    return {
        "id": study.id,
        **study_columns(study),
        "protocol": protocol_id(study.protocol.key),
        "created": created,
    }


def study_columns(study: Study) -> Row:
    """The columns of a study; its protocol is given as text."""
    return {
        "problem": study.problem.key,
        "solver": study.solver,
        "device": study.device,
        "searcher": study.searcher,
        "seed": str(study.seed),
        "space": study.space,
        "objective": study.objective.text,
        "protocol": study.protocol.key,
    }


def tell_columns(trial: Trial) -> Row:
    """The columns of `study_log` that a tell fills."""
    value = trial.value
    # NaN is not comparable, and SQLite does not have it.
    usable = trial.ok and value is not None and not math.isnan(value)
    return {
        "kind": "tell",
        "config": trial.config.key,
        "status": trial.status.value,
        "value": value if usable else None,
        "spread": trial.spread,
        "reason": trial.reason,
        "metrics": encode_metrics(trial.metrics),
    }


def ask_columns(config: Config) -> Row:
    """The columns of `study_log` that an ask fills."""
    empty = dict.fromkeys(("status", "value", "spread", "reason", "metrics"))
    return {"kind": "ask", "config": config.key, **empty}


def log_entry(row: Row) -> LogEntry:
    """A row of `study_log`."""
    config = Config.from_key(row["config"])
    trial = None
    if row["kind"] == "tell":
        trial = Trial(
            config=config,
            status=Status(row["status"]),
            value=row["value"],
            spread=row["spread"] or 0.0,
            reason=row["reason"] or "",
            metrics=decode_metrics(row["metrics"] or "{}"),
        )
    return LogEntry(row["seq"], row["kind"], config, trial, row["created"])


def study_record(row: Row) -> StudyRecord:
    """A row of the query over studies and their current epochs."""
    return StudyRecord(**{**row, "seed": seed_of(row["seed"])})


def seed_of(text: str) -> int:
    """The seed in a text, in which it is stored because it may have more than 64 bits."""
    try:
        return int(text)
    except ValueError:
        raise MalformedError(f"seed: expected a whole number, found {described(text)}") from None


def build_row(build: BuildRecord, created: str) -> Row:
    """A row of `builds`."""
    return identified(
        {
            "source_digest": build.source_digest,
            "compat": build.compat,
            "status": build.status.value,
            "artifact_digest": build.artifact_digest,
            "symbol": build.symbol,
            "abi": build.abi,
            "reason": build.reason,
            "seconds": float(build.seconds),
            "resources": encode_metrics(build.resources),
            "compiler": build.compiler,
            "target": build.target,
            "created": build.created or created,
            "machine": build.machine or None,
        }
    )


def build_record(row: Row) -> BuildRecord:
    """A row of `builds`, without its id."""
    columns = {name: value for name, value in dict(row).items() if name != "id"}
    columns["status"] = Status(columns["status"])
    columns["resources"] = decode_numbers(columns["resources"])
    columns["machine"] = columns.get("machine") or ""
    return BuildRecord(**columns)


def measurement_row(measurement: MeasurementRecord, seq: int, created: str) -> Row:
    """A row of `measurements`."""
    return identified(
        {
            "candidate": candidate_id(measurement.candidate),
            "source_digest": measurement.source_digest,
            "device_instance": measurement.device_instance,
            "device_class": measurement.device_class,
            "protocol": protocol_id(measurement.protocol),
            "session": measurement.session,
            "block": measurement.block,
            "metrics": encode_samples(measurement.metrics),
            "sentinel_ns": measurement.sentinel_ns,
            "disturbed": measurement.disturbed,
            "details": canonical_json(measurement.details) if measurement.details else None,
            "status": measurement.status.value,
            "created": measurement.created or created,
            "reason": storable(measurement.reason),
            "seq": seq,
        }
    )


def measurement_record(row: Row) -> MeasurementRecord:
    """A row of `measurements` joined with its candidate and protocol."""
    return MeasurementRecord(
        candidate=CandidateKey(row["problem"], row["solver"], row["solver_version"], row["config"]),
        source_digest=row["source_digest"],
        device_instance=row["device_instance"],
        device_class=row["device_class"],
        protocol=row["protocol"],
        session=row["session"],
        block=row["block"],
        metrics=decode_samples(row["metrics"]),
        sentinel_ns=row["sentinel_ns"],
        disturbed=row["disturbed"],
        status=Status(row["status"]),
        reason=row["reason"],
        details=decode_details(row["details"]),
        created=row["created"],
        seq=row["seq"],
    )


def mark_row(mark: MarkRecord, seq: int, created: str) -> Row:
    """A row of `marks`."""
    return identified(
        {
            "kind": mark.kind.value,
            "scope": mark.scope,
            "problem": mark.problem,
            "solver": mark.solver,
            "solver_version": mark.solver_version,
            "protocol": None if mark.protocol is None else protocol_id(mark.protocol),
            "device_instance": mark.device_instance,
            "device_class": mark.device_class,
            "session": mark.session,
            "seq": seq,
            "created": mark.created or created,
        }
    )


def mark_record(row: Row) -> MarkRecord:
    """A row of `marks` joined with its protocol."""
    columns = {name: value for name, value in row.items() if name != "id"}
    columns["kind"] = MarkKind(columns["kind"])
    return MarkRecord(**columns)


def storable(text: str) -> str:
    """A text that UTF-8 can encode: lone surrogates are written as escape sequences."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def decision_row(decision: DecisionRecord, created: str) -> Row:
    """A row of `verdicts`."""
    return identified(
        {
            "study": decision.study,
            "problem": decision.problem,
            "device": decision.device,
            "solver": decision.solver,
            "config": decision.config.key,
            "status": decision.status,
            "record": canonical_json(decision.record),
            "created": decision.created or created,
        }
    )


def decision_record(row: Row) -> DecisionRecord:
    """A row of `verdicts`, without its id."""
    columns = {name: value for name, value in dict(row).items() if name != "id"}
    columns["config"] = Config.from_key(columns["config"])
    columns["record"] = read_json(columns["record"]).mapping()
    return DecisionRecord(**columns)
