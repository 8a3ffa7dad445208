"""What was timed by earlier processes: measurements of a ledger, one by one for each config.

They are under a problem that says which function with which arguments, so a config that is added
later finds all others known, and an edit elsewhere in the file changes nothing. Another class of
device, another Triton or another way of timing has measurements of its own.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TypeVar

from skipjack.core.trial import Status
from skipjack.errors import CorruptFileError, StorageError
from skipjack.integrations.outcomes import Outcome
from skipjack.integrations.race import fold
from skipjack.ledger import (
    CandidateKey,
    Ledger,
    MarkKind,
    MarkRecord,
    MeasurementRecord,
    MetricSamples,
)

log = logging.getLogger(__name__)

SOLVER = "triton_autotune"
_VERSION = 1
_LASTING = (Status.BUILD_ERROR, Status.OUT_OF_MEMORY)
"""Failures that come again; a crash or a hang may have been an accident and is tried again."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AutotunePlace:
    """What measurements are of, and where and how they were taken."""

    problem: str
    device_class: str
    device_instance: str
    protocol: str


@dataclass(frozen=True, slots=True)
class KnownConfigs:
    """What is known of configs, by their texts."""

    times_ns: Mapping[str, float] = field(default_factory=dict)
    """On one scale."""
    failures: Mapping[str, Outcome] = field(default_factory=dict)
    marks: frozenset[str] = frozenset()
    """Searches that came to their end."""

    def leader(self, among: Collection[str]) -> str | None:
        """The fastest of these."""
        times = {text: self.times_ns[text] for text in among if text in self.times_ns}
        return min(times, key=lambda text: times[text], default=None)


class AutotuneResults:
    """Results in a user directory; without one, or where it cannot be used, of this process alone.

    A kernel that runs must not stop because its timings cannot be kept: trouble with the file is
    logged.
    """

    def __init__(
        self, directory: Path | None, place: AutotunePlace, *, earlier: bool = True
    ) -> None:
        """Without `earlier` nothing is known of processes before; what is found is kept."""
        self._directory = directory
        self._earlier = earlier
        self.place = place
        self._own: list[MeasurementRecord] = []
        self._own_marks: set[str] = set()

    def known(self) -> KnownConfigs:
        """Everything that is still valid here."""
        sessions: dict[str, dict[str, float]] = {}
        failures: dict[str, Outcome] = {}
        kept = self._with_ledger(self._read) if self._earlier else None
        measured, marks = kept or ([], [])
        for record in filter(self._is_valid, self._with_own(measured)):
            text = record.candidate.config
            if record.times_ns:
                times = sessions.setdefault(record.session, {})
                times[text] = median(record.times_ns)
                failures.pop(text, None)
            elif record.status in _LASTING:
                failures[text] = Outcome(record.status, record.reason)
        marks = [mark for mark in marks if mark.kind is MarkKind.SEARCH_ENDED]
        ended = {mark.scope for mark in filter(self._is_valid, marks)}
        return KnownConfigs(fold(sessions.values()), failures, frozenset(ended | self._own_marks))

    def _read(self, ledger: Ledger) -> tuple[list[MeasurementRecord], list[MarkRecord]]:
        return ledger.measurements(self.place.problem), ledger.marks(self.place.problem)

    def _with_own(self, kept: list[MeasurementRecord]) -> list[MeasurementRecord]:
        """Those of the ledger, and our own that it could not take: a disk may be full."""
        sessions = {record.session for record in kept}
        return kept + [record for record in self._own if record.session not in sessions]

    def _is_valid(self, record: MeasurementRecord | MarkRecord) -> bool:
        by = record.candidate if isinstance(record, MeasurementRecord) else record
        here = (self.place.device_class, self.place.protocol)
        made = (record.device_class, record.protocol, by.solver, by.solver_version)
        return made == (*here, SOLVER, _VERSION)

    def mark(self, text: str) -> None:
        """Note that a search came to its end, so that nobody starts it again."""
        place = self.place
        mark = MarkRecord(
            MarkKind.SEARCH_ENDED,
            text,
            place.problem,
            SOLVER,
            _VERSION,
            place.protocol,
            place.device_instance,
            place.device_class,
            session=secrets.token_hex(8),
        )
        self._own_marks.add(text)
        self._with_ledger(lambda ledger: ledger.add_mark(mark))

    def keep(
        self, samples_ns: Mapping[str, Sequence[float]], failures: Mapping[str, Outcome]
    ) -> None:
        """Add what one round of timings found."""
        session = secrets.token_hex(8)
        records = [self._record(text, session, tuple(ns)) for text, ns in samples_ns.items() if ns]
        records += [self._record(text, session, (), outcome) for text, outcome in failures.items()]
        self._own += records
        self._with_ledger(lambda ledger: ledger.add_measurements(records))

    def _record(
        self, text: str, session: str, samples_ns: tuple[float, ...], outcome: Outcome | None = None
    ) -> MeasurementRecord:
        place = self.place
        return MeasurementRecord(
            CandidateKey(place.problem, SOLVER, _VERSION, text),
            source_digest=None,
            device_instance=place.device_instance,
            device_class=place.device_class,
            protocol=place.protocol,
            session=session,
            block=0,
            metrics={"time_ns": MetricSamples("ns", samples_ns)},
            status=outcome.status if outcome else Status.OK,
            reason=outcome.reason if outcome else "",
        )

    def _with_ledger(self, use: Callable[[Ledger], T]) -> T | None:
        if self._directory is None:
            return None
        for _ in range(2):
            try:
                with Ledger.open(self._directory) as ledger:
                    return use(ledger)
            except CorruptFileError as error:
                log.warning("%s", error)  # it was set aside; the second time there is a new one
            except StorageError as error:
                log.warning("autotuning results are not kept: %s", error)
                break
        return None
