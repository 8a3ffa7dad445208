"""What was measured before, from the ledger: each run is used once, then a new one is made."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skipjack.core.config import Config
from skipjack.core.objective import Metric
from skipjack.core.trial import Status
from skipjack.errors import MalformedError
from skipjack.ledger import Ledger
from skipjack.ledger.records import CandidateKey, MeasurementRecord
from skipjack.reading import read_json
from skipjack.sweep.outcome import Outcome
from skipjack.sweep.workload import Workload

SOLVER = "command"
SOLVER_VERSION = 1

_MARK = "command:forget"
"""The protocol of a record that is no run, but says what of those before it is forgotten."""
_EVERYTHING, _FAILURES = "everything", "failures"
_OURS = "skipjack."
"""Prefix of what is kept beside the metrics of a run."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where runs are made: results of other devices are not taken for results of this one."""

    device_class: str
    device_instance: str
    session: str


class History:
    """Runs of one workload on one class of device.

    The first time that a point is wanted, its first recorded run answers; the second time its
    second one. A search that is run again so retraces its path at no cost, repeats included.
    """

    def __init__(
        self,
        ledger: Ledger,
        workload: Workload,
        place: Place,
        run_timeout_s: float = float("inf"),
    ) -> None:
        """With a longer `run_timeout_s` than before, what took too long gets another chance."""
        self._ledger, self._workload, self._place = ledger, workload, place
        self._timeout_s = run_timeout_s
        self._runs: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
        self._used: dict[tuple[str, str], int] = defaultdict(int)
        self._block = 0
        for record in ledger.measurements(workload.key):
            if record.device_class != place.device_class:
                continue
            if record.protocol == _MARK:
                self._drop(record.verdict)
            elif record.verdict != Status.TIMEOUT or self._would_time_out(record):
                self._runs[(record.candidate.config, record.protocol)].append(_outcome(record))

    def known(self, point: Config, settings: Mapping[str, Any]) -> bool:
        """Whether `take` would answer."""
        key = (point.key, protocol_text(settings))
        return self._used[key] < len(self._runs[key])

    def take(self, point: Config, settings: Mapping[str, Any]) -> Outcome | None:
        """The next run of this point that was not used yet, if there is one."""
        key = (point.key, protocol_text(settings))
        used = self._used[key]
        if used >= len(self._runs[key]):
            return None
        self._used[key] = used + 1
        return self._runs[key][used]

    def _would_time_out(self, record: MeasurementRecord) -> bool:
        limit = record.metrics.get(f"{_OURS}timeout_s", float("inf"))
        return not isinstance(limit, str) and self._timeout_s <= limit

    def forget_failures(self) -> None:
        """Let points that failed be run again; LoadGen's INVALID is an answer, not a failure."""
        self._forget(_FAILURES)

    def forget_all(self) -> None:
        """Start over. The ledger keeps everything; what lies before is not used any more."""
        self._forget(_EVERYTHING)

    def _forget(self, what: str) -> None:
        self._write(Config(), _MARK, (), {}, what)
        self._drop(what)

    def _drop(self, what: str) -> None:
        """What was recorded so far and is forgotten, now or in an earlier sitting."""
        kept = (Status.OK, Status.INVALID) if what == _FAILURES else ()
        for key, runs in self._runs.items():
            self._runs[key] = [run for run in runs if run.status in kept]

    def add(self, point: Config, settings: Mapping[str, Any], outcome: Outcome) -> None:
        """Keep a run that was just made; it is in the file when this returns."""
        text = protocol_text(settings)
        metrics = _stored(outcome)
        if outcome.status is Status.TIMEOUT:
            metrics[f"{_OURS}timeout_s"] = self._timeout_s
        self._write(point, text, (outcome.seconds * 1e9,), metrics, outcome.status.value)
        key = (point.key, text)
        self._runs[key].append(outcome)
        self._used[key] = len(self._runs[key])

    def _write(
        self,
        point: Config,
        protocol: str,
        samples_ns: tuple[float, ...],
        metrics: Mapping[str, Metric],
        verdict: str,
    ) -> None:
        self._block += 1
        record = MeasurementRecord(
            CandidateKey(self._workload.key, SOLVER, SOLVER_VERSION, point.key),
            None,
            self._place.device_instance,
            self._place.device_class,
            protocol,
            self._place.session,
            self._block,
            samples_ns,
            metrics=metrics,
            verdict=verdict,
        )
        self._ledger.add_measurements([record])

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


def _stored(outcome: Outcome) -> dict[str, Metric]:
    ours: dict[str, Metric] = {
        f"{_OURS}build_seconds": outcome.build_seconds,
        f"{_OURS}reason": outcome.reason,
        f"{_OURS}log": outcome.log,
        f"{_OURS}notes": json.dumps(outcome.notes),
    }
    return {**outcome.metrics, **{name: value for name, value in ours.items() if value}}


def _notes(text: str) -> tuple[str, ...]:
    try:
        return tuple(note.text() for note in read_json(text, surrogates=True).elements())
    except MalformedError:  # of a ledger that others wrote: the run counts all the same
        return ()


def _outcome(record: MeasurementRecord) -> Outcome:
    metrics = {k: v for k, v in record.metrics.items() if not k.startswith(_OURS)}
    kept = {k.removeprefix(_OURS): v for k, v in record.metrics.items() if k.startswith(_OURS)}
    return Outcome(
        Status(record.verdict),
        metrics,
        str(kept.get("reason", "")),
        record.samples_ns[0] / 1e9 if record.samples_ns else 0.0,
        float(kept.get("build_seconds", 0.0)),
        str(kept.get("log", "")),
        _notes(str(kept.get("notes", "[]"))),
    )
