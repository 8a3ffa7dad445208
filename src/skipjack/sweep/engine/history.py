"""Earlier runs from the ledger: each is used once, then a new one is made."""

from __future__ import annotations

import heapq
import json
import math
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from skipjack.core import Config, Status
from skipjack.ledger import (
    CandidateKey,
    Ledger,
    MarkKind,
    MarkRecord,
    MeasurementRecord,
    MetricSamples,
    single,
)
from skipjack.sweep.bench import RunOutcome, Workload

SOLVER = "command"
SOLVER_VERSION = 1

_EVERYTHING, _FAILURES = "everything", "failures"
_RESULTS = (Status.OK, Status.INVALID)
_OWN_PREFIX = "skipjack."
"""Prefix of metrics that Skipjack measures in addition to those that a run reports."""
_RUN_SECONDS, _BUILD_SECONDS = f"{_OWN_PREFIX}run_seconds", f"{_OWN_PREFIX}build_seconds"


@dataclass(frozen=True, slots=True)
class SweepContext:
    """The workload and the device of a sweep: results of other devices are not used."""

    workload: Workload
    device_class: str
    device_instance: str


class RunHistory:
    """Runs of one workload on one class of device.

    The first request for a point is answered by its first recorded run, the second request by its
    second run. A search that is run again thus retraces its path at no cost, repeats included.
    """

    def __init__(
        self, ledger: Ledger, context: SweepContext, run_timeout_s: float = float("inf")
    ) -> None:
        """With a longer `run_timeout_s` than before, runs that timed out are made again."""
        self._ledger, self._context, self._timeout_s = ledger, context, run_timeout_s
        self._workload = context.workload.key
        self._session = uuid.uuid4().hex[:12]
        self._runs: dict[tuple[str, str], list[RunOutcome]] = defaultdict(list)
        self._used: dict[tuple[str, str], int] = defaultdict(int)
        self._block = 0
        for record in in_order(ledger, self._workload):
            if record.device_class != context.device_class:
                continue
            if isinstance(record, MarkRecord):
                if record.kind is MarkKind.FORGET:
                    self._drop(record.scope)
            elif record.status is not Status.TIMEOUT or self._would_time_out(record):
                self._runs[(record.candidate.config, record.protocol)].append(outcome_of(record))

    def known(self, point: Config, settings: Mapping[str, Any]) -> bool:
        """Whether `take` would return a run."""
        key = (point.key, protocol_text(settings))
        return self._used[key] < len(self._runs[key])

    def take(self, point: Config, settings: Mapping[str, Any]) -> RunOutcome | None:
        """The next unused run of this point, or None."""
        key = (point.key, protocol_text(settings))
        if not self.known(point, settings):
            return None
        self._used[key] += 1
        return self._runs[key][self._used[key] - 1]

    def _would_time_out(self, record: MeasurementRecord) -> bool:
        limit = record.details.get("timeout_s", math.inf)
        return isinstance(limit, int | float) and self._timeout_s <= limit

    def forget_failures(self) -> None:
        """Let failed points be run again; LoadGen's INVALID is a result, not a failure."""
        self._forget(_FAILURES)

    def forget_all(self) -> None:
        """Start over: the ledger keeps all earlier runs, but they are no longer used."""
        self._forget(_EVERYTHING)

    def _forget(self, what: str) -> None:
        context = self._context
        self._ledger.add_mark(
            MarkRecord(
                MarkKind.FORGET,
                what,
                self._workload,
                SOLVER,
                SOLVER_VERSION,
                None,
                context.device_instance,
                context.device_class,
                self._session,
            )
        )
        self._drop(what)

    def _drop(self, what: str) -> None:
        """Drop the runs recorded so far that were forgotten, now or in an earlier session."""
        for key, runs in self._runs.items():
            self._runs[key] = [run for run in runs if _outlives(run.status, what)]

    def add(self, point: Config, settings: Mapping[str, Any], outcome: RunOutcome) -> None:
        """Record a run that was just made; it is on disk when this returns."""
        text = protocol_text(settings)
        self._block += 1
        record = MeasurementRecord(
            CandidateKey(self._workload, SOLVER, SOLVER_VERSION, point.key),
            None,
            self._context.device_instance,
            self._context.device_class,
            text,
            self._session,
            self._block,
            _metrics(outcome),
            status=outcome.status,
            reason=outcome.reason,
            details=self._details(outcome),
        )
        self._ledger.add_measurements([record])
        key = (point.key, text)
        self._runs[key].append(outcome)
        self._used[key] = len(self._runs[key])

    def _details(self, outcome: RunOutcome) -> dict[str, Any]:
        details: dict[str, Any] = {}
        if outcome.log:
            details["log"] = outcome.log
        if outcome.notes:
            details["notes"] = list(outcome.notes)
        if outcome.status is Status.TIMEOUT and math.isfinite(self._timeout_s):
            details["timeout_s"] = self._timeout_s
        return details

    def seconds(self) -> list[tuple[float, float]]:
        """Run and build seconds of all recorded runs, for estimates."""
        return [
            (run.seconds, run.build_seconds)
            for runs in self._runs.values()
            for run in runs
            if run.status is Status.OK
        ]


def in_order(ledger: Ledger, workload: str) -> Iterable[MeasurementRecord | MarkRecord]:
    """The runs and marks of a workload, in the order in which they were recorded."""
    runs: list[MeasurementRecord | MarkRecord] = [*ledger.measurements(workload)]
    return heapq.merge(ledger.marks(workload), runs, key=lambda one: one.seq)


def recorded_runs(ledger: Ledger, workload: str) -> list[MeasurementRecord]:
    """The runs of a workload that were not forgotten, in order."""
    kept: list[MeasurementRecord] = []
    for record in in_order(ledger, workload):
        if isinstance(record, MeasurementRecord):
            kept.append(record)
        elif record.kind is MarkKind.FORGET:
            kept = [
                run
                for run in kept
                if run.device_class != record.device_class or _outlives(run.status, record.scope)
            ]
    return kept


def _outlives(status: Status, scope: str) -> bool:
    """Whether a run is kept when others are forgotten."""
    return scope == _FAILURES and status in _RESULTS


def protocol_text(settings: Mapping[str, Any]) -> str:
    """The ledger's protocol of a run; `settings` are those of short runs."""
    return f"command:{json.dumps(dict(settings), sort_keys=True, separators=(',', ':'))}"


def _metrics(outcome: RunOutcome) -> dict[str, MetricSamples]:
    ours = {_RUN_SECONDS: MetricSamples("s", (outcome.seconds,))}
    if outcome.build_seconds:
        ours[_BUILD_SECONDS] = MetricSamples("s", (outcome.build_seconds,))
    return {**single(outcome.metrics), **ours}


def outcome_of(record: MeasurementRecord) -> RunOutcome:
    """The outcome of a recorded run."""
    reported = {
        name: samples.values[0]
        for name, samples in record.metrics.items()
        if samples.values and not name.startswith(_OWN_PREFIX)
    }
    notes = record.details.get("notes")
    return RunOutcome(
        record.status,
        reported,
        record.reason,
        _seconds(record, _RUN_SECONDS),
        _seconds(record, _BUILD_SECONDS),
        str(record.details.get("log", "")),
        # Another program may have written anything here; the run counts nevertheless.
        tuple(map(str, notes)) if isinstance(notes, list) else (),
    )


def _seconds(record: MeasurementRecord, name: str) -> float:
    samples = record.metrics.get(name, MetricSamples("s", ()))
    return next((float(value) for value in samples.values if not isinstance(value, str)), 0.0)
