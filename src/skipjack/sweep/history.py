"""What was measured before, from the ledger: each run is used once, then a new one is made."""

from __future__ import annotations

import heapq
import json
import math
import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skipjack.core.config import Config
from skipjack.core.trial import Status
from skipjack.ledger import (
    CandidateKey,
    Ledger,
    MarkKind,
    MarkRecord,
    MeasurementRecord,
    MetricSamples,
    single,
)
from skipjack.sweep.outcome import Outcome
from skipjack.sweep.workload import Workload

SOLVER = "command"
SOLVER_VERSION = 1

_EVERYTHING, _FAILURES = "everything", "failures"
_OURS = "skipjack."
"""Prefix of what Skipjack measures beside the metrics that a run says of itself."""
_RUN_SECONDS, _BUILD_SECONDS = f"{_OURS}run_seconds", f"{_OURS}build_seconds"


@dataclass(frozen=True, slots=True)
class SweepPlace:
    """What is run, and where: results of other devices are not taken for results of this one."""

    workload: Workload
    device_class: str
    device_instance: str


class RunHistory:
    """Runs of one workload on one class of device.

    The first time that a point is wanted, its first recorded run answers; the second time its
    second one. A search that is run again so retraces its path at no cost, repeats included.
    """

    def __init__(
        self, ledger: Ledger, place: SweepPlace, run_timeout_s: float = float("inf")
    ) -> None:
        """With a longer `run_timeout_s` than before, what took too long gets another chance."""
        self._ledger, self._place, self._timeout_s = ledger, place, run_timeout_s
        self._workload = place.workload.key
        self._session = uuid.uuid4().hex[:12]
        self._runs: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
        self._used: dict[tuple[str, str], int] = defaultdict(int)
        self._block = 0
        runs: list[MeasurementRecord | MarkRecord] = [*ledger.measurements(self._workload)]
        for record in heapq.merge(ledger.marks(self._workload), runs, key=lambda one: one.seq):
            if record.device_class != place.device_class:
                continue
            if isinstance(record, MarkRecord):
                if record.kind is MarkKind.FORGET:
                    self._drop(record.scope)
            elif record.status is not Status.TIMEOUT or self._would_time_out(record):
                self._runs[(record.candidate.config, record.protocol)].append(_outcome(record))

    def known(self, point: Config, settings: Mapping[str, Any]) -> bool:
        """Whether `take` would answer."""
        key = (point.key, protocol_text(settings))
        return self._used[key] < len(self._runs[key])

    def take(self, point: Config, settings: Mapping[str, Any]) -> Outcome | None:
        """The next run of this point that was not used yet, if there is one."""
        key = (point.key, protocol_text(settings))
        if not self.known(point, settings):
            return None
        self._used[key] += 1
        return self._runs[key][self._used[key] - 1]

    def _would_time_out(self, record: MeasurementRecord) -> bool:
        limit = record.details.get("timeout_s", math.inf)
        return isinstance(limit, int | float) and self._timeout_s <= limit

    def forget_failures(self) -> None:
        """Let points that failed be run again; LoadGen's INVALID is an answer, not a failure."""
        self._forget(_FAILURES)

    def forget_all(self) -> None:
        """Start over. The ledger keeps everything; what lies before is not used any more."""
        self._forget(_EVERYTHING)

    def _forget(self, what: str) -> None:
        place = self._place
        self._ledger.add_mark(
            MarkRecord(
                MarkKind.FORGET,
                what,
                self._workload,
                SOLVER,
                SOLVER_VERSION,
                None,
                place.device_instance,
                place.device_class,
                self._session,
            )
        )
        self._drop(what)

    def _drop(self, what: str) -> None:
        """What was recorded so far and is forgotten, now or in an earlier run."""
        kept = (Status.OK, Status.INVALID) if what == _FAILURES else ()
        for key, runs in self._runs.items():
            self._runs[key] = [run for run in runs if run.status in kept]

    def add(self, point: Config, settings: Mapping[str, Any], outcome: Outcome) -> None:
        """Keep a run that was just made; it is in the file when this returns."""
        text = protocol_text(settings)
        self._block += 1
        record = MeasurementRecord(
            CandidateKey(self._workload, SOLVER, SOLVER_VERSION, point.key),
            None,
            self._place.device_instance,
            self._place.device_class,
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

    def _details(self, outcome: Outcome) -> dict[str, Any]:
        details: dict[str, Any] = {}
        if outcome.log:
            details["log"] = outcome.log
        if outcome.notes:
            details["notes"] = list(outcome.notes)
        if outcome.status is Status.TIMEOUT and math.isfinite(self._timeout_s):
            details["timeout_s"] = self._timeout_s
        return details

    def seconds(self) -> list[tuple[float, float]]:
        """Run and build seconds of everything recorded, for estimates."""
        return [
            (run.seconds, run.build_seconds)
            for runs in self._runs.values()
            for run in runs
            if run.status is Status.OK
        ]


def protocol_text(settings: Mapping[str, Any]) -> str:
    """How a run is made, in the ledger's words; settings are those of short runs."""
    return f"command:{json.dumps(dict(settings), sort_keys=True, separators=(',', ':'))}"


def _metrics(outcome: Outcome) -> dict[str, MetricSamples]:
    ours = {_RUN_SECONDS: MetricSamples("s", (outcome.seconds,))}
    if outcome.build_seconds:
        ours[_BUILD_SECONDS] = MetricSamples("s", (outcome.build_seconds,))
    return {**single(outcome.metrics), **ours}


def _outcome(record: MeasurementRecord) -> Outcome:
    said = {
        name: samples.values[0]
        for name, samples in record.metrics.items()
        if samples.values and not name.startswith(_OURS)
    }
    notes = record.details.get("notes")
    return Outcome(
        record.status,
        said,
        record.reason,
        _seconds(record, _RUN_SECONDS),
        _seconds(record, _BUILD_SECONDS),
        str(record.details.get("log", "")),
        # A ledger that others wrote may have anything there: the run counts all the same.
        tuple(map(str, notes)) if isinstance(notes, list) else (),
    )


def _seconds(record: MeasurementRecord, name: str) -> float:
    samples = record.metrics.get(name, MetricSamples("s", ()))
    return next((float(value) for value in samples.values if not isinstance(value, str)), 0.0)
